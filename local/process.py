"""A program that the runner starts, watches and stops."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from local.paths import ROOT
from local.waiting import wait_until


class Child:
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
        read_end, self._lifeline = os.pipe()
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "local.exit_with_parent",
                    str(read_end),
                    str(state_dir),
                    module,
                    *arguments,
                ],
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

    def ended(self) -> bool:
        return self._process.poll() is not None

    def wait_for_answer(self, answers: Callable[[], bool], seconds: float) -> bool:
        return wait_until(lambda: self.ended() or answers(), seconds) and not self.ended()

    def stop(self, patience_seconds: float = 15) -> bool:
        """True if it ended by itself when asked, so what it keeps has been saved."""
        self._process.terminate()
        try:
            clean = self._process.wait(patience_seconds) == 0
        except subprocess.TimeoutExpired:
            clean = False
        self._end_group()
        return clean

    def _end_group(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()
        os.close(self._lifeline)
