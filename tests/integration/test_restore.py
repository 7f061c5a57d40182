"""A table restored from a backup is older than the machines: what was bought since is found again."""

from typing import Any

from functions.shared.domain.status import Status
from ops import keys
from ops.restore import restore_items, scan_items
from tests.integration.sweeps import LONG, live
from tests.integration.world import World


def backed_up(world: World) -> list[dict[str, Any]]:
    return list(scan_items(world.table))


def restore(world: World, backup: list[dict[str, Any]]) -> None:
    restore_items(world.table, backup)
    world.restart()


def bought(world: World, *names: str) -> list[str]:
    made = [world.create(name=name) for name in names]
    world.settle()
    return [str(world.record(one).machine_id) for one in made]


def orphans(world: World) -> tuple[bool, list[str]]:
    """What a dry run tells: whether it would be braked, and the machines that no record knows."""
    status, answer = world.call("POST", "/api/sync", {"dryRun": True})
    assert status == 200, answer
    return answer["braked"], sorted(one["novitaInstanceId"] for one in answer["orphans"])


def take_over(world: World, machine_id: str) -> str:
    status, answer = world.call("POST", "/api/instances/import", {"novitaInstanceId": machine_id})
    assert status == 201, answer
    return str(answer["instanceId"])


def test_a_machine_bought_since_the_backup_is_an_orphan_and_can_be_taken_over(world: World) -> None:
    (kept,) = bought(world, "before")
    backup = backed_up(world)
    (lost,) = bought(world, "since")

    restore(world, backup)
    world.advance(LONG)

    assert orphans(world) == (False, [lost])
    assert world.sweep()["orphans"] == 1
    instance_id = take_over(world, lost)
    world.settle()
    assert world.sweep()["orphans"] == 0
    assert live(world) == {kept, lost}
    world.call("DELETE", f"/api/instances/{instance_id}")
    world.settle()
    assert live(world) == {kept}
    assert world.sweep()["orphans"] == 0


def test_many_at_once_pull_the_brake_until_they_are_taken_over(world: World) -> None:
    """Also where the backup is older than the deployment's id."""
    backup = backed_up(world)
    lost = bought(world, *(f"n{number}" for number in range(5)))

    restore(world, backup)
    world.advance(LONG)

    assert orphans(world) == (True, sorted(lost))
    assert world.sweep()["braked"]
    taken_over = [take_over(world, machine_id) for machine_id in lost]
    world.settle()
    swept = world.sweep()
    assert (swept["braked"], swept["orphans"], swept["known"]) == (False, 0, 5)
    assert live(world) == set(lost)
    for instance_id in taken_over:
        world.call("DELETE", f"/api/instances/{instance_id}")
    world.settle()
    assert live(world) == set()


def test_a_machine_that_was_deleted_since_the_backup_is_found_gone(world: World) -> None:
    bought(world, "going")
    backup = backed_up(world)
    (record,) = world.records()
    world.call("DELETE", f"/api/instances/{record.id}")
    world.settle()

    restore(world, backup)
    world.advance(LONG)
    world.sweep()
    world.settle()

    assert world.record(record.id).status is Status.TERMINATED
    assert live(world) == set()


def test_a_create_that_was_under_way_buys_no_second_machine(world: World) -> None:
    instance_id = world.create()
    backup = backed_up(world)
    world.settle()
    machine_id = world.record(instance_id).machine_id

    restore(world, backup)
    world.advance(LONG)
    world.sweep()
    world.settle()

    assert live(world) == {machine_id}
    assert world.record(instance_id).status is Status.RUNNING


def test_a_key_that_was_revoked_since_the_backup_stays_so(world: World) -> None:
    key = keys.new_key()
    revoked = keys.create_key(world.table, name="gone", scopes=("read",), key=key)
    backup = backed_up(world)
    keys.revoke_key(world.table, revoked.id)

    restore(world, backup)

    status, _ = world.call("GET", "/api/instances", headers={"authorization": f"Bearer {key}"})
    assert status == 401
    assert world.call("GET", "/api/instances")[0] == 200


def test_a_table_that_was_lost_whole_gets_everything_back(world: World) -> None:
    (machine_id,) = bought(world, "one")
    backup = backed_up(world)
    with world.table.batch_writer() as batch:
        for item in backup:
            batch.delete_item(Key={"pk": item["pk"], "sk": item["sk"]})

    restore(world, backup)
    world.advance(LONG)

    assert world.sweep()["known"] == 1
    assert orphans(world) == (False, [])
    assert live(world) == {machine_id}
