"""Each fault alone: whatever goes wrong at the wire, at Novita or with the clocks, the books balance."""

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from local.emulator import Emulator
from local.novita.client import Simulator
from tests.integration.chaos import disturbed, run
from tests.integration.proxy import FaultProxy
from tests.integration.weathers import ALL, ALONE, MAY_BUY_TWO
from tests.integration.world import World

INSTANCES = 5
OVER_SECONDS = 60.0
MIXED_INSTANCES = 50
MIXED_OVER_SECONDS = 600.0
SEED = 7


@pytest.fixture(scope="module")
def proxy(emulator: Emulator) -> Iterator[FaultProxy]:
    with FaultProxy(emulator.url) as started:
        yield started


@pytest.fixture
def world(
    emulator: Emulator, novita: Simulator, table_definition: dict[str, Any], proxy: FaultProxy
) -> Iterator[World]:
    with disturbed(emulator, novita, table_definition, proxy) as made:
        yield made


@pytest.mark.parametrize("name", ALONE)
def test_one_kind_of_fault_loses_nothing_and_doubles_nothing(
    world: World, proxy: FaultProxy, name: str
) -> None:
    verdict, turmoil = run(world, proxy, Random(SEED), ALONE[name], INSTANCES, OVER_SECONDS)

    assert verdict.wrong == []
    assert verdict.instances == INSTANCES
    assert sum(turmoil.injected.values()), "nothing went wrong"
    assert name in MAY_BUY_TWO or verdict.given_back == 0


def test_all_faults_at_once_lose_nothing_and_double_nothing(world: World, proxy: FaultProxy) -> None:
    verdict, turmoil = run(world, proxy, Random(SEED), ALL, MIXED_INSTANCES, MIXED_OVER_SECONDS)

    assert verdict.wrong == []
    assert verdict.instances == MIXED_INSTANCES
    assert sum(turmoil.injected.values()) >= 500
