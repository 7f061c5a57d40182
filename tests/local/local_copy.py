"""A copy of Ostler on this machine, started and stopped the way a person does it."""

import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import requests

from local.paths import ROOT
from local.ports import HOST, Ports
from local.process import running_processes
from local.waiting import wait_until

MAKE_RUN = ("make", "run")
RUN = (sys.executable, "-m", "local.run")
READY_SECONDS = 180  # a first start synthesises, on a machine that may be busy
STOP_SECONDS = 30


class LocalCopy:
    def __init__(self, state_dir: Path, ports: Ports) -> None:
        self.state_dir = state_dir
        self.ports = ports
        self.url = f"http://{HOST}:{ports.api}"
        self.lines: list[str] = []
        self._process: subprocess.Popen[str] | None = None

    def start(self, command: tuple[str, ...] = RUN, **environment: str) -> None:
        self.launch(command, **environment)
        ready = f"ostler is ready on {self.url}"
        assert wait_until(lambda: ready in self.lines or self.ended(), READY_SECONDS), self.output
        assert not self.ended(), self.output

    def launch(self, command: tuple[str, ...] = RUN, **environment: str) -> None:
        self.lines = []
        self._process = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, **self._places(), **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        threading.Thread(target=self._read, args=(self._process,), daemon=True).start()

    def ended(self) -> bool:
        return self.process.poll() is not None

    def exit_code(self) -> int:
        return self.process.wait(STOP_SECONDS)

    def press_ctrl_c(self) -> None:
        """A terminal sends it to everything in the foreground, make included."""
        os.killpg(self.process.pid, signal.SIGINT)
        self.exit_code()

    def kill(self) -> None:
        self.process.kill()
        self.exit_code()

    @property
    def process(self) -> subprocess.Popen[str]:
        assert self._process is not None, "it was never started"
        return self._process

    @property
    def output(self) -> str:
        return "\n".join(self.lines)

    @property
    def key(self) -> str:
        return (self.state_dir / "api-key").read_text().strip()

    def get(self, path: str, key: str | None = None) -> requests.Response:
        headers = {"Authorization": f"Bearer {key or self.key}"}
        return requests.get(f"{self.url}{path}", headers=headers, timeout=30)

    def leaves_nothing(self) -> bool:
        return not self.processes() and not self.open_ports()

    def processes(self) -> list[str]:
        return [command for _, _, command in running_processes() if str(self.state_dir) in command]

    def open_ports(self) -> list[int]:
        return [port for port in (self.ports.api, self.ports.simulator, self.ports.emulator) if _open(port)]

    def _places(self) -> dict[str, str]:
        return {
            "OSTLER_STATE_DIR": str(self.state_dir),
            "OSTLER_PORT": str(self.ports.api),
            "NOVITA_SIM_PORT": str(self.ports.simulator),
            "AWS_EMULATOR_PORT": str(self.ports.emulator),
        }

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            self.lines.append(line.rstrip("\n"))


def _open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((HOST, port)) == 0
