"""Buying exactly once, whatever Novita answers to the create call, or does not."""

from typing import Any

import pytest

from functions.shared.domain.instance import Instance
from functions.shared.domain.purchase import Outcome, Purchase
from functions.shared.domain.status import Status
from tests.integration.conftest import Build
from tests.integration.market import bought_at
from tests.integration.world import World

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
def world(build: Build) -> World:
    made = build(NOVITA_CREATE_TIMEOUT="0.2", BREAKER_FAILURE_THRESHOLD="1000")
    made.announcing = False
    return made


def _only(world: World) -> tuple[Instance, tuple[Purchase, ...]]:
    (record,) = world.records()
    return record, world.wiring.instances.purchases(record.id)


def _create_one_for_each_fault(world: World, *, commit: bool) -> dict[str, str]:
    """Their ids; the first create call of each meets its fault."""
    made = {}
    for number, (case, fault) in enumerate(UNCLEAR.items()):
        name = f"case{number}"
        world.simulator.fault(path=CREATE, match_body=f'"{name}-', commit=commit, times=1, **fault)
        made[case] = world.create(name=name)
    return made


def _orders(world: World, purchase: Purchase) -> list[float]:
    """When the create calls for this instance arrived."""
    calls = world.simulator.calls(CREATE)
    return [call["time"] for call in calls if call["body"]["name"].startswith(purchase.name)]


@pytest.mark.parametrize("lag", [0, 60])
def test_a_machine_that_was_bought_without_our_being_told_is_found_and_adopted(
    world: World, lag: int
) -> None:
    world.simulator.settings(listLagSeconds=lag)
    made = _create_one_for_each_fault(world, commit=True)

    world.settle()

    names = {machine["id"]: machine["name"] for machine in world.simulator.instances()}
    assert len(names) == len(UNCLEAR)
    for case, instance_id in made.items():
        record = world.record(instance_id)
        (purchase,) = world.wiring.instances.purchases(instance_id)
        assert record.status is Status.RUNNING, case
        assert purchase.outcome is Outcome.BOUGHT, case
        assert names[record.machine_id or ""] == purchase.name, case
        assert len(_orders(world, purchase)) == 1, case
        assert world.history(instance_id) == HAPPY, case


def test_what_was_perhaps_bought_is_bought_again_only_after_the_settling_time(world: World) -> None:
    made = _create_one_for_each_fault(world, commit=False)

    world.settle()

    names = {machine["id"]: machine["name"] for machine in world.simulator.instances()}
    assert len(names) == len(UNCLEAR)
    for case, instance_id in made.items():
        record = world.record(instance_id)
        purchases = world.wiring.instances.purchases(instance_id)
        first, second = _orders(world, purchases[0])
        assert SETTLE_SECONDS <= second - first <= SETTLE_SECONDS + POLL_SECONDS, case
        assert [purchase.outcome for purchase in purchases] == [Outcome.ABSENT, Outcome.BOUGHT], case
        assert names[record.machine_id or ""] == f"{purchases[0].name}-2", case
        assert record.status is Status.RUNNING, case
        assert world.history(instance_id) == HAPPY, case


def test_the_name_is_looked_up_again_and_again_while_a_purchase_is_unclear(world: World) -> None:
    world.simulator.fault("disconnect", CREATE, times=1)
    world.create()

    world.settle()

    first, second = bought_at(world.simulator)
    named = [call for call in world.simulator.calls("/gpu/instances") if call["query"].get("name")]
    times = [call["time"] - first for call in named]
    assert len(times) >= SETTLE_SECONDS / POLL_SECONDS
    assert times[0] < 1, "at once"
    assert times[-1] >= SETTLE_SECONDS, "the last time when the settling time is over"
    assert second - first >= times[-1]


def test_a_definite_no_is_tried_again_without_the_settling_time(world: World) -> None:
    world.simulator.fault("status", CREATE, status=429, retryAfter=7, times=1)
    world.create()

    world.settle()

    record, purchases = _only(world)
    first, second = bought_at(world.simulator)
    assert 7 <= second - first < SETTLE_SECONDS
    assert [purchase.outcome for purchase in purchases] == [Outcome.REFUSED, Outcome.BOUGHT]
    assert record.status is Status.RUNNING


def test_a_machine_that_shows_up_after_another_was_bought_in_its_place_is_given_back(world: World) -> None:
    world.simulator.settings(listLagSeconds=400)
    world.simulator.fault("disconnect", CREATE, commit=True, times=1)
    world.create()

    world.settle()
    both = world.simulator.live()
    world.run(500)
    world.sweep()
    world.settle()

    record, _ = _only(world)
    assert len(both) == 2, "the list hid the first for longer than the settling time"
    assert [machine["id"] for machine in world.simulator.live()] == [record.machine_id]
    assert record.status is Status.RUNNING
    assert len(bought_at(world.simulator)) == 2


def test_two_unclear_purchases_that_both_show_up_late_leave_one_machine(world: World) -> None:
    world.simulator.settings(listLagSeconds=600)
    world.simulator.fault("disconnect", CREATE, commit=True, times=2)
    world.create()

    world.settle()
    world.run(900)
    world.sweep()
    world.settle()

    record, purchases = _only(world)
    assert len(world.simulator.instances()) == len(purchases) == 3
    assert [machine["id"] for machine in world.simulator.live()] == [record.machine_id]


def test_an_unclear_purchase_that_turns_up_after_the_deadline_is_given_back(build: Build) -> None:
    world = build(PURCHASE_MAX_WAIT="90")
    world.simulator.settings(listLagSeconds=100)
    world.simulator.fault("disconnect", CREATE, commit=True, times=1)
    instance_id = world.create()

    world.run(91)
    failed = world.record(instance_id)
    world.settle()

    assert failed.status is Status.FAILED
    assert failed.unsettled
    assert len(world.simulator.instances()) == 1
    assert world.simulator.live() == []
    assert world.record(instance_id).status is Status.FAILED


def test_a_lookup_that_fails_does_not_count_as_absence(world: World) -> None:
    world.simulator.settings(listLagSeconds=0)
    world.simulator.fault("disconnect", CREATE, commit=True, times=1)
    world.simulator.fault("status", "/gpu/instances", status=503)
    world.create()

    world.run(200)
    during, _ = _only(world)
    world.simulator.clear_faults()
    world.settle()

    record, purchases = _only(world)
    assert during.status is Status.CREATING
    assert [purchase.outcome for purchase in purchases] == [Outcome.BOUGHT]
    assert len(world.simulator.instances()) == 1
    assert record.status is Status.RUNNING


def test_a_machine_of_the_same_name_but_not_of_our_mark_is_not_taken_for_ours(world: World) -> None:
    world.simulator.settings(listLagSeconds=0)
    world.simulator.fault("disconnect", CREATE, times=1)
    instance_id = world.create()
    world.deliver()
    (purchase,) = world.wiring.instances.purchases(instance_id)
    stranger = world.simulator.put_instance(name=f"{purchase.name}0", status="running")

    world.settle()

    record, _ = _only(world)
    assert record.machine_id != stranger["id"]
    assert {machine["id"] for machine in world.simulator.live()} == {record.machine_id, stranger["id"]}


def test_a_rate_limit_that_carries_little_puts_a_purchase_off_and_wastes_none(build: Build) -> None:
    world = build(NOVITA_RATE_LIMIT="6")
    instance_id = world.create()

    world.settle()

    assert world.record(instance_id).status is Status.RUNNING
    assert world.record(instance_id).purchases == 1
