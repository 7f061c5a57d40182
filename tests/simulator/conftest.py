"""One simulator process for all tests of a worker, emptied and with time standing still before each."""

from collections.abc import Iterator

import pytest

from local.novita.client import Simulator
from local.novita.process import running
from tests.simulator.bare_api import NOON, Api


@pytest.fixture(scope="session")
def process() -> Iterator[Simulator]:
    with running() as simulator:
        yield simulator


@pytest.fixture
def sim(process: Simulator) -> Simulator:
    process.reset()
    process.stand_still(NOON)
    return process


@pytest.fixture
def api(sim: Simulator) -> Api:
    return Api(sim)
