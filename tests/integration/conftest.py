"""One emulator and one simulator for all integration tests of a run; a harness of its own for each test."""

import os
import random
import secrets
from collections.abc import Callable, Iterator
from contextlib import ExitStack, redirect_stdout
from typing import Any

import pytest

from functions.shared.platform import observability, wiring
from local.emulator import ACCESS_KEY, REGION, SECRET_KEY, Emulator
from local.novita.client import Simulator
from local.novita.process import running
from local.ports import Ports
from tests.infra.roles import Right
from tests.integration import chaos, definition
from tests.integration.alarms import Metrics
from tests.integration.harness import Harness
from tests.integration.near_table import near_table
from tests.integration.proxy import FaultProxy
from tests.integration.quick_emulator import QuickEmulator
from tests.integration.rights import Rights, synthesised

Build = Callable[..., Harness]
Measured = Callable[[Harness], Metrics]


@pytest.fixture(scope="session")
def emulator_over_http(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    with QuickEmulator(tmp_path_factory.mktemp("emulator"), Ports.free().emulator) as started:
        yield started


@pytest.fixture(scope="session")
def emulator(emulator_over_http: Emulator) -> Iterator[Emulator]:
    """With OSTLER_OVER_HTTP set, as in `make soak`, every call goes over a connection."""
    if os.environ.get("OSTLER_OVER_HTTP"):
        yield emulator_over_http
        return
    with near_table(emulator_over_http) as near:
        yield near


@pytest.fixture(scope="session")
def novita() -> Iterator[Simulator]:
    with running() as simulator:
        yield simulator


@pytest.fixture(scope="session")
def table_definition() -> dict[str, Any]:
    return definition.table_definition()


@pytest.fixture(scope="session")
def roles() -> dict[str, frozenset[Right]]:
    return synthesised()


@pytest.fixture
def build(
    request: pytest.FixtureRequest,
    emulator: Emulator,
    novita: Simulator,
    table_definition: dict[str, Any],
    roles: dict[str, frozenset[Right]],
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Build]:
    """Makes a harness with the given settings; machines and records must match when the test is over.

    And no function may have done in it what its role does not allow, nor read what it does not declare.
    """
    for name, value in {
        "AWS_ENDPOINT_URL": emulator.url,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
    }.items():
        monkeypatch.setenv(name, value)
    # The same run each time: waits have jitter, ids have an order, and crash points are those of a recording.
    random.seed(request.node.nodeid)
    for name, drawn in {"randbits": random.getrandbits, "choice": random.choice}.items():
        monkeypatch.setattr(secrets, name, drawn)
    novita.reset()
    made: list[Harness] = []
    rights = Rights(roles)

    def make(**settings: str) -> Harness:
        harness = Harness(emulator, novita, table_definition, settings)
        harness.wire.rights = rights
        made.append(harness)
        return harness

    yield make
    for harness in made:
        harness.assert_books_balance()
        harness.forget()
        assert harness.wire.illegal_moves == []
        assert harness.wire.settings_read.undeclared == set()
    assert rights.missing == set()
    wiring.use(None)
    novita.reset()


@pytest.fixture
def harness(build: Build) -> Harness:
    return build()


@pytest.fixture
def measured() -> Iterator[Measured]:
    """The metrics that are written from then on, until the test is over."""
    observability._measured.clear()  # what the explorer has measured is written by nobody
    with ExitStack() as until_the_end:
        yield lambda harness: until_the_end.enter_context(redirect_stdout(Metrics(harness.now)))


@pytest.fixture(scope="session")
def proxy(emulator: Emulator) -> Iterator[FaultProxy]:
    with FaultProxy(emulator.url) as started:
        yield started


@pytest.fixture
def disturbed(
    emulator: Emulator, novita: Simulator, table_definition: dict[str, Any], proxy: FaultProxy
) -> Iterator[Harness]:
    """A harness whose functions reach the emulator through the proxy."""
    with chaos.disturbed(emulator, novita, table_definition, proxy) as made:
        yield made
