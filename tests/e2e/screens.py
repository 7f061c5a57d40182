"""`ostler` in a terminal or a pipe against the deployed service; what it showed is kept for the docs."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from local.paths import ROOT
from tests.client.terminal import Pipe, Program, Terminal
from tests.e2e.service import Service

SCREENS = ROOT / "docs" / "screens"
RECORDING = bool(os.environ.get("OSTLER_RECORD"))  # `make screens`

# What differs from run to run, and what stands in its place when two screens are compared.
_VARIES = (
    (r"(inst|op)_[0-9A-Z]{26}", "ID"),
    (r"\b[0-9a-f]{16}\b", "MACHINE"),
    (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?Z", "TIME"),
    (r"\b\d+ (s|min|h|d)( \d+ (s|min|h))?\b", "SPAN"),
    (r"~?\b\d+\.\d+\b", "AMOUNT"),
    (r"request \S+", "request ID"),
    (r"[ \t]+", " "),
)
# How often a wait looks, and what it happens to see, is a matter of moments.
_PASSING = re.compile(
    r"^[^\w ✔✘] \w+ SPAN( .*)?$"
    r"|^(creating|starting|running|health_checking|stopping|deleting|unknown) SPAN( .*)?$"
    r"|^[✔✘] (creating|starting|running|health_checking|failed) SPAN( .*)?$"
    r"|^Its machine is being given back\.$"
)


def comparable(text: str) -> list[str]:
    for pattern, word in _VARIES:
        text = re.sub(pattern, word, text)
    lines = (line.strip() for line in text.splitlines())
    return [line for line in lines if line and not _PASSING.match(line)]


class Session:
    """Commands one after the other, each with what it showed."""

    def __init__(self, service: Service, folder: Path, url: str = "", *, piped: bool = False) -> None:
        fake = folder / "ssh"
        fake.write_text('#!/bin/sh\necho "(a fake ssh, called with: $*)"\nexit 7\n')
        fake.chmod(0o755)
        self.piped = piped
        self._url = url
        self._service = service
        self._parts: list[str] = []
        self._watched = ""
        self._environment = {
            "PATH": f"{folder}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT / "client/src"),
            "OSTLER_STATE_DIR": str(service.stack.state.path),
            "OSTLER_CONFIG": "/nonexistent",
        }
        if url:
            self._environment |= {"OSTLER_URL": url, "OSTLER_API_KEY": service.stack.api_key}

    def run(
        self,
        *arguments: str,
        answer: str = "",
        during: Callable[[Program], None] | None = None,
        code: int = 0,
    ) -> str:
        """In a terminal, or `piped`; `answer` is typed when it asks, `during` acts while it runs."""
        command = [sys.executable, "-m", "ostler.cli.main", *arguments]
        opened = (Pipe if self.piped else Terminal)(command, self._environment)
        try:
            if answer:
                assert isinstance(opened, Terminal)
                opened.wait_for("[y/n]")
                opened.type(f"{answer}\n")
            if during:
                during(opened)
            assert opened.end(90) == code, opened.screen()
        finally:
            opened.kill()
        lines = opened.screen().splitlines()
        if self._watched:  # before what is said of its end
            end = next(line for line in lines if re.search(r"^No longer waiting|^[✔✘] [a-z_]+ ", line))
            interrupted = "\n^C" if end.startswith("No longer") else ""
            lines.insert(lines.index(end), f"{self._watched}{interrupted}")
            self._watched = ""
        return self._keep((*arguments, "2>&1 | cat") if self.piped else arguments, "\n".join(lines))

    def pipe(self, *arguments: str, code: int = 0, kept: bool = False) -> subprocess.CompletedProcess[str]:
        """With what it says to programs and to people apart."""
        done = subprocess.run(
            [sys.executable, "-m", "ostler.cli.main", *arguments],
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=90,
            stdin=subprocess.DEVNULL,
            check=False,
        )
        assert done.returncode == code, done.stderr
        if kept:
            self._keep((*arguments, "| cat"), (done.stderr + done.stdout).rstrip())
        return done

    def shell(self, command: str) -> str:
        """A line of a shell, in a folder with a local copy; the address is the usual one in what is kept."""
        if not self._parts:
            self._parts.append('$ KEY="Authorization: Bearer $(cat .local/api-key)"')
        done = subprocess.run(
            ["bash", "-c", command.replace("http://127.0.0.1:8080", self._service.stack.api_url)],
            env={**self._environment, "KEY": f"Authorization: Bearer {self._service.stack.api_key}"},
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        self._parts.append(f"$ {command}\n{done.stdout}")
        return done.stdout

    def watched(self, screen: str) -> None:
        """What was on the screen while it waited: its last line is lost when the wait ends; not in a pipe."""
        self._watched = "" if self.piped else screen.splitlines()[-1].strip()

    def _keep(self, arguments: tuple[str, ...], shown: str) -> str:
        words = [one if one.endswith("| cat") else shlex.quote(one) for one in arguments]
        self._parts.append(f"$ ostler {' '.join(words)}\n{shown}")
        return shown

    def compare(self, name: str, last: int = 0) -> None:
        """With what is kept under that name, or the last lines of it; or keep it, if recording."""
        text = "\n\n".join(self._parts)
        for here, usual in (
            (self._url or "\0", "http://127.0.0.1:8080"),
            (self._service.stack.api_url, "http://127.0.0.1:8080"),
            (self._service.stack.simulator_url, "http://127.0.0.1:8081"),
            (self._service.stack.simulator_url.removeprefix("http://"), "127.0.0.1:8081"),
            (self._service.stack.simulator_url.rpartition(":")[2], "8081"),
            (str(self._service.stack.state.path), ".local"),
        ):
            text = text.replace(here, usual)
        text = "\n".join(line.rstrip() for line in text.splitlines())
        file = SCREENS / f"{name}{'-in-a-pipe' * self.piped}.txt"
        if RECORDING:
            SCREENS.mkdir(exist_ok=True)
            file.write_text(f"{text}\n")
        assert comparable(text)[-last:] == comparable(file.read_text())[-last:], (
            "if it is meant: make screens"
        )
