"""The simulator started and ended as a process of its own, on a free port unless one is given."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from local.novita.client import Simulator

ROOT = Path(__file__).resolve().parents[2]
FIRST_LINE = "novita simulator on "
STOP_SECONDS = 10


@contextmanager
def running(port: int = 0, state: Path | None = None) -> Iterator[Simulator]:
    """Ends the process cleanly, so that a state file is written."""
    process = start(port, state)
    try:
        yield Simulator(_address(process))
    finally:
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout:
            process.stdout.close()


def start(port: int = 0, state: Path | None = None) -> subprocess.Popen[str]:
    keep = ["--state", str(state)] if state else []
    command = [sys.executable, "-m", "local.novita", "--port", str(port), *keep]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    return subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)


def _address(process: subprocess.Popen[str]) -> str:
    line = process.stdout.readline() if process.stdout else ""
    if not line.startswith(FIRST_LINE):
        raise RuntimeError(f"the simulator did not start: {line.strip() or 'see its stderr'}")
    return line.removeprefix(FIRST_LINE).strip()
