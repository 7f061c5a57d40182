"""Machines with our mark and no record, and machines of others."""

from datetime import timedelta

from functions.shared.domain.ids import machine_name, new_instance_id
from functions.shared.domain.status import Status
from tests.integration.conftest import Build
from tests.integration.sweeps import LONG, events, live, machine_of, put, running
from tests.integration.wire import Made
from tests.integration.world import World


def _listed(world: World) -> list[str]:
    return [machine.id for machine in world.wiring.novita.list(within=5)]


def test_an_orphan_is_announced_once_and_kept(world: World) -> None:
    orphan = put(world, new_instance_id(world.now()))

    for _ in range(3):
        world.advance(4000)
        assert world.sweep()["orphans"] == 1

    (told,) = events(world, "orphan.detected")
    assert told["data"]["novitaInstanceId"] == orphan
    assert live(world) == {orphan}
    world.simulator.patch_instance(orphan, status="removed")


def test_an_orphan_is_deleted_only_under_that_policy_and_at_that_age(build: Build) -> None:
    world = build(ORPHAN_POLICY="delete", ORPHAN_AGE="600")
    orphan = put(world, new_instance_id(world.now()))
    world.advance(5)

    world.sweep()
    world.advance(599)
    assert world.sweep()["orphans_deleted"] == 0
    assert live(world) == {orphan}
    world.advance(2)

    assert world.sweep()["orphans_deleted"] == 1
    world.advance(60)
    assert live(world) == set()
    assert len(events(world, "orphan.detected")) == 1


def test_orphans_that_novita_will_not_delete_hold_up_no_others(build: Build) -> None:
    """Three is all that one sweep may delete where nothing else is known."""
    world = build(ORPHAN_POLICY="delete", ORPHAN_AGE="0")
    put_down: list[str] = []
    for _ in range(3):  # no more than three at a time: a sweep that finds many is braked
        put_down += [put(world, new_instance_id(world.now())) for _ in range(3)]
        world.advance(5)
        world.simulator.fault("status", "/gpu/instance/delete", status=403, times=100)
        world.sweep()
        world.simulator.clear_faults()
    refused = {id_ for id_ in put_down if id_ in _listed(world)[:4]}
    for id_ in refused:
        world.simulator.fault("status", "/gpu/instance/delete", match_body=id_, status=400, reason="REQUEST")

    deleted = []
    for _ in range(9):
        world.advance(60)
        deleted.append(world.sweep()["orphans_deleted"])

    assert max(deleted) <= 3
    world.advance(60)
    assert live(world) == refused
    for id_ in refused:
        world.simulator.patch_instance(id_, status="removed")


def test_orphans_too_young_to_be_deleted_count_for_nothing(build: Build) -> None:
    world = build(ORPHAN_POLICY="delete", ORPHAN_AGE="600")
    for _ in range(3):
        put(world, new_instance_id(world.now()))
    world.advance(5)
    world.sweep()
    world.advance(590)
    young = [put(world, new_instance_id(world.now())) for _ in range(3)]
    world.advance(11)

    deleted = world.sweep()["orphans_deleted"]

    world.advance(60)
    assert (deleted, live(world)) == (3, set(young))
    for id_ in young:
        world.simulator.patch_instance(id_, status="removed")


def test_what_is_no_orphan_at_the_last_moment_is_not_deleted(build: Build) -> None:
    """Renamed at Novita's console since the list was read: it carries our mark no more."""
    world = build(ORPHAN_POLICY="delete", ORPHAN_AGE="0")
    orphan = put(world, new_instance_id(world.now()))
    world.advance(5)
    world.sweep()

    def rename(made: Made) -> None:
        if made.name == "novita GET /gpu/instance":
            world.simulator.patch_instance(orphan, name="mine now")

    world.wire.before = rename
    counts = world.sweep()
    world.wire.before = None

    assert (counts["orphans"], counts["orphans_deleted"]) == (1, 0)
    assert live(world) == {orphan}


def test_an_orphan_that_is_imported_while_the_sweep_runs_is_not_deleted(build: Build) -> None:
    world = build(ORPHAN_POLICY="delete", ORPHAN_AGE="0")
    orphan = put(world, new_instance_id(world.now()))
    world.advance(5)
    world.sweep()

    def import_it(made: Made) -> None:
        if made.name == "novita GET /gpu/instance":  # the sweep's last look before it deletes
            world.wire.after = None
            body = {"novitaInstanceId": orphan}
            assert world.elsewhere(lambda: world.call("POST", "/api/instances/import", body))[0] == 201

    world.wire.after = import_it
    counts = world.sweep()

    assert (counts["orphans"], counts["orphans_deleted"]) == (1, 0)
    assert live(world) == {orphan}


def test_orphans_that_are_known_brake_no_sweep(world: World) -> None:
    (instance_id,) = running(world)
    orphans = [put(world, new_instance_id(world.now() + timedelta(seconds=n))) for n in range(6)]
    for orphan in orphans[3:]:
        world.simulator.patch_instance(orphan, name=f"not yet {orphan}")
    world.advance(5)
    assert world.sweep()["orphans"] == 3
    for number, orphan in enumerate(orphans[3:]):
        id_ = new_instance_id(world.now() + timedelta(seconds=number))
        name = machine_name("hand", world.wiring.deployments.id(), id_, 1)
        world.simulator.patch_instance(orphan, name=name)
    world.advance(5)
    assert (counts := world.sweep())["orphans"] == 6
    assert counts["braked"] is False

    world.simulator.patch_instance(machine_of(world, instance_id), status="exited")
    world.advance(5)
    world.sweep()

    assert world.record(instance_id).status is Status.EXITED
    assert len(events(world, "orphan.detected")) == 6
    for orphan in orphans:
        world.simulator.patch_instance(orphan, status="removed")


def test_machines_of_others_are_never_touched(build: Build) -> None:
    world = build(ORPHAN_POLICY="delete", ORPHAN_AGE="0")
    (instance_id,) = running(world)
    others = {
        put(world, instance_id, purchase=2, deployment="zzzz9999"),
        put(world, new_instance_id(world.now()), deployment="zzzz9999"),
        str(world.simulator.put_instance(name="by hand", status="running", ageSeconds=LONG)["id"]),
    }
    world.simulator.clear_calls()

    for _ in range(5):
        world.advance(3600)
        world.sweep()
    world.settle()

    assert live(world) == {*others, machine_of(world, instance_id)}
    touched = [call["body"] for call in world.simulator.calls(method="POST")]
    assert not [body for body in touched if any(other in str(body) for other in others)]
    assert events(world, "orphan.detected") == []
