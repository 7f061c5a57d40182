"""Buying exactly once, whatever Novita answers to the create call, or does not."""

from typing import Any

import pytest

from functions.shared.domain.instance.record import Instance, Purchase, PurchaseOutcome
from functions.shared.domain.instance.status import Status
from tests.integration.conftest import Build
from tests.integration.harness import Harness
from tests.integration.market import bought_at

CREATE = "/gpu/instance/create"
SETTLE_SECONDS = 120
POLL_SECONDS = 30
HAPPY = ["instance.creating", "instance.starting", "instance.running"]

UNCLEAR: dict[str, dict[str, Any]] = {
    "502": {"kind": "status", "status": 502},
    "500 with a reason": {"kind": "status", "status": 500, "reason": "INSUFFICIENT_RESOURCE"},
    "504": {"kind": "status", "status": 504},
    "time-out": {"kind": "timeout"},
    "disconnect": {"kind": "disconnect"},
    "html": {"kind": "garbage", "body": "html"},
    "cut off": {"kind": "garbage", "body": "cut"},
    "empty": {"kind": "garbage", "body": "empty"},
    "no id": {"kind": "garbage", "body": '{"ok": true}'},
    "redirect": {"kind": "garbage", "status": 302, "body": "html"},
}


@pytest.fixture
def harness(build: Build) -> Harness:
    made = build(NOVITA_CREATE_TIMEOUT="0.2", BREAKER_FAILURE_THRESHOLD="1000")
    made.announcing = False
    return made


def _only(harness: Harness) -> tuple[Instance, tuple[Purchase, ...]]:
    (record,) = harness.records()
    return record, harness.wiring.instances.purchases(record.id)


def _create_one_for_each_fault(harness: Harness, *, commit: bool) -> dict[str, str]:
    """Their ids; the first create call of each meets its fault."""
    made = {}
    for number, (case, fault) in enumerate(UNCLEAR.items()):
        name = f"case{number}"
        harness.simulator.fault(path=CREATE, match_body=f'"{name}-', commit=commit, times=1, **fault)
        made[case] = harness.create(name=name)
    return made


def _orders(harness: Harness, purchase: Purchase) -> list[float]:
    """When the create calls for this instance arrived."""
    calls = harness.simulator.calls(CREATE)
    return [call["time"] for call in calls if call["body"]["name"].startswith(purchase.name)]


@pytest.mark.parametrize("lag", [0, 60])
def test_a_machine_that_was_bought_without_our_being_told_is_found_and_adopted(
    harness: Harness, lag: int
) -> None:
    harness.simulator.settings(listLagSeconds=lag)
    made = _create_one_for_each_fault(harness, commit=True)

    harness.settle()

    names = {machine["id"]: machine["name"] for machine in harness.simulator.instances()}
    assert len(names) == len(UNCLEAR)
    for case, instance_id in made.items():
        record = harness.record(instance_id)
        (purchase,) = harness.wiring.instances.purchases(instance_id)
        assert record.status is Status.RUNNING, case
        assert purchase.outcome is PurchaseOutcome.BOUGHT, case
        assert names[record.machine.id or ""] == purchase.name, case
        assert len(_orders(harness, purchase)) == 1, case
        assert harness.history(instance_id) == HAPPY, case


def test_what_was_perhaps_bought_is_bought_again_only_after_the_settling_time(harness: Harness) -> None:
    made = _create_one_for_each_fault(harness, commit=False)

    harness.settle()

    names = {machine["id"]: machine["name"] for machine in harness.simulator.instances()}
    assert len(names) == len(UNCLEAR)
    for case, instance_id in made.items():
        record = harness.record(instance_id)
        purchases = harness.wiring.instances.purchases(instance_id)
        first, second = _orders(harness, purchases[0])
        assert SETTLE_SECONDS <= second - first <= SETTLE_SECONDS + POLL_SECONDS, case
        assert [purchase.outcome for purchase in purchases] == [
            PurchaseOutcome.ABSENT,
            PurchaseOutcome.BOUGHT,
        ], case
        assert names[record.machine.id or ""] == f"{purchases[0].name}-2", case
        assert record.status is Status.RUNNING, case
        assert harness.history(instance_id) == HAPPY, case


