"""Who runs which tests, and what a run proved: added up over all workers, printed before pytest's last line.

Tests of one unit run in one worker, so that a stack or a synthesis is made once for all that share it. Units
that mostly wait begin first, and those that compute run beside them.
"""

import logging
from collections import Counter
from collections.abc import Iterator
from pathlib import PurePath
from typing import Any

import pytest
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling

from tests.integration import tally

# How long an example takes is the machine's business.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

# Of the tests on the deployed template; the others there share a second stack.
ON_THE_FIRST_STACK = ("operating", "transitions", "smoke", "unclear_purchases", "reading", "telling")
FIRST_OF_ALL = (
    *("first stack", "second stack", "browser", "infra"),
    *("tests/local", "tests/integration", "tests/simulator"),
)


@pytest.fixture(autouse=True)
def _log_level() -> Iterator[None]:
    """A test that is quiet must not make the next one quiet, whichever that is."""
    level = logging.getLogger("ostler").level
    yield
    logging.getLogger("ostler").setLevel(level)


def unit(nodeid: str) -> str:
    file = PurePath(nodeid.partition("::")[0])
    name = file.stem.removeprefix("test_")
    if file.parent.name == "infra" and name != "asset":
        return "infra"
    if file.parent.name == "e2e" and name not in ("gateway_authorizers", "two_stages"):
        return "first stack" if name in ON_THE_FIRST_STACK else "second stack"
    return "browser" if file.parent.name == "browser" else str(file)


class Units(LoadScopeScheduling):  # type: ignore[misc] # xdist has no types
    def _split_scope(self, nodeid: str) -> str:
        return unit(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    return Units(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    def turn(item: pytest.Item) -> int:
        return next((n for n, name in enumerate(FIRST_OF_ALL) if unit(item.nodeid).startswith(name)), 99)

    items.sort(key=turn)


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
