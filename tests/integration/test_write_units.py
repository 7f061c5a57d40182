"""What one life of an instance writes: no index is rewritten that has nothing new to carry."""

from collections.abc import Callable
from typing import Any

from functions.shared.stores.schema import packed, unpacked
from tests.integration.harness import Harness
from tests.integration.sweeps import running
from tests.integration.write_units import Index, Stored, WriteUnits, counting, item_size, units

# 276 before the indexes carried keys and little else: the table 131, due 56, lookup 47, status 25, listed 17.
# With the owner of the machine, the lease of each health round, and an item that lists it by its owner.
MOST = 156
LEDGER = 10  # what its meter adds to the record, an interval when it ends, and an entry of its day
CLOCK = 4  # the moments that limits are counted from


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
    assert counted.total - findings(counted) - sums(counted) <= MOST + LEDGER + CLOCK, (
        places,
        counted.by_call,
    )
    assert places["listed"] == 1  # once, when it was made
    # Running and health checking are one write.
    assert places["status"] == 2 * (len(moves) - 1) - 1
    assert places["fleet"] <= len(moves)


# With limits and with the ledger, of which a life without them has neither. Limits alone cost a notice (a
# record, an event, both once more in the index of what is due, a webhook) and what they add to the record.
ALL_OF_IT, LIMITS_ALONE = 40, 34
ADDED = ("limits", "ceilings", "clock", "ended_by", "ledger")


def without_limits_and_ledger(item: Stored) -> Stored | None:
    """As it was stored before there were any."""
    if item.get("kind", {}).get("S") in ("cost", "costEntry"):
        return None
    if "record" not in item:
        return item
    record = unpacked(item["record"]["B"])
    kept = {name: value for name, value in record.items() if name not in ADDED}
    return {**item, "record": {"B": packed(kept)}}


def test_limits_and_the_ledger_cost_little_more_than_a_life_without_them(
    harness: Harness, table_definition: dict[str, Any]
) -> None:
    def life(as_if: Callable[[Stored], Stored | None], **limits: Any) -> int:
        with counting(harness, table_definition, as_if) as counted:
            hook = harness.simulator.inbox_url("told")
            instance_id = harness.create(name="a" * 8, webhookUrl=hook, healthCheck={}, **limits)
            harness.run(120)
            assert harness.record(instance_id).status == "ready"
            harness.sweep()  # what a list tells of each spot machine is part of every life
            if not limits:
                harness.call("DELETE", f"/api/instances/{instance_id}")
            harness.settle()
        assert harness.record(instance_id).status == "terminated"
        return counted.total - findings(counted) - sums(counted) - shared(counted)

    limits = {"deleteAfter": "3h", "stopAfter": "4h", "idleStopAfter": "5h", "idleGpuBelow": 5}
    life(lambda item: item)  # what is made once is made now
    bare, ledger, everything = (
        life(without_limits_and_ledger),
        life(lambda item: item),
        life(lambda item: item, limits={**limits, "deleteAfterStopped": "6h"}),
    )

    assert everything - bare <= ALL_OF_IT, (bare, ledger, everything)
    assert everything - ledger <= LIMITS_ALONE, (bare, ledger, everything)
    assert bare < ledger < everything


def findings(counted: WriteUnits) -> int:
    """What sweeps keep of what they found: written once a minute, however many instances there are."""
    return counted.by_call["sweep PutItem sweep/sweep"]


def sums(counted: WriteUnits) -> int:
    """Of what the day has cost: written once in four minutes."""
    return counted.by_call["sweep PutItem costs/sum"]


def shared(counted: WriteUnits) -> int:
    """Caches and the rate limiter: how much depends on how much time has passed, not on one instance."""
    return sum(cost for call, cost in counted.by_call.items() if " cache/" in call or " limiter/" in call)


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
