"""The comparison of Novita's list with the records, on real handlers in virtual time."""

import json
from datetime import timedelta

import pytest
from botocore.exceptions import ClientError

from functions.shared.domain.ids import new_instance_id
from functions.shared.domain.instance.status import Status
from functions.shared.stores.schema import packed, unpacked
from functions.shared.stores.table import unmarshal
from tests.integration.conftest import Build
from tests.integration.harness import Context, Harness
from tests.integration.sweeps import events, listing, live, machine_of, put, put_bought, running, states
from tests.integration.wire import Made


def test_a_machine_that_novita_stopped_shows_as_exited_after_a_sweep(harness: Harness) -> None:
    instance_id = harness.create()
    harness.settle()

    harness.simulator.patch_instance(machine_of(harness, instance_id), status="exited")
    harness.advance(60)
    harness.sweep()

    assert harness.record(instance_id).status is Status.EXITED
    harness.settle()


def test_a_machine_that_somebody_starts_by_hand_after_its_instance_failed_is_stopped_again(
    harness: Harness,
) -> None:
    instance_id = harness.create()
    harness.settle()
    harness.simulator.app(status=500)
    harness.call("POST", f"/api/instances/{instance_id}/restart")
    harness.settle()
    failed = harness.record(instance_id)
    harness.simulator.patch_instance(machine_of(harness, instance_id), status="running")
    harness.advance(200)

    harness.sweep()
    harness.settle()

    assert (failed.status, failed.at_rest) == (Status.FAILED, True)
    assert harness.record(instance_id).status is Status.FAILED
    assert [machine["status"] for machine in harness.simulator.live()] == ["exited"]


def test_a_sweep_that_finds_everything_as_it_was_writes_no_record(harness: Harness) -> None:
    running(harness, 2)
    before = states(harness)

    counts = harness.sweep()

    assert (counts["known"], counts["changed"], counts["complete"]) == (2, 0, True)
    assert states(harness) == before


def test_a_machine_that_is_gone_for_good_ends_its_instance(harness: Harness) -> None:
    (instance_id,) = running(harness)
    gone_at = harness.now()
    harness.simulator.patch_instance(machine_of(harness, instance_id), status="removed")
    harness.advance(5)

    harness.sweep()
    assert harness.record(instance_id).status is Status.RUNNING
    harness.settle()

    assert harness.record(instance_id).status is Status.TERMINATED
    assert harness.now() - gone_at >= timedelta(seconds=10)


def test_not_found_for_a_minute_ends_nothing_even_if_nobody_noted_when_it_was_seen(harness: Harness) -> None:
    """Every sweep has seen it, and none wrote that down; so doubt begins now and lasts the settling time."""
    (instance_id,) = running(harness)
    harness.simulator.fault(
        "status", path="/gpu/instance", method="GET", status=400, reason="RESOURCE_NOT_FOUND"
    )

    with listing(harness, []):
        harness.sweep()
        harness.run(100)
        assert harness.record(instance_id).status is Status.RUNNING
    harness.simulator.clear_faults()
    harness.settle()

    assert harness.record(instance_id).status is Status.RUNNING
    assert harness.record(instance_id).machine.id in live(harness)


def test_two_sweeps_at_once_do_each_thing_once(build: Build) -> None:
    harness = build(ORPHAN_POLICY="delete", ORPHAN_AGE="0")
    first, second = running(harness, 2)
    orphan = put(harness, new_instance_id(harness.now()))
    extra = put_bought(harness, first, purchase=2)
    harness.simulator.patch_instance(machine_of(harness, second), status="exited")
    harness.advance(5)

    def meanwhile(made: Made) -> None:
        if made.name == "novita GET /gpu/instances":
            harness.wire.after = None
            harness.elsewhere(harness.sweep)

    harness.wire.after = meanwhile
    harness.sweep()
    harness.settle()

    assert live(harness) - {orphan} == {machine_of(harness, first), machine_of(harness, second)}
    assert harness.history(second)[-1] == "instance.exited"
    assert harness.history(second).count("instance.exited") == 1
    assert harness.history(first).count("orphan.detected") == 1
    assert len(events(harness, "orphan.detected")) == 1
    assert extra not in live(harness)
    harness.sweep()
    harness.advance(60)


def test_two_sweeps_at_once_enqueue_an_overdue_step_once(harness: Harness) -> None:
    instance_id = harness.create()
    for record in harness.receive("create"):
        harness.sqs.delete_message(QueueUrl=harness.queues["create"], ReceiptHandle=record["receiptHandle"])
    harness.advance(100)

    def meanwhile(made: Made) -> None:
        if made.name.startswith("Query instance"):
            harness.wire.after = None
            harness.elsewhere(harness.sweep)

    harness.wire.after = meanwhile
    harness.sweep()

    messages = [json.loads(one["body"]) for one in harness.receive("create")]
    assert [one["token"] for one in messages] == [harness.record(instance_id).token]
    harness.settle(only_sweeps=True)


