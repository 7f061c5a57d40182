"""The AWS emulator alone: what the local copy deploys to, and what integration tests run against."""

import os
import shutil
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar

import boto3
import botocore.session
from botocore.config import Config

from local.child import Child
from local.emulator_environment import emulator_environment
from local.ports import HOST
from local.server import Server

REGION = "us-east-1"
ACCOUNT = "000000000000"
ACCESS_KEY, SECRET_KEY = "test", "test"


class Emulator(Server):
    """`with Emulator(folder, port) as emulator: emulator.client("dynamodb")`.

    Scratch files and logs go to `state_dir`. State is loaded from `kept_in` and saved there at a clean stop,
    if that is given; else it ends with the emulator. With `enforce_iam` a function may do what its role
    allows and nothing else, and each call takes about twice as long. A reset takes every table, queue,
    function and stack away.
    """

    name = "the AWS emulator"
    ready_path = "/_ministack/ready"
    reset_path = "/_ministack/reset"
    program: ClassVar[str] = "local.emulator_program"

    def __init__(
        self, state_dir: Path, port: int, *, kept_in: Path | None = None, enforce_iam: bool = False
    ) -> None:
        super().__init__(state_dir, port)
        self._kept_in = kept_in
        self._enforce_iam = enforce_iam

    def start(self) -> Child:
        scratch = self._state_dir / "tmp"
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir(parents=True)
        if self._kept_in:
            _adopt_port(self._kept_in, self.port)
        function_log = self._state_dir / "functions.log"
        function_log.unlink(missing_ok=True)
        return self._run(
            self.program,
            [str(function_log)],
            environment=emulator_environment(
                self.port, scratch, self._kept_in, enforce_iam=self._enforce_iam
            ),
            log=self._state_dir / "emulator.log",
        )

    def session(self) -> boto3.Session:
        own = botocore.session.Session(session_vars=_NOTHING_OF_THE_USERS)
        return boto3.Session(ACCESS_KEY, SECRET_KEY, region_name=REGION, botocore_session=own)

    def client(self, service: str) -> Any:
        return self.session().client(service, endpoint_url=self.url, config=_DIRECT)  # type: ignore[call-overload]

    def table(self, name: str) -> Any:
        return self.session().resource("dynamodb", endpoint_url=self.url, config=_DIRECT).Table(name)

    def __enter__(self) -> "Emulator":
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


# Neither profiles nor files in ~/.aws have a say here: (name in a file, variables, default, conversion).
_NOTHING_OF_THE_USERS = {
    "profile": (None, None, None, None),
    "config_file": (None, None, os.devnull, None),
    "credentials_file": (None, None, os.devnull, None),
}
# An empty dict, not None: None would mean the proxies of the environment.
_DIRECT = Config(proxies={}, retries={"total_max_attempts": 2}, read_timeout=120)


def _adopt_port(kept_in: Path, port: int) -> None:
    """Queue addresses carry the port they were made with, and the emulator finds a queue by its address."""
    note = kept_in / "port"
    if note.exists() and (old := note.read_text()) != str(port):
        for file in kept_in.glob("*.json"):
            file.write_text(file.read_text().replace(f"{HOST}:{old}", f"{HOST}:{port}"))
    note.write_text(str(port))
