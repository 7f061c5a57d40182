"""All faults at once, over 50 instances: the short form of `make chaos`."""

from collections import Counter
from datetime import datetime
from random import Random
from typing import Any

from local.emulator import Emulator
from local.novita.client import Simulator
from tests.integration import chaos
from tests.integration.chaos import callers_of, run
from tests.integration.fault_profiles import ALL
from tests.integration.harness import Harness
from tests.integration.proxy import FaultProxy

INSTANCES = 50
OVER_SECONDS = 600.0
FEW = 5
SEED = 7


def test_all_faults_at_once_lose_nothing_and_double_nothing(disturbed: Harness, proxy: FaultProxy) -> None:
    random = Random(SEED)
    callers = callers_of(disturbed, random, INSTANCES, OVER_SECONDS)

    verdict, chaos_run = run(disturbed, proxy, random, ALL, callers)

    assert verdict.wrong == []
    assert verdict.instances == INSTANCES
    assert sum(chaos_run.injected.values()) >= 500


def test_the_same_seed_is_the_same_run(
    emulator: Emulator, novita: Simulator, table_definition: dict[str, Any], proxy: FaultProxy
) -> None:
    def once() -> tuple[Counter[str], list[str], datetime]:
        with chaos.disturbed(emulator, novita, table_definition, proxy) as harness:
            random = Random(SEED)
            _, chaos_run = run(harness, proxy, random, ALL, callers_of(harness, random, FEW, 60.0))
            return chaos_run.injected, [queue for queue, _ in chaos_run.sent], harness.now()

    assert once() == once()
