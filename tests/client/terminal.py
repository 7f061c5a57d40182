"""A program in a terminal (a pseudo-terminal, and the screen that a person would see) or in a pipe."""

import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Mapping, Sequence
from fcntl import ioctl

import pyte

COLUMNS, LINES = 100, 40


def _in_the_foreground() -> None:
    ioctl(0, termios.TIOCSCTTY, 0)
    _interruptible()


def _interruptible() -> None:
    """Whoever runs the tests in the background ignores Ctrl-C, and so would every program that they start."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Program:
    """`command` runs at once; `screen()` is what it has shown."""

    process: subprocess.Popen[bytes]
    _ours: int

    def __init__(self) -> None:
        self.raw = b""

    def screen(self) -> str:
        return self.raw.decode(errors="replace").rstrip()

    def read(self, seconds: float = 0.1) -> bool:
        """Whether it is still there."""
        ready, _, _ = select.select([self._ours], [], [], seconds)
        if not ready:
            return self.process.poll() is None
        try:
            new = os.read(self._ours, 65536)
        except OSError:  # Linux says so when the last of them has closed it
            return False
        self.raw += new
        return bool(new)

    def wait_for(self, text: str, seconds: float = 60.0, *, after: str = "") -> str:
        """Until the screen shows it; `after`: below this."""

        def shown() -> bool:
            return text in self.screen().rpartition(after or "\0")[2]

        until = time.monotonic() + seconds
        while not shown():
            assert time.monotonic() < until, f"no {text!r} in:\n{self.screen()}"
            assert self.read() or shown(), f"it ended without {text!r}:\n{self.screen()}"
        return self.screen()

    def press_ctrl_c(self) -> None:
        self.process.send_signal(signal.SIGINT)

    def end(self, seconds: float = 60.0) -> int:
        """Its exit code, once it has ended by itself."""
        until = time.monotonic() + seconds
        while self.read():
            assert time.monotonic() < until, f"still there:\n{self.screen()}"
        code = self.process.wait(10)
        os.close(self._ours)
        return code

    def kill(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(10)


class Terminal(Program):
    """In a terminal, with the screen that a person would see."""

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], columns: int = COLUMNS
    ) -> None:
        super().__init__()
        self._screen = pyte.HistoryScreen(columns, LINES, history=1000)
        self._stream = pyte.ByteStream(self._screen)
        self._ours, theirs = pty.openpty()
        ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, columns, 0, 0))
        self.process = subprocess.Popen(
            command,
            env={"TERM": "xterm-256color", **environment},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            preexec_fn=_in_the_foreground,
        )
        os.close(theirs)

    def screen(self) -> str:
        return "\n".join(line.rstrip() for line in self._screen.display).rstrip()

    def read(self, seconds: float = 0.1) -> bool:
        """Whether it is still there."""
        known = len(self.raw)
        there = super().read(seconds)
        self._stream.feed(self.raw[known:])
        return there

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def press_ctrl_c(self) -> None:
        self.type("\x03")

    def resize(self, columns: int) -> None:
        """What no longer fits is broken into more lines, as most terminals do it."""
        shown = "\r\n".join(self.screen().splitlines())
        self._screen.resize(LINES, columns)
        self._screen.reset()
        self._stream.feed(shown.encode())
        ioctl(self._ours, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, columns, 0, 0))


class Pipe(Program):
    """Where a program reads what it says: `… 2>&1 | cat`, and nobody can be asked."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        super().__init__()
        self._ours, theirs = os.pipe()
        self.process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            preexec_fn=_interruptible,
        )
        os.close(theirs)
