"""Programs that the runner starts, watches and stops, and what a runner that was killed left of them."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from local.paths import ROOT
from local.waiting import wait_until


class ChildProcess:
    """Leads a process group of its own: Ctrl-C in a terminal reaches the runner alone, which stops it.

    `state_dir` is on the command line of each process in the group, which is how the next start tells ours.
    """

    def __init__(
        self,
        module: str,
        arguments: Sequence[str],
        *,
        environment: Mapping[str, str],
        log: Path,
        state_dir: Path,
    ) -> None:
        self.module = module
        self.log = log
        read_end, self._write_end = os.pipe()
        wrapper = ["-m", "local.exit_with_parent", str(read_end), str(state_dir)]
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, *wrapper, module, *arguments],
                cwd=ROOT,
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                pass_fds=(read_end,),
            )
        os.close(read_end)
        self.pid = self._process.pid

    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def wait_until_ready(self, is_ready: Callable[[], bool], seconds: float) -> bool:
        return wait_until(lambda: self.has_ended() or is_ready(), seconds) and not self.has_ended()

    def stop(self, timeout_seconds: float = 15) -> bool:
        """True if it ended by itself when asked, so what it keeps has been saved."""
        self._process.terminate()
        try:
            clean = self._process.wait(timeout_seconds) == 0
        except subprocess.TimeoutExpired:
            clean = False
        self._kill_group()
        return clean

    def _kill_group(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()
        os.close(self._write_end)


def write_process_groups(file: Path, groups: Iterable[int]) -> None:
    file.write_text("".join(f"{group}\n" for group in groups))


def kill_leftover_processes(file: Path, state_dir: Path) -> None:
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
    """The id, the group and the command line of each."""
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
