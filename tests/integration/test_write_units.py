"""What one life of an instance writes: no index is rewritten that has nothing new to carry."""

from typing import Any

from tests.integration.harness import Harness
from tests.integration.sweeps import running
from tests.integration.write_units import Index, WriteUnits, counting, item_size, units

# 276 before the indexes carried keys and little else: the table 131, due 56, lookup 47, status 25, listed 17.
# With the owner of the machine and the lease of each health round.
MOST = 235


def test_a_life_from_create_to_terminated_costs_no_more_than_this(
    harness: Harness, table_definition: dict[str, Any]
) -> None:
    with counting(harness, table_definition) as counted:
        instance_id = harness.create(webhookUrl=harness.simulator.inbox_url("told"), healthCheck={})
        harness.settle()
        harness.call("DELETE", f"/api/instances/{instance_id}")
        harness.settle()

    told = [
        event["type"] for event in harness.call("GET", f"/api/instances/{instance_id}/events")[1]["events"]
    ]
    moves = [one for one in told if one.startswith("instance.")]
    assert moves[-3:] == ["instance.ready", "instance.deleting", "instance.terminated"]
    places = counted.by_place
    assert counted.total - findings(counted) <= MOST, (places, counted.by_call)
    assert places["listed"] == 1  # once, when it was made
    # Running and health checking are one write.
    assert places["status"] == 2 * (len(moves) - 1) - 1
    assert places["fleet"] <= len(moves)


def findings(counted: WriteUnits) -> int:
    """What sweeps keep of what they found: written once a minute, however many instances there are."""
    return counted.by_call["sweep PutItem sweep/sweep"]


def test_what_a_sweep_found_is_one_unit(harness: Harness, table_definition: dict[str, Any]) -> None:
    running(harness, 30)

    with counting(harness, table_definition) as counted:
        harness.sweep()

    assert findings(counted) == 1


def test_a_look_that_learns_nothing_rewrites_only_the_index_of_what_is_due(
    harness: Harness, table_definition: dict[str, Any]
) -> None:
    harness.simulator.settings(bootSeconds=600)
    instance_id = harness.create()
    harness.run(120)
    before = harness.record(instance_id).version

    with counting(harness, table_definition) as counted:
        harness.run(60)

    steps = harness.record(instance_id).version - before
    assert steps >= 1
    assert {place for place in counted.by_place if place != "table"} == {"due"}
    assert counted.by_place["due"] == 2 * steps
    harness.settle()


def test_units_are_counted_as_dynamodb_counts_them() -> None:
    keys = {"pk": {"S": "a"}, "sk": {"S": "b"}, "lookup": {"S": "x"}, "id": {"S": "1"}}
    entries = [{"AttributeName": "lookup"}, {"AttributeName": "id"}]
    narrow = Index.read(
        {"IndexName": "lookup", "KeySchema": entries, "Projection": {"ProjectionType": "KEYS_ONLY"}}
    )
    wide = Index.read({"IndexName": "lookup", "KeySchema": entries, "Projection": {"ProjectionType": "ALL"}})
    large = {**keys, "text": {"S": "x" * 1100}}

    assert item_size({"text": {"S": "é"}, "map": {"M": {"a": {"BOOL": True}}}}) == 4 + 2 + 3 + 3 + 3
    assert [units(size) for size in (1, 1024, 1025)] == [1, 1, 2]
    assert (narrow.cost(keys, large), wide.cost(keys, large)) == (0, 2)
    assert (narrow.cost(None, large), wide.cost(None, large)) == (1, 2)
    assert narrow.cost(keys, {**keys, "id": {"S": "2"}}) == 2  # one goes, one comes
    assert narrow.cost(keys, {"pk": {"S": "a"}, "sk": {"S": "b"}}) == 1
