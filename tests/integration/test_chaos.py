"""All faults at once, over a few instances; `make soak` has more of them."""

from collections import Counter
from datetime import datetime, timedelta
from random import Random
from typing import Any

import pytest

from functions.shared.domain.money.caps import DEPLOYMENT
from local.emulator import Emulator
from local.novita.client import Simulator
from tests.integration import chaos
from tests.integration.chaos import callers_of, run
from tests.integration.counters import assert_counters_right, count_all, in_use
from tests.integration.fault_profiles import ALL
from tests.integration.harness import Harness
from tests.integration.proxy import FaultProxy

SEED = 7


@pytest.mark.parametrize("instances", [5, pytest.param(50, marks=pytest.mark.soak)])
def test_all_faults_at_once_lose_nothing_and_double_nothing(
    disturbed: Harness, proxy: FaultProxy, instances: int
) -> None:
    key_id = count_all(disturbed)
    random = Random(SEED)
    callers = callers_of(disturbed, random, instances, over_seconds=instances * 12.0)

    verdict, chaos_run = run(disturbed, proxy, random, ALL, callers)

    assert verdict.wrong == []
    assert verdict.instances == instances
    assert_counters_right(disturbed, DEPLOYMENT, key_id)
    assert in_use(disturbed, key_id).instances == in_use(disturbed).instances > 0
    assert sum(chaos_run.injected.values()) >= instances * 10


@pytest.mark.parametrize("instances", [4, pytest.param(50, marks=pytest.mark.soak)])
def test_the_same_holds_where_the_fleet_is_too_large_for_one_sweep(
    disturbed: Harness, proxy: FaultProxy, instances: int
) -> None:
    """By pages of three: what a machine does by itself is known when the list has been gone through."""
    disturbed.environment["SWEEP_AT_ONCE"] = "1"
    disturbed.costs_within = timedelta(minutes=5 + instances / 2)
    disturbed.restart()
    disturbed.simulator.settings(maxPageSize=3)
    random = Random(SEED)
    callers = callers_of(disturbed, random, instances, over_seconds=instances * 12.0)

    verdict, _ = run(disturbed, proxy, random, ALL, callers)

    assert verdict.wrong == []
    assert verdict.instances == instances
    assert disturbed.wiring.list_walks.read().last is not None


@pytest.mark.parametrize("instances", [2, pytest.param(5, marks=pytest.mark.soak)])
def test_the_same_seed_is_the_same_run(
    emulator: Emulator,
    novita: Simulator,
    table_definition: dict[str, Any],
    proxy: FaultProxy,
    instances: int,
) -> None:
    def once() -> tuple[Counter[str], list[str], datetime]:
        with chaos.disturbed(emulator, novita, table_definition, proxy) as harness:
            random = Random(SEED)
            _, chaos_run = run(harness, proxy, random, ALL, callers_of(harness, random, instances, 60.0))
            return chaos_run.injected, [queue for queue, _ in chaos_run.sent], harness.now()

    assert once() == once()
