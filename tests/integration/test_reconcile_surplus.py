"""Machines with our mark that are one too many, or turn up late."""

import pytest

from functions.shared.domain.status import Status
from tests.integration.conftest import Build
from tests.integration.sweeps import listing, live, machine_of, put, running, states
from tests.integration.world import World


def test_a_second_machine_is_deleted_and_announced_once(world: World) -> None:
    (instance_id,) = running(world)
    own = machine_of(world, instance_id)
    second = put(world, instance_id, purchase=2)
    world.advance(5)

    for _ in range(3):
        world.sweep()
    world.settle()

    assert live(world) == {own}
    assert world.record(instance_id).status is Status.RUNNING
    told = [one for one in world.wiring.instances.events(instance_id) if one.type == "orphan.detected"]
    assert [one.reason for one in told] == [f"surplus machine {second} is being deleted"]


@pytest.mark.parametrize("purchase", [1, 7])
def test_a_machine_with_its_mark_is_adopted_by_an_instance_that_has_none(world: World, purchase: int) -> None:
    """Also where the table has forgotten the purchase, and a second one is not made."""
    world.simulator.fault("status", path="/gpu/instance/create", status=500, reason="UNKNOWN")
    instance_id = world.create(templateId="107677")  # without ports, as the machine made by hand
    while world.deliver():
        pass
    found = put(world, instance_id, purchase)
    world.advance(5)

    world.sweep()
    world.simulator.clear_faults()
    world.settle()

    record = world.record(instance_id)
    assert (record.status, record.machine_id) == (Status.RUNNING, found)
    assert live(world) == {found}
    assert record.purchases >= purchase


def test_a_machine_that_turns_up_on_a_terminated_instance_is_deleted(world: World) -> None:
    (instance_id,) = running(world)
    world.call("DELETE", f"/api/instances/{instance_id}")
    world.settle()
    late = put(world, instance_id, purchase=2)
    world.advance(5)

    world.sweep()
    assert not world.record(instance_id).at_rest
    world.settle()

    assert live(world) == set()
    assert world.record(instance_id).status is Status.TERMINATED
    assert late in world.record(instance_id).gone


def test_a_machine_that_turns_up_on_a_failed_instance_is_deleted(build: Build) -> None:
    world = build(PURCHASE_MAX_WAIT="60")
    instance_id = world.create()
    world.simulator.fault("status", path="/products", status=503)
    world.restart()
    world.advance(700)
    world.settle()
    assert world.record(instance_id).status is Status.FAILED
    world.simulator.clear_faults()
    put(world, instance_id)
    world.advance(100)

    world.sweep()
    world.settle()

    assert live(world) == set()
    assert world.record(instance_id).status is Status.FAILED


def test_a_machine_that_turns_up_while_its_instance_is_deleted_is_deleted_too(world: World) -> None:
    (instance_id,) = running(world)
    put(world, instance_id, purchase=2)
    world.call("DELETE", f"/api/instances/{instance_id}")
    world.advance(5)

    world.sweep()
    world.settle()

    assert live(world) == set()
    assert world.record(instance_id).status is Status.TERMINATED


def test_a_machine_that_vanished_and_is_back_is_told_of_and_kept_and_can_be_imported(world: World) -> None:
    """Novita denied it for long enough to be believed; nobody here had asked for its end."""
    (instance_id,) = running(world)
    machine_id = machine_of(world, instance_id)
    world.simulator.fault(
        "status", path="/gpu/instance", method="GET", status=400, reason="RESOURCE_NOT_FOUND"
    )
    with listing(world, []):
        for _ in range(10):
            world.sweep()
            world.run(60)
    world.simulator.clear_faults()
    assert world.record(instance_id).status is Status.TERMINATED

    for _ in range(3):
        world.sweep()
        world.settle()
        world.advance(60)

    assert live(world) == {machine_id}
    assert world.record(instance_id).at_rest
    assert world.history(instance_id).count("orphan.detected") == 1
    assert world.simulator.calls("/gpu/instance/delete") == []
    status, imported = world.call("POST", "/api/instances/import", {"novitaInstanceId": machine_id})
    assert (status, imported["status"]) == (201, "running")
    again, _ = world.call("POST", "/api/instances/import", {"novitaInstanceId": machine_id})
    assert again == 409


def test_a_machine_that_was_deleted_and_is_there_all_the_same_is_deleted_again(world: World) -> None:
    (instance_id,) = running(world)
    machine_id = machine_of(world, instance_id)
    world.simulator.fault("status", "/gpu/instance/delete", status=400, reason="RESOURCE_NOT_FOUND")
    world.simulator.fault(
        "status", path="/gpu/instance", method="GET", status=400, reason="RESOURCE_NOT_FOUND"
    )
    world.call("DELETE", f"/api/instances/{instance_id}")
    world.settle()
    world.simulator.clear_faults()
    assert world.record(instance_id).status is Status.TERMINATED
    assert live(world) == {machine_id}

    world.sweep()
    world.settle()

    assert live(world) == set()
    assert world.record(instance_id).at_rest


@pytest.mark.parametrize("count", [1, 3, 8])
def test_a_gateway_that_has_lost_its_routes_ends_nothing(world: World, count: int) -> None:
    """404 without a reason, for four minutes, while everybody reads and sweeps: it is no answer."""
    instances = running(world, count)
    before = {id_: world.record(id_).status for id_ in instances}
    world.simulator.fault(
        "garbage",
        status=404,
        body='{"code": 404, "message": "route not found"}',
        contentType="application/json",
    )
    for _ in range(8):
        for instance_id in instances:
            _, shown = world.call("GET", f"/api/instances/{instance_id}")
            assert (shown["status"], shown["stale"]) == ("running", True)
        world.sweep()
        world.run(30)

    world.simulator.clear_faults()
    world.run(600)
    world.settle()

    assert {id_: world.record(id_).status for id_ in instances} == before
    assert len(live(world)) == count
    assert world.simulator.calls(method="POST") == []


def test_a_list_that_still_shows_what_is_gone_changes_nothing(world: World) -> None:
    (instance_id,) = running(world)
    world.call("DELETE", f"/api/instances/{instance_id}")
    world.settle()
    world.simulator.settings(listLagSeconds=200)
    listed = world.wiring.novita.list(within=5)
    before = states(world)

    counts = world.sweep()

    assert [one.status for one in listed] == ["running"]
    assert (counts["surplus"], counts["changed"]) == (0, 0)
    assert states(world) == before
