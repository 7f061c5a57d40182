"""The Novita simulator as a program beside the emulator."""

import os
from pathlib import Path

from local.process import Child
from local.server import Server


class Simulator(Server):
    name = "the Novita simulator"
    ready_path = "/_sim/health"
    reset_path = "/_sim/reset"

    def __init__(self, state_dir: Path, port: int, *, kept_in: Path) -> None:
        super().__init__(state_dir, port)
        self.api_url = f"{self.url}/gpu-instance/openapi/v1"
        self._kept_in = kept_in

    def start(self) -> Child:
        return self._run(
            "local.novita",
            ["--port", str(self.port), "--state", str(self._kept_in)],
            environment={"PATH": os.environ["PATH"], "LANG": "C.UTF-8"},
            log=self._state_dir / "simulator.log",
        )
