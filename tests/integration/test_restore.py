"""A table restored from a backup is older than the machines: what was bought since is found again."""

from typing import Any

from functions.shared.domain.status import Status
from tests.integration.sweeps import LONG, live
from tests.integration.world import World


def restore(world: World, backup: list[dict[str, Any]]) -> None:
    for item in world.items():
        world.dynamodb.delete_item(TableName=world.table_name, Key={"pk": item["pk"], "sk": item["sk"]})
    for item in backup:
        world.dynamodb.put_item(TableName=world.table_name, Item=item)
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
    backup = world.items()
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
    (kept,) = bought(world, "before")
    backup = world.items()
    lost = bought(world, *(f"n{number}" for number in range(5)))

    restore(world, backup)
    world.advance(LONG)

    assert orphans(world) == (True, sorted(lost))
    assert world.sweep()["braked"]
    taken_over = [take_over(world, machine_id) for machine_id in lost]
    world.settle()
    swept = world.sweep()
    assert (swept["braked"], swept["orphans"], swept["known"]) == (False, 0, 6)
    assert live(world) == {kept, *lost}
    for instance_id in taken_over:
        world.call("DELETE", f"/api/instances/{instance_id}")
    world.settle()
    assert live(world) == {kept}


def test_a_machine_that_was_deleted_since_the_backup_is_found_gone(world: World) -> None:
    bought(world, "going")
    backup = world.items()
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
    (kept,) = bought(world, "before")
    instance_id = world.create()
    backup = world.items()
    world.settle()
    machine_id = world.record(instance_id).machine_id

    restore(world, backup)
    world.advance(LONG)
    world.sweep()
    world.settle()

    assert live(world) == {kept, machine_id}
    assert world.record(instance_id).status is Status.RUNNING
