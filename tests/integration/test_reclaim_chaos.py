"""Spot machines taken away at random moments, among all other faults and what users ask for meanwhile."""

from collections import Counter
from dataclasses import replace
from datetime import timedelta
from random import Random

import pytest

from functions.shared.domain.money.caps import DEPLOYMENT
from tests.books import books_of, read_items
from tests.integration.callers import Caller
from tests.integration.chaos import callers_of, run
from tests.integration.counters import assert_counters_right, count_all
from tests.integration.fault_profiles import ALL
from tests.integration.harness import Harness
from tests.integration.proxy import FaultProxy

SEED = 11
# What is removed without a notice that anybody saw is missing: given up within this run. Another account's
# key, with which nothing can be brought back, is put in seldom.
TAKING_AWAY = replace(
    ALL,
    reclaims=0.2,
    crowd=0,
    other_account=0.001,
    lasts=1200,
    settings=(("VANISHED_AFTER", "3600"),),
)


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
    ("instances", "over", "taken"), [(6, 900, 3), pytest.param(55, 9000, 100, marks=pytest.mark.soak)]
)
def test_taken_away_again_and_again_each_is_brought_back_or_its_failure_told(
    disturbed: Harness, proxy: FaultProxy, action: str, instances: int, over: float, taken: int
) -> None:
    disturbed.costs_within = timedelta(minutes=5)  # of what is removed while nobody can look
    key_id = count_all(disturbed)
    random = Random(f"{SEED}-{action}")
    callers = spot_callers(disturbed, random, action, instances, over)

    verdict, chaos_run = run(disturbed, proxy, random, TAKING_AWAY, callers)

    assert verdict.wrong == []
    assert verdict.doubled == verdict.left_over == 0
    assert chaos_run.injected["spot machine taken away"] >= taken
    assert_counters_right(disturbed, DEPLOYMENT, key_id)
    found = answers(disturbed)
    assert found["recovery.completed"] + found["recovery.failed"] >= taken, found
    assert found[action] >= taken // 10, found


def answers(harness: Harness) -> Counter[str]:
    """How recoveries ended, and what had brought back those that did."""
    found: Counter[str] = Counter()
    for history in books_of(read_items(harness.dynamodb, harness.table_name)).histories.values():
        for event in history.events:
            if event.type in ("recovery.completed", "recovery.failed"):
                found[event.type] += 1
                found[(event.data or {}).get("action", "")] += 1
    return found
