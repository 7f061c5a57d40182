"""A program that serves this machine on a port: started, waited for, reset and stopped."""

import http.client
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from local.ports import HOST
from local.problems import StartError
from local.process import Child
from local.waiting import answers

START_SECONDS = 60


class Server:
    name: ClassVar[str]
    ready_path: ClassVar[str]
    reset_path: ClassVar[str]

    def __init__(self, state_dir: Path, port: int) -> None:
        self.port = port
        self.url = f"http://{HOST}:{port}"
        self._state_dir = state_dir.resolve()
        self._child: Child | None = None

    def stop(self) -> bool:
        """True if it ended in order, so its state has been saved."""
        child, self._child = self._child, None
        return child is not None and child.stop()

    def reset(self) -> None:
        """A clean slate without a restart."""
        connection = http.client.HTTPConnection(HOST, self.port, timeout=30)
        connection.request("POST", self.reset_path)
        if (status := connection.getresponse().status) >= 300:
            raise StartError(f"{self.name} answered {status} to a reset")
        connection.close()

    def _run(
        self, module: str, arguments: Sequence[str], *, environment: Mapping[str, str], log: Path
    ) -> Child:
        child = Child(module, arguments, environment=environment, log=log, state_dir=self._state_dir)
        self._child = child
        if not child.wait_for_answer(lambda: answers(self.port, self.ready_path), START_SECONDS):
            self.stop()
            raise StartError(f"{self.name} did not start: see {log}")
        return child
