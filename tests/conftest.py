"""What a run proved, added up over all workers and printed before pytest's last line."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import settings

from tests.integration import tally

# How long an example takes is the machine's business.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


def pytest_sessionfinish(session: pytest.Session) -> None:
    worker = getattr(session.config, "workeroutput", None)
    if worker is not None:
        worker["tally"] = dict(tally.counts)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    tally.counts.update(Counter(getattr(node, "workeroutput", {}).get("tally", {})))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if shown := tally.lines(tally.counts):
        terminalreporter.section("the proof")
        for line in shown:
            terminalreporter.line(line)
