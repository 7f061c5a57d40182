"""The Novita simulator as a program beside the emulator."""

import http.client
import os
from pathlib import Path

from local.child import Child
from local.ports import HOST
from local.problems import StartError
from local.waiting import answers

START_SECONDS = 60


class Simulator:
    def __init__(self, state_dir: Path, port: int, *, kept_in: Path) -> None:
        self.port = port
        self.url = f"http://{HOST}:{port}"
        self.api_url = f"{self.url}/gpu-instance/openapi/v1"
        self._state_dir = state_dir
        self._kept_in = kept_in
        self._child: Child | None = None

    def start(self) -> Child:
        log = self._state_dir / "simulator.log"
        self._child = Child(
            "local.novita",
            ["--port", str(self.port), "--state", str(self._kept_in)],
            environment={"PATH": os.environ["PATH"], "LANG": "C.UTF-8"},
            log=log,
            state_dir=self._state_dir,
        )
        if not self._child.wait_for_answer(lambda: answers(self.port, "/_sim/health"), START_SECONDS):
            self.stop()
            raise StartError(f"the Novita simulator did not start: see {log}")
        return self._child

    def stop(self) -> bool:
        """True if it ended in order, so its machines have been saved."""
        child, self._child = self._child, None
        return child is not None and child.stop()

    def reset(self) -> None:
        connection = http.client.HTTPConnection(HOST, self.port, timeout=30)
        connection.request("POST", "/_sim/reset")
        if (status := connection.getresponse().status) >= 300:
            raise StartError(f"the Novita simulator answered {status} to a reset")
        connection.close()
