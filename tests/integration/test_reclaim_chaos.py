"""Spot machines taken away at random moments, among all other faults and what users ask for meanwhile."""

from dataclasses import replace
from datetime import timedelta
from random import Random

import pytest

from tests.integration.callers import Caller
from tests.integration.chaos import callers_of, run
from tests.integration.fault_profiles import ALL
from tests.integration.harness import Harness
from tests.integration.proxy import FaultProxy

SEED = 11
# What is removed without a notice that anybody saw is missing: given up within this run.
TAKING_AWAY = replace(ALL, reclaims=0.12, lasts=1200, settings=(("VANISHED_AFTER", "3600"),))


def spot_callers(harness: Harness, random: Random, action: str, instances: int, over: float) -> list[Caller]:
    """They come back to their instances again and again."""
    callers = callers_of(harness, random, instances, over_seconds=60)
    more = {} if action == "restart" else {"replaceAfter": "2m", "fallback": "onDemand"}
    wish = {"action": action, "window": "20m", "maxRecoveries": 100, **more}
    for caller in callers:
        caller.body["onReclaim"] = wish
        caller.steps[1:] = [
            (random.uniform(0.2, 1.8) * over / 4, random.choice(("stop", "start", "start", "read")))
            for _ in range(4)
        ]
        if random.random() < 0.4:
            caller.steps.append((random.uniform(10, 300), "delete"))
    return callers


@pytest.mark.parametrize("action", ["restart", pytest.param("replace", marks=pytest.mark.soak)])
@pytest.mark.parametrize(
    ("instances", "over", "taken"), [(3, 900, 5), pytest.param(16, 9000, 100, marks=pytest.mark.soak)]
)
def test_taken_away_again_and_again_each_is_brought_back_or_its_failure_told(
    disturbed: Harness, proxy: FaultProxy, action: str, instances: int, over: float, taken: int
) -> None:
    disturbed.costs_within = timedelta(minutes=5)  # of what is removed while nobody can look
    random = Random(f"{SEED}-{action}")
    callers = spot_callers(disturbed, random, action, instances, over)

    verdict, chaos_run = run(disturbed, proxy, random, TAKING_AWAY, callers)

    assert verdict.wrong == []
    assert verdict.doubled == verdict.left_over == 0
    assert chaos_run.injected["spot machine taken away"] >= taken
