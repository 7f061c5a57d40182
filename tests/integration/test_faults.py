"""Each fault alone: whatever goes wrong at AWS, at Novita or with the clocks, machines and records match."""

from random import Random

import pytest

from tests.integration.chaos import callers_of, run
from tests.integration.fault_profiles import ALONE, MAY_BUY_TWO
from tests.integration.harness import Harness
from tests.integration.proxy import FaultProxy

OVER_SECONDS = 60.0
SEED = 7


@pytest.mark.parametrize("instances", [2, pytest.param(5, marks=pytest.mark.soak)])
@pytest.mark.parametrize("name", ALONE)
def test_one_kind_of_fault_loses_nothing_and_doubles_nothing(
    disturbed: Harness, proxy: FaultProxy, name: str, instances: int
) -> None:
    random = Random(SEED)
    callers = callers_of(disturbed, random, instances, OVER_SECONDS)

    verdict, chaos_run = run(disturbed, proxy, random, ALONE[name], callers)

    assert verdict.wrong == []
    assert verdict.instances == instances
    assert sum(chaos_run.injected.values()), "nothing went wrong"
    assert name in MAY_BUY_TWO or verdict.given_back == 0