def test_the_name_is_looked_up_again_and_again_while_a_purchase_is_unclear(harness: Harness) -> None:
    harness.simulator.fault("disconnect", CREATE, times=1)
    harness.create()

    harness.settle()

    first, second = bought_at(harness.simulator)
    named = [call for call in harness.simulator.calls("/gpu/instances") if call["query"].get("name")]
    times = [call["time"] - first for call in named]
    assert len(times) >= SETTLE_SECONDS / POLL_SECONDS
    assert times[0] < 1, "at once"
    assert times[-1] >= SETTLE_SECONDS, "the last time when the settling time is over"
    assert second - first >= times[-1]


def test_a_definite_no_is_tried_again_without_the_settling_time(harness: Harness) -> None:
    harness.simulator.fault("status", CREATE, status=429, retryAfter=7, times=1)
    harness.create()

    harness.settle()

    record, purchases = _only(harness)
    first, second = bought_at(harness.simulator)
    assert 7 <= second - first < SETTLE_SECONDS
    assert [purchase.outcome for purchase in purchases] == [PurchaseOutcome.REFUSED, PurchaseOutcome.BOUGHT]
    assert record.status is Status.RUNNING


def test_a_machine_that_shows_up_after_another_was_bought_in_its_place_is_given_back(
    harness: Harness,
) -> None:
    harness.simulator.settings(listLagSeconds=400)
    harness.simulator.fault("disconnect", CREATE, commit=True, times=1)
    harness.create()

    harness.settle()
    both = harness.simulator.live()
    harness.run(500)
    harness.sweep()
    harness.settle()

    record, _ = _only(harness)
    assert len(both) == 2, "the list hid the first for longer than the settling time"
    assert [machine["id"] for machine in harness.simulator.live()] == [record.machine.id]
    assert record.status is Status.RUNNING
    assert len(bought_at(harness.simulator)) == 2


def test_two_unclear_purchases_that_both_show_up_late_leave_one_machine(harness: Harness) -> None:
    harness.simulator.settings(listLagSeconds=600)
    harness.simulator.fault("disconnect", CREATE, commit=True, times=2)
    harness.create()

    harness.settle()
    harness.run(900)
    harness.sweep()
    harness.settle()

    record, purchases = _only(harness)
    assert len(harness.simulator.instances()) == len(purchases) == 3
    assert [machine["id"] for machine in harness.simulator.live()] == [record.machine.id]


def test_an_unclear_purchase_that_turns_up_after_the_deadline_is_given_back(build: Build) -> None:
    harness = build(PURCHASE_MAX_WAIT="90")
    harness.simulator.settings(listLagSeconds=100)
    harness.simulator.fault("disconnect", CREATE, commit=True, times=1)
    instance_id = harness.create()

    harness.run(91)
    failed = harness.record(instance_id)
    harness.settle()

    assert failed.status is Status.FAILED
    assert failed.purchases.unsettled
    assert len(harness.simulator.instances()) == 1
    assert harness.simulator.live() == []
    assert harness.record(instance_id).status is Status.FAILED


def test_a_lookup_that_fails_does_not_count_as_absence(harness: Harness) -> None:
    harness.simulator.settings(listLagSeconds=0)
    harness.simulator.fault("disconnect", CREATE, commit=True, times=1)
    harness.simulator.fault("status", "/gpu/instances", status=503)
    harness.create()

    harness.run(200)
    during, _ = _only(harness)
    harness.simulator.clear_faults()
    harness.settle()

    record, purchases = _only(harness)
    assert during.status is Status.CREATING
    assert [purchase.outcome for purchase in purchases] == [PurchaseOutcome.BOUGHT]
    assert len(harness.simulator.instances()) == 1
    assert record.status is Status.RUNNING


def test_a_machine_of_the_same_name_but_not_of_our_mark_is_not_taken_for_ours(harness: Harness) -> None:
    harness.simulator.settings(listLagSeconds=0)
    harness.simulator.fault("disconnect", CREATE, times=1)
    instance_id = harness.create()
    harness.deliver()
    (purchase,) = harness.wiring.instances.purchases(instance_id)
    stranger = harness.simulator.put_instance(name=f"{purchase.name}0", status="running")

    harness.settle()

    record, _ = _only(harness)
    assert record.machine.id != stranger["id"]
    assert {machine["id"] for machine in harness.simulator.live()} == {record.machine.id, stranger["id"]}


def test_a_rate_limit_that_carries_little_puts_a_purchase_off_and_wastes_none(build: Build) -> None:
    harness = build(NOVITA_RATE_LIMIT="6")
    instance_id = harness.create()

    harness.settle()

    assert harness.record(instance_id).status is Status.RUNNING
    assert harness.record(instance_id).purchases.count == 1
