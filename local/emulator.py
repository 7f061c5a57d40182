"""The AWS emulator alone: what the local copy deploys to, and what integration tests run against."""

import os
import shutil
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar

import boto3
import botocore.session
from botocore.config import Config

from local.ports import HOST
from local.process import ChildProcess
from local.server import Server

REGION = "us-east-1"
ACCOUNT = "000000000000"
ACCESS_KEY, SECRET_KEY = "test", "test"

# Behind a proxy the real Novita is reached with these.
PROXY_VARIABLES = (
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "http_proxy",
    "https_proxy",
    "REQUESTS_CA_BUNDLE",
    "SSL_CERT_FILE",
)


class Emulator(Server):
    """`with Emulator(folder, port) as emulator: emulator.client("dynamodb")`.

    Scratch files and logs go to `state_dir`. State is loaded from `persist_dir` and saved there at a clean
    stop, if that is given; else it ends with the emulator. With `enforce_iam` a function may do what its role
    allows and nothing else, and each call takes about twice as long. A reset takes every table, queue,
    function and stack away.
    """

    name = "the AWS emulator"
    ready_path = "/_ministack/ready"
    reset_path = "/_ministack/reset"
    program: ClassVar[str] = "local.patched_ministack"

    def __init__(
        self, state_dir: Path, port: int, *, persist_dir: Path | None = None, enforce_iam: bool = False
    ) -> None:
        super().__init__(state_dir, port)
        self._persist_dir = persist_dir
        self._enforce_iam = enforce_iam

    def start(self) -> ChildProcess:
        scratch = self._state_dir / "tmp"
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir(parents=True)
        if self._persist_dir:
            _replace_port(self._persist_dir, self.port)
        function_log = self._state_dir / "functions.log"
        function_log.unlink(missing_ok=True)
        return self._run(
            self.program,
            [str(function_log)],
            environment=_environment(self.port, scratch, self._persist_dir, enforce_iam=self._enforce_iam),
            log=self._state_dir / "emulator.log",
        )

    def session(self) -> boto3.Session:
        own = botocore.session.Session(session_vars=_NO_USER_FILES)
        return boto3.Session(ACCESS_KEY, SECRET_KEY, region_name=REGION, botocore_session=own)

    def client(self, service: str) -> Any:
        # The stubs want the service's name as a literal.
        return self.session().client(service, endpoint_url=self.url, config=_NO_PROXY_CONFIG)  # type: ignore[call-overload]  # any

    def table(self, name: str) -> Any:
        return self.session().resource("dynamodb", endpoint_url=self.url, config=_NO_PROXY_CONFIG).Table(name)

    def __enter__(self) -> "Emulator":
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


# Neither profiles nor files in ~/.aws have a say here: (name in a file, variables, default, conversion).
_NO_USER_FILES = {
    "profile": (None, None, None, None),
    "config_file": (None, None, os.devnull, None),
    "credentials_file": (None, None, os.devnull, None),
}
# An empty dict, not None: None would mean the proxies of the environment.
_NO_PROXY_CONFIG = Config(proxies={}, retries={"total_max_attempts": 2}, read_timeout=120)


def _replace_port(persist_dir: Path, port: int) -> None:
    """Queue addresses carry the port they were made with, and the emulator finds a queue by its address."""
    port_file = persist_dir / "port"
    if port_file.exists() and (old := port_file.read_text()) != str(port):
        for file in persist_dir.glob("*.json"):
            file.write_text(file.read_text().replace(f"{HOST}:{old}", f"{HOST}:{port}"))
    port_file.write_text(str(port))


def _environment(port: int, scratch: Path, persist_dir: Path | None, *, enforce_iam: bool) -> dict[str, str]:
    """Of the emulator and, through it, of the functions. No AWS_* variables and no home: a function must
    find what the stack gives it, and nothing else.
    """
    passed_on = {name: os.environ[name] for name in ("PATH", *PROXY_VARIABLES) if name in os.environ}
    return {
        **passed_on,
        "NO_PROXY": HOST,
        "no_proxy": HOST,
        "HOME": str(scratch),
        "TMPDIR": str(scratch),
        "LANG": "C.UTF-8",
        "BIND_HOST": HOST,
        "MINISTACK_HOST": HOST,
        "GATEWAY_PORT": str(port),
        "AUTH": str(enforce_iam).lower(),
        # Two services that would open ports of their own.
        "SFTP_ENABLED": "0",
        "IOT_MTLS_ENABLED": "0",
        **(_persistence(persist_dir) if persist_dir else {}),
    }


def _persistence(folder: Path) -> dict[str, str]:
    state = {"PERSIST_STATE": "1", "STATE_DIR": str(folder)}
    return {**state, "S3_PERSIST": "1", "S3_DATA_DIR": str(folder / "s3")}
