"""Deleting: in the end no machine is left, at whatever moment it is asked for and whatever Novita hides."""

from functools import partial
from typing import Any

import pytest

from functions.shared.domain.purchase import Outcome
from functions.shared.domain.status import Status
from tests.integration.conftest import Build
from tests.integration.deaths import FORGETFUL, Deaths, Interruptions, Point, sides
from tests.integration.market import put_on_sale
from tests.integration.world import World

CREATE = "/gpu/instance/create"
GONE = ["instance.deleting", "instance.terminated"]


@pytest.fixture
def world(build: Build) -> World:
    made = build(**FORGETFUL | {"SETTLE_SECONDS": "120"})
    made.announcing = False
    return made


def _delete(world: World, instance_id: str) -> dict[str, Any]:
    status, answer = world.call("DELETE", f"/api/instances/{instance_id}")
    assert status == 202, answer
    accepted: dict[str, Any] = answer
    return accepted


def test_a_delete_at_any_moment_of_the_purchase_leaves_no_machine(world: World) -> None:
    world.wiring.deployments.id()
    world.create(name="recorded")
    world.wire.calls.clear()
    world.deliver()
    found = sides(call for call in world.wire.calls if call.handler == "create")
    world.settle()
    deletions = Interruptions(world)
    ids = []

    for number, point in enumerate(found):
        ids.append(world.create(name=f"i{number}"))
        deletions.plan(ids[-1], point, partial(_delete, world, ids[-1]))
        world.restart()
        world.deliver()
    deletions.end()
    world.settle()

    assert len(found) >= 15
    for instance_id, point in zip(ids, found, strict=True):
        assert world.record(instance_id).status is Status.TERMINATED, point
        assert world.history(instance_id)[-2:] == GONE, point
        settled = {purchase.outcome for purchase in world.wiring.instances.purchases(instance_id)}
        assert settled <= {Outcome.BOUGHT, Outcome.REFUSED, Outcome.ABSENT}, point
    assert [machine["name"].partition("-")[0] for machine in world.simulator.live()] == ["recorded"]


def test_a_delete_before_the_purchase_buys_nothing(world: World) -> None:
    instance_id = world.create()
    (late,) = world.receive("create")
    _delete(world, instance_id)

    world.settle()
    world.handle("create", late)
    world.settle()

    assert world.record(instance_id).status is Status.TERMINATED
    assert world.simulator.calls(CREATE) == []


def test_a_delete_while_nothing_is_on_sale_buys_nothing_when_it_is_back(world: World) -> None:
    instance_id = world.create()
    put_on_sale(world.simulator, available=False)
    world.run(45)

    _delete(world, instance_id)
    put_on_sale(world.simulator, available=True)
    world.settle()

    assert world.record(instance_id).status is Status.TERMINATED
    assert world.simulator.instances() == []


@pytest.mark.parametrize("lag", [0, 60, 115])
def test_a_delete_while_the_purchase_is_unclear_waits_until_it_is_settled(world: World, lag: int) -> None:
    world.simulator.settings(listLagSeconds=lag)
    world.simulator.fault("disconnect", CREATE, commit=True, times=1, match_body='"bought-')
    world.simulator.fault("disconnect", CREATE, commit=False, times=1, match_body='"not-')
    bought, never = world.create(name="bought"), world.create(name="not")
    world.simulator.fault("status", "/gpu/instances", status=503, times=20)
    world.deliver()
    world.simulator.clear_faults()

    _delete(world, bought)
    _delete(world, never)
    world.run(20)
    early = [world.record(one).status for one in (bought, never)]
    world.settle()

    assert early == [Status.DELETING, Status.DELETING], "not before the purchase is settled"
    assert [world.record(one).status for one in (bought, never)] == [Status.TERMINATED] * 2
    assert len(world.simulator.instances()) == 1
    assert world.simulator.live() == []
    assert [p.outcome for p in world.wiring.instances.purchases(bought)] == [Outcome.BOUGHT]
    assert [p.outcome for p in world.wiring.instances.purchases(never)] == [Outcome.ABSENT]


def test_a_purchase_that_turns_up_after_everything_was_settled_is_given_back(world: World) -> None:
    world.simulator.settings(listLagSeconds=400)
    world.simulator.fault("disconnect", CREATE, commit=True, times=1)
    instance_id = world.create()
    world.deliver()
    _delete(world, instance_id)

    world.settle()
    terminated, hidden = world.record(instance_id).status, world.simulator.live()
    world.run(400)
    world.sweep()
    world.settle()

    assert terminated is Status.TERMINATED
    assert len(hidden) == 1, "the list hid it for longer than the settling time"
    assert world.simulator.live() == []
    assert world.record(instance_id).status is Status.TERMINATED


def test_a_delete_while_the_buyer_is_dead_finds_what_it_bought(world: World) -> None:
    instance_id = world.create()
    deaths = Deaths(world)
    deaths.plan(instance_id, [Point("create", "novita POST /gpu/instance/create", 1, after=True)])
    world.deliver()
    deaths.end()

    _delete(world, instance_id)
    world.settle()

    assert world.record(instance_id).status is Status.TERMINATED
    assert len(world.simulator.instances()) == 1
    assert world.simulator.live() == []


def test_terminated_is_said_only_when_novita_has_confirmed_it(world: World) -> None:
    world.simulator.settings(removeSeconds=300)
    instance_id = world.create()
    world.settle()
    _delete(world, instance_id)

    world.run(290)
    before = (world.record(instance_id).status, len(world.simulator.live()))
    world.settle()

    assert before == (Status.DELETING, 1)
    assert world.record(instance_id).status is Status.TERMINATED
    assert len(world.simulator.calls("/gpu/instance/delete")) == 1


def test_a_delete_that_novita_forgets_is_asked_for_again(world: World) -> None:
    instance_id = world.create()
    world.settle()
    world.simulator.fault("garbage", "/gpu/instance/delete", body="empty", times=1)
    _delete(world, instance_id)

    world.settle()

    assert world.record(instance_id).status is Status.TERMINATED
    assert len(world.simulator.calls("/gpu/instance/delete")) == 2
    assert world.simulator.live() == []


def test_a_delete_goes_on_while_novita_fails_and_ends_when_it_is_back(world: World) -> None:
    instance_id = world.create()
    world.settle()
    _delete(world, instance_id)
    world.simulator.fault("status", status=503)

    world.run(100)
    during = world.record(instance_id).status
    world.simulator.clear_faults()
    world.settle()

    assert during is Status.DELETING
    assert world.record(instance_id).status is Status.TERMINATED


def test_one_empty_list_and_one_not_found_end_nothing(world: World) -> None:
    instance_id = world.create()
    world.settle()
    world.run(600)
    world.simulator.fault("garbage", "/gpu/instances", body='{"instances": [], "total": 0}', times=1)
    world.simulator.fault("status", "/gpu/instance", status=400, reason="RESOURCE_NOT_FOUND", times=1)

    world.sweep()
    world.settle()

    assert world.record(instance_id).status is Status.RUNNING
    assert world.record(instance_id).gone == ()


def test_a_second_delete_changes_nothing_and_gets_the_same_answer(world: World) -> None:
    instance_id = world.create()
    world.settle()

    first = _delete(world, instance_id)
    second = _delete(world, instance_id)
    world.settle()
    third = _delete(world, instance_id)

    assert first["operationId"] == second["operationId"] == third["operationId"]
    assert (first["status"], third["status"]) == ("deleting", "terminated")
    assert world.history(instance_id).count("instance.deleting") == 1
    assert len(world.simulator.calls("/gpu/instance/delete")) == 1
