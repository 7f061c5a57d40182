"""Ends what a copy that was killed may have left running, and nothing else."""

import os
import signal
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from local.waiting import wait_until


def remember(file: Path, groups: Iterable[int]) -> None:
    file.write_text("".join(f"{group}\n" for group in groups))


def end_leftovers(file: Path, state_dir: Path) -> None:
    """A number in the file may be somebody else's by now, so a process must also name our state folder."""
    if not file.exists():
        return
    groups = {int(line) for line in file.read_text().split() if line.isdigit()}

    def ours() -> list[int]:
        return [
            pid
            for pid, group, command in running_processes()
            if group in groups and str(state_dir) in command
        ]

    def none_left() -> bool:
        for pid in (left := ours()):
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        return not left

    wait_until(none_left, seconds=5)
    file.unlink()


def running_processes() -> Iterator[tuple[int, int, str]]:
    if Path("/proc/self/cmdline").exists():
        return _from_proc()
    return _from_ps()


def _from_proc() -> Iterator[tuple[int, int, str]]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):  # it ended meanwhile, or is not ours to look at
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                yield int(entry.name), os.getpgid(int(entry.name)), command


def _from_ps() -> Iterator[tuple[int, int, str]]:
    listing = subprocess.run(["ps", "-A", "-ww", "-o", "pid=,pgid=,args="], capture_output=True, text=True)
    for line in listing.stdout.splitlines():
        pid, group, command = line.split(maxsplit=2)
        yield int(pid), int(group), command
