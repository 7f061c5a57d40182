"""A table restored from a backup is older than the machines: what was bought since is found again."""

from datetime import timedelta
from typing import Any

from functions.shared.domain.instance.status import Status
from ops import keys
from ops.restore import restore_items, scan_items
from tests.integration.harness import Harness
from tests.integration.sweeps import LONG, live


def backed_up(harness: Harness) -> list[dict[str, Any]]:
    return list(scan_items(harness.table))


def restore(harness: Harness, backup: list[dict[str, Any]]) -> None:
    restore_items(harness.table, backup)
    harness.restart()


def bought(harness: Harness, *names: str) -> list[str]:
    made = [harness.create(name=name) for name in names]
    harness.settle()
    return [str(harness.record(one).machine.id) for one in made]


def orphans(harness: Harness) -> list[str]:
    """What a dry run tells: the machines that no record knows."""
    status, answer = harness.call("POST", "/api/sync", {"dryRun": True})
    assert status == 200, answer
    return sorted(one["novitaInstanceId"] for one in answer["orphans"])


def take_over(harness: Harness, machine_id: str) -> str:
    status, answer = harness.call("POST", "/api/instances/import", {"novitaInstanceId": machine_id})
    assert status == 201, answer
    return str(answer["instanceId"])


def test_a_machine_bought_since_the_backup_is_an_orphan_and_can_be_taken_over(harness: Harness) -> None:
    (kept,) = bought(harness, "before")
    backup = backed_up(harness)
    (lost,) = bought(harness, "since")

    restore(harness, backup)
    harness.advance(LONG)

    assert orphans(harness) == [lost]
    assert harness.sweep()["orphans"] == 1
    instance_id = take_over(harness, lost)
    harness.settle()
    assert harness.sweep()["orphans"] == 0
    assert live(harness) == {kept, lost}
    harness.call("DELETE", f"/api/instances/{instance_id}")
    harness.settle()
    assert live(harness) == {kept}
    assert harness.sweep()["orphans"] == 0


def test_many_at_once_are_told_and_kept_until_they_are_taken_over(harness: Harness) -> None:
    """Also where the backup is older than the deployment's id."""
    backup = backed_up(harness)
    lost = bought(harness, *(f"n{number}" for number in range(5)))

    restore(harness, backup)
    harness.advance(LONG)

    assert orphans(harness) == sorted(lost)
    assert harness.sweep()["orphans"] == 5
    taken_over = [take_over(harness, machine_id) for machine_id in lost]
    harness.settle()
    swept = harness.sweep()
    assert (swept["orphans"], swept["known"]) == (0, 5)
    assert live(harness) == set(lost)
    for instance_id in taken_over:
        harness.call("DELETE", f"/api/instances/{instance_id}")
    harness.settle()
    assert live(harness) == set()


def test_a_machine_that_was_deleted_since_the_backup_is_found_gone(harness: Harness) -> None:
    harness.costs_within = timedelta(minutes=10)  # nobody knows any more when it was deleted
    bought(harness, "going")
    backup = backed_up(harness)
    (record,) = harness.records()
    harness.call("DELETE", f"/api/instances/{record.id}")
    harness.settle()
    asked = [item for item in backed_up(harness) if item.get("kind") == "operation"]

    restore(harness, backup)
    harness.advance(LONG)
    harness.sweep()
    harness.settle()

    assert harness.record(record.id).status is Status.TERMINATED
    assert live(harness) == set()
    for item in asked:  # the books are to know who asked for that end
        harness.table.put_item(Item=item)


def test_a_create_that_was_under_way_buys_no_second_machine(harness: Harness) -> None:
    instance_id = harness.create()
    backup = backed_up(harness)
    harness.settle()
    machine_id = harness.record(instance_id).machine.id

    restore(harness, backup)
    harness.advance(LONG)
    harness.sweep()
    harness.settle()

    assert live(harness) == {machine_id}
    assert harness.record(instance_id).status is Status.RUNNING


def test_a_key_that_was_revoked_since_the_backup_stays_so(harness: Harness) -> None:
    key = keys.new_key()
    revoked = keys.create_key(harness.table, name="gone", scopes=("read",), key=key)
    backup = backed_up(harness)
    keys.revoke_key(harness.table, revoked.id)

    restore(harness, backup)

    status, _ = harness.call("GET", "/api/instances", headers={"authorization": f"Bearer {key}"})
    assert status == 401
    assert harness.call("GET", "/api/instances")[0] == 200


def test_cursors_go_on_after_a_restore_as_functions_know_them(harness: Harness) -> None:
    """A backup of a table whose secret was another: warm functions and new ones must not disagree."""
    bought(harness, "one", "two")
    cursor = harness.call("GET", "/api/instances?limit=1")[1]["nextCursor"]
    other = {"pk": "cursors", "sk": "secret", "kind": "secret", "value": "another"}

    restore(harness, [*backed_up(harness), other])

    assert harness.call("GET", f"/api/instances?cursor={cursor}")[0] == 200


def test_a_table_that_was_lost_whole_gets_everything_back(harness: Harness) -> None:
    (machine_id,) = bought(harness, "one")
    backup = backed_up(harness)
    with harness.table.batch_writer() as batch:
        for item in backup:
            batch.delete_item(Key={"pk": item["pk"], "sk": item["sk"]})

    restore(harness, backup)
    harness.advance(LONG)

    assert harness.sweep()["known"] == 1
    assert orphans(harness) == []
    assert live(harness) == {machine_id}