def test_a_sweep_with_little_time_left_leaves_the_rest_to_the_next(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness.create()
    harness.advance(100)

    with monkeypatch.context() as patch:
        patch.setattr(Context, "get_remaining_time_in_millis", lambda _: 9_000)
        assert harness.sweep()["instances"] == 0

    assert harness.sweep()["instances"] == 1
    harness.settle()


def test_one_record_that_cannot_be_dealt_with_does_not_hold_up_the_others(harness: Harness) -> None:
    made = running(harness, 3)
    for one in made:
        harness.simulator.patch_instance(machine_of(harness, one), status="exited")
    harness.advance(5)
    refused: list[str] = []

    def refuse(call: Made) -> None:
        if call.name.startswith("TransactWriteItems") and not refused:
            refused.append(call.name)
            raise RuntimeError("whatever it is")

    harness.wire.before = refuse
    counts = harness.sweep()
    harness.wire.before = None

    assert (counts["changed"], counts["complete"]) == (2, False)
    assert harness.sweep()["changed"] == 1
    harness.settle()
    assert {harness.record(one).status for one in made} == {Status.EXITED}


def test_what_is_kept_for_a_time_says_until_when_and_nothing_else_goes(harness: Harness) -> None:
    """DynamoDB removes what has outlived `expiresAt`: no sweep of ours has to."""
    instance_id = harness.create(webhookUrl=harness.simulator.inbox_url("kept"))
    harness.settle()
    harness.call("POST", f"/api/instances/{instance_id}/stop", headers={"idempotency-key": "k"})
    harness.call("PUT", f"/api/instances/{instance_id}/last-used")
    harness.settle()
    harness.handle("monitor", harness.as_received("monitor", "none of ours", 4))
    harness.give_up("monitor", "x")
    harness.handle_dead_letters()
    orphan = put(harness, new_instance_id(harness.now()))
    harness.advance(5)
    harness.sweep()
    harness.simulator.patch_instance(orphan, status="removed")

    days: dict[str, set[int | None]] = {}
    for item in map(unmarshal, harness.items()):
        left = item["expiresAt"] - harness.now().timestamp() if "expiresAt" in item else None
        kind = str(item.get("kind", item["sk"]))
        days.setdefault(kind, set()).add(None if left is None else round(left / 86_400))

    assert {kind: days[kind] for kind in KEPT} == KEPT
    assert {kind: days[kind] for kind in FOR_EVER} == {kind: {None} for kind in FOR_EVER}


KEPT = {
    "event": {30},
    "operation": {30},
    "delivery": {30},
    "dead": {14},
    "answer": {1},
    "failure": {1},
    "count": {8},
}
FOR_EVER = frozenset({"instance", "purchase", "deployment", "orphan", "used"})


def test_an_item_that_cannot_be_read_does_not_hold_up_the_sweep(harness: Harness) -> None:
    """Stored by another version, which has been rolled back since."""
    broken, sound = harness.create(name="broken"), harness.create(name="sound")
    key = {"pk": {"S": broken}, "sk": {"S": "record"}}
    (item,) = [one for one in harness.items() if one["pk"] == key["pk"] and one["sk"] == key["sk"]]
    harness.dynamodb.update_item(
        TableName=harness.table_name,
        Key=key,
        UpdateExpression="SET #record = :strange REMOVE fleet",  # and the index does not show it
        ExpressionAttributeNames={"#record": "record"},
        ExpressionAttributeValues={":strange": {"S": "as nobody packs it"}},
    )
    harness.advance(60)

    swept = harness.sweep()

    assert swept["instances"] == 1
    assert swept["complete"]
    harness.dynamodb.put_item(TableName=harness.table_name, Item=item)
    harness.advance(60)
    harness.settle()
    assert harness.record(sound).status is harness.record(broken).status is Status.RUNNING


def test_a_record_that_cannot_be_read_holds_up_nobody_and_its_machine_is_left_alone(build: Build) -> None:
    """As after a roll-back: it was written by a version that knew more."""
    harness = build(ORPHAN_POLICY="delete", ORPHAN_AGE="0")
    strange, other = harness.create(name="strange"), harness.create(name="other")
    harness.settle()
    machines = {id_: str(harness.record(id_).machine.id) for id_ in (strange, other)}
    key = {"pk": {"S": strange}, "sk": {"S": "record"}}
    item = harness.dynamodb.get_item(TableName=harness.table_name, Key=key)["Item"]
    record = unpacked(item["record"]["B"]) | {"status": "dreaming"}
    changed = {**item, "statusKey": {"S": "instances#dreaming"}, "record": {"B": packed(record)}}
    for stored in (changed, {**changed, "statusKey": item["statusKey"]}):
        harness.dynamodb.put_item(TableName=harness.table_name, Item=stored)
        harness.simulator.patch_instance(machines[other], status="exited")
        harness.advance(200)
        harness.sweep()
        harness.advance(200)
        harness.sweep()

        assert harness.record(other).status is Status.EXITED
        harness.simulator.patch_instance(machines[other], status="running")
        harness.advance(200)
        harness.sweep()
        harness.settle()
    assert {machine["id"] for machine in harness.simulator.live()} == set(machines.values())

    harness.dynamodb.put_item(TableName=harness.table_name, Item=item)


def test_a_table_that_refuses_a_claim_ends_neither_the_sweep_nor_the_comparison(harness: Harness) -> None:
    harness.announcing = False
    instance_id = harness.create()
    harness.advance(120)

    def throttle(made: Made) -> None:
        if made.handler == "sweep" and made.name == "UpdateItem inst/record":
            raise ClientError({"Error": {"Code": "ThrottlingException"}}, "UpdateItem")

    harness.wire.before = throttle
    swept = harness.sweep()
    harness.wire.before = None

    assert swept["instances"] == 0
    assert swept["events"] == 1
    assert swept["complete"]
    harness.announcing = True
    harness.settle()
    assert harness.record(instance_id).status is Status.RUNNING
