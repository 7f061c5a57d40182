"""The AWS emulator alone: what the local copy deploys to, and what integration tests run against."""

import http.client
import os
import shutil
from pathlib import Path
from types import TracebackType
from typing import Any

import boto3
import botocore.session
from botocore.config import Config

from local.child import Child
from local.emulator_environment import emulator_environment
from local.ports import HOST
from local.problems import StartError
from local.waiting import answers

REGION = "us-east-1"
ACCOUNT = "000000000000"
ACCESS_KEY, SECRET_KEY = "test", "test"
START_SECONDS = 60


class Emulator:
    """`with Emulator(folder, port) as emulator: emulator.client("dynamodb")`.

    Scratch files and logs go to `state_dir`. State is loaded from `kept_in` and saved there at a clean stop,
    if that is given; else it ends with the emulator. With `enforce_iam` a function may do what its role
    allows and nothing else, and each call takes about twice as long.
    """

    def __init__(
        self, state_dir: Path, port: int, *, kept_in: Path | None = None, enforce_iam: bool = False
    ) -> None:
        self.port = port
        self.url = f"http://{HOST}:{port}"
        self._state_dir = state_dir.resolve()
        self._kept_in = kept_in
        self._enforce_iam = enforce_iam
        self._child: Child | None = None

    def start(self) -> Child:
        scratch = self._state_dir / "tmp"
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir(parents=True)
        if self._kept_in:
            _adopt_port(self._kept_in, self.port)
        log, function_log = self._state_dir / "emulator.log", self._state_dir / "functions.log"
        function_log.unlink(missing_ok=True)
        environment = emulator_environment(self.port, scratch, self._kept_in, enforce_iam=self._enforce_iam)
        self._child = Child(
            "local.emulator_program",
            [str(function_log)],
            environment=environment,
            log=log,
            state_dir=self._state_dir,
        )
        if not self._child.wait_for_answer(lambda: answers(self.port, "/_ministack/ready"), START_SECONDS):
            self.stop()
            raise StartError(f"the AWS emulator did not start: see {log}")
        return self._child

    def stop(self) -> bool:
        """True if it ended in order, so its state has been saved."""
        child, self._child = self._child, None
        return child is not None and child.stop()

    def reset(self) -> None:
        """A clean slate without a restart: every table, queue, function and stack is gone."""
        connection = http.client.HTTPConnection(HOST, self.port, timeout=30)
        connection.request("POST", "/_ministack/reset")
        if (status := connection.getresponse().status) != 200:
            raise StartError(f"the AWS emulator answered {status} to a reset")
        connection.close()

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
