"""The folder that a local copy keeps between runs, and how it survives being killed.

- saved: what the last clean stop left: the emulator's state and the simulator's, as one
- running: this run's copy of it, thrown away unless this run too stops cleanly
- version: the number of the format that both are in
- old-<n>: what was saved by another version, with all that this version needs to run with it
- tmp: the emulator's scratch files, emptied at start
"""

import fcntl
import shutil
from itertools import count
from pathlib import Path
from typing import IO

from local.waiting import wait_until
from ops.command import RefusalError

# Raise it whenever this folder, the simulator's file or what the emulator saves is laid out differently, so
# that no version loads what another one saved. Without a file it is 1: there were no numbers yet.
VERSION = 3


class StateDir:
    def __init__(self, path: Path) -> None:
        self.path = path.resolve()
        self.running = self.path / "running"
        self.emulator = self.running / "emulator"
        self.simulator = self.running / "simulator.json"
        self.process_groups = self.path / "processes"
        self.deployment_id = self.path / "deployment"
        self.api_key = self.path / "api-key"
        self.api_url = self.path / "api-url"  # there while the service answers, for `ostler`
        self.webhook_secret = self.path / "webhook-secret"
        self._version = self.path / "version"
        self._saved = self.path / "saved"
        self._previous = self.path / "saved.previous"
        self._lock: IO[str] | None = None

    def log(self, name: str) -> Path:
        return self.path / f"{name}.log"

    def lock(self, timeout_seconds: float) -> None:
        """The lock goes with the process that holds it, however that ends."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)  # keys are kept here
        self._lock = lock = (self.path / "lock").open("a")
        if not wait_until(lambda: _try_lock(lock), timeout_seconds, pause=0.2):
            self.unlock()
            raise RefusalError(
                f"another copy is running with the state in {self.path}. "
                "Stop it, or give this one a folder of its own with OSTLER_STATE_DIR."
            )

    def unlock(self) -> None:
        if self._lock:
            self._lock.close()
            self._lock = None

    def is_saved(self) -> bool:
        return self._saved.exists() or self._previous.exists()

    def saved_version(self) -> int | None:
        """None if there is a number that cannot be read."""
        if not self._version.exists():
            return 1
        text = self._version.read_text(errors="replace").strip()
        return int(text) if text.isdecimal() else None

    def saved_novita(self) -> str:
        """The address of the Novita that the saved records belong to, or `simulator`."""
        files = [folder / "novita" for folder in (self._saved, self._previous)]
        return next((file.read_text().strip() for file in files if file.exists()), "simulator")

    def move_aside(self) -> Path:
        """Where it is then: a folder that the version which saved it can run with. Keys and id stay, too."""
        aside = next(path for n in count(1) if not (path := self.path / f"old-{n}").exists())
        aside.mkdir(mode=0o700)
        for file in (self.api_key, self.webhook_secret, self.deployment_id, self._version):
            if file.exists():
                shutil.copy2(file, aside)
        for folder in (self._saved, self._previous):
            if folder.exists():
                folder.rename(aside / folder.name)
        return aside

    def open(self) -> None:
        if self._previous.exists() and not self._saved.exists():
            self._previous.rename(self._saved)  # killed between the two renames of `save`
        shutil.rmtree(self.running, ignore_errors=True)
        if self._saved.exists():
            shutil.copytree(self._saved, self.running)
        self.emulator.mkdir(parents=True, exist_ok=True)
        self._version.write_text(f"{VERSION}\n")

    def save(self) -> None:
        shutil.rmtree(self._previous, ignore_errors=True)
        if self._saved.exists():
            self._saved.rename(self._previous)
        self.running.rename(self._saved)
        shutil.rmtree(self._previous, ignore_errors=True)

    def clear(self) -> None:
        """Empty; keys, secrets and the deployment's id stay, since they may be known elsewhere."""
        for kept in (self._saved, self._previous, self.running):
            shutil.rmtree(kept, ignore_errors=True)
        self.emulator.mkdir(parents=True)


def _try_lock(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
