"""A program that serves this machine on a port: started, waited for, reset and stopped."""

import http.client
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from local.ports import HOST
from local.process import ChildProcess
from local.waiting import http_status
from ops.command import CommandError

START_SECONDS = 60


class Server:
    name: ClassVar[str]
    ready_path: ClassVar[str]
    reset_path: ClassVar[str]

    def __init__(self, state_dir: Path, port: int) -> None:
        self.port = port
        self.url = f"http://{HOST}:{port}"
        self._state_dir = state_dir.resolve()
        self._process: ChildProcess | None = None

    def stop(self) -> bool:
        """True if it ended in order, so its state has been saved."""
        process, self._process = self._process, None
        return process is not None and process.stop()

    def reset(self) -> None:
        """Empties it without a restart."""
        connection = http.client.HTTPConnection(HOST, self.port, timeout=30)
        connection.request("POST", self.reset_path)
        if (status := connection.getresponse().status) >= 300:
            raise CommandError(f"{self.name} answered {status} to a reset")
        connection.close()

    def _run(
        self, module: str, arguments: Sequence[str], *, environment: Mapping[str, str], log: Path
    ) -> ChildProcess:
        process = ChildProcess(module, arguments, environment=environment, log=log, state_dir=self._state_dir)
        self._process = process
        if not process.wait_until_ready(
            lambda: http_status(self.port, self.ready_path) == 200, START_SECONDS
        ):
            self.stop()
            raise CommandError(f"{self.name} did not start: see {log}")
        return process


class SimulatorServer(Server):
    name = "the Novita simulator"
    ready_path = "/_sim/health"
    reset_path = "/_sim/reset"

    def __init__(self, state_dir: Path, port: int, *, state_file: Path) -> None:
        super().__init__(state_dir, port)
        self.api_url = f"{self.url}/gpu-instance/openapi/v1"
        self._state_file = state_file

    def start(self) -> ChildProcess:
        return self._run(
            "local.novita",
            ["--port", str(self.port), "--state", str(self._state_file)],
            environment={"PATH": os.environ["PATH"], "LANG": "C.UTF-8"},
            log=self._state_dir / "simulator.log",
        )
