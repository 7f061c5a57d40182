"""The comparison of Novita's list with the records, on real handlers in virtual time."""

import json
from datetime import timedelta

import pytest
from botocore.exceptions import ClientError

from functions.shared.adapters.table import unmarshal
from functions.shared.domain.ids import new_instance_id
from functions.shared.domain.status import Status
from tests.integration.conftest import Build
from tests.integration.sweeps import events, listing, live, machine_of, put, running, states
from tests.integration.wire import Made
from tests.integration.world import Context, World


def test_a_machine_that_novita_stopped_shows_as_exited_after_a_sweep(world: World) -> None:
    instance_id = world.create()
    world.settle()

    world.simulator.patch_instance(machine_of(world, instance_id), status="exited")
    world.advance(60)
    world.sweep()

    assert world.record(instance_id).status is Status.EXITED
    world.settle()


def test_a_machine_that_somebody_starts_by_hand_after_its_instance_failed_is_stopped_again(
    world: World,
) -> None:
    instance_id = world.create()
    world.settle()
    world.simulator.app(status=500)
    world.call("POST", f"/api/instances/{instance_id}/restart")
    world.settle()
    failed = world.record(instance_id)
    world.simulator.patch_instance(machine_of(world, instance_id), status="running")
    world.advance(200)

    world.sweep()
    world.settle()

    assert (failed.status, failed.at_rest) == (Status.FAILED, True)
    assert world.record(instance_id).status is Status.FAILED
    assert [machine["status"] for machine in world.simulator.live()] == ["exited"]


def test_a_sweep_that_finds_everything_as_it_was_writes_no_record(world: World) -> None:
    running(world, 2)
    before = states(world)

    counts = world.sweep()

    assert (counts["known"], counts["changed"], counts["complete"]) == (2, 0, True)
    assert states(world) == before


def test_a_machine_that_is_gone_for_good_ends_its_instance(world: World) -> None:
    (instance_id,) = running(world)
    gone_at = world.now()
    world.simulator.patch_instance(machine_of(world, instance_id), status="removed")
    world.advance(5)

    world.sweep()
    assert world.record(instance_id).status is Status.RUNNING
    world.settle()

    assert world.record(instance_id).status is Status.TERMINATED
    assert world.now() - gone_at >= timedelta(seconds=10)


def test_not_found_for_a_minute_ends_nothing_even_if_nobody_noted_when_it_was_seen(world: World) -> None:
    """Every sweep has seen it, and none wrote that down; so doubt begins now and lasts the settling time."""
    (instance_id,) = running(world)
    world.simulator.fault(
        "status", path="/gpu/instance", method="GET", status=400, reason="RESOURCE_NOT_FOUND"
    )

    with listing(world, []):
        world.sweep()
        world.run(100)
        assert world.record(instance_id).status is Status.RUNNING
    world.simulator.clear_faults()
    world.settle()

    assert world.record(instance_id).status is Status.RUNNING
    assert world.record(instance_id).machine_id in live(world)


def test_two_sweeps_at_once_do_each_thing_once(build: Build) -> None:
    world = build(ORPHAN_POLICY="delete", ORPHAN_AGE="0")
    first, second = running(world, 2)
    orphan = put(world, new_instance_id(world.now()))
    extra = put(world, first, purchase=2)
    world.simulator.patch_instance(machine_of(world, second), status="exited")
    world.advance(5)

    def meanwhile(made: Made) -> None:
        if made.name == "novita GET /gpu/instances":
            world.wire.after = None
            world.elsewhere(world.sweep)

    world.wire.after = meanwhile
    world.sweep()
    world.settle()

    assert live(world) - {orphan} == {machine_of(world, first), machine_of(world, second)}
    assert world.history(second)[-1] == "instance.exited"
    assert world.history(second).count("instance.exited") == 1
    assert world.history(first).count("orphan.detected") == 1
    assert len(events(world, "orphan.detected")) == 1
    assert extra not in live(world)
    world.sweep()
    world.advance(60)


def test_two_sweeps_at_once_hint_at_an_overdue_step_once(world: World) -> None:
    instance_id = world.create()
    for record in world.receive("create"):
        world.sqs.delete_message(QueueUrl=world.queues["create"], ReceiptHandle=record["receiptHandle"])
    world.advance(100)

    def meanwhile(made: Made) -> None:
        if made.name.startswith("Query instance"):
            world.wire.after = None
            world.elsewhere(world.sweep)

    world.wire.after = meanwhile
    world.sweep()

    hints = [json.loads(one["body"]) for one in world.receive("create")]
    assert [hint["token"] for hint in hints] == [world.record(instance_id).token]
    world.settle(only_sweeps=True)


def test_a_sweep_with_little_time_left_leaves_the_rest_to_the_next(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.create()
    world.advance(100)

    with monkeypatch.context() as patch:
        patch.setattr(Context, "get_remaining_time_in_millis", lambda _: 9_000)
        assert world.sweep()["instances"] == 0

    assert world.sweep()["instances"] == 1
    world.settle()


def test_one_record_that_cannot_be_dealt_with_does_not_hold_up_the_others(world: World) -> None:
    made = running(world, 3)
    for one in made:
        world.simulator.patch_instance(machine_of(world, one), status="exited")
    world.advance(5)
    refused: list[str] = []

    def refuse(call: Made) -> None:
        if call.name.startswith("TransactWriteItems") and not refused:
            refused.append(call.name)
            raise RuntimeError("whatever it is")

    world.wire.before = refuse
    counts = world.sweep()
    world.wire.before = None

    assert (counts["changed"], counts["complete"]) == (2, False)
    assert world.sweep()["changed"] == 1
    world.settle()
    assert {world.record(one).status for one in made} == {Status.EXITED}


def test_what_is_kept_for_a_time_says_until_when_and_nothing_else_goes(world: World) -> None:
    """DynamoDB removes what has outlived `expiresAt`: no sweep of ours has to."""
    instance_id = world.create(webhookUrl=world.simulator.inbox_url("kept"))
    world.settle()
    world.call("POST", f"/api/instances/{instance_id}/stop", headers={"idempotency-key": "k"})
    world.call("PUT", f"/api/instances/{instance_id}/last-used")
    world.settle()
    world.handle("monitor", world.as_received("monitor", "none of ours", 4))
    world.sqs.send_message(QueueUrl=world.dead_queues["monitor"], MessageBody="x")
    world.bury()
    orphan = put(world, new_instance_id(world.now()))
    world.advance(5)
    world.sweep()
    world.simulator.patch_instance(orphan, status="removed")

    days: dict[str, set[int | None]] = {}
    for item in map(unmarshal, world.items()):
        left = item["expiresAt"] - world.now().timestamp() if "expiresAt" in item else None
        kind = str(item.get("kind", item["sk"]))
        days.setdefault(kind, set()).add(None if left is None else round(left / 86_400))

    assert {kind: days[kind] for kind in KEPT} == KEPT
    assert {kind: days[kind] for kind in FOR_EVER} == {kind: {None} for kind in FOR_EVER}


KEPT = {"event": {30}, "operation": {30}, "delivery": {30}, "dead": {14}, "answer": {1}, "failure": {1}}
FOR_EVER = frozenset({"instance", "purchase", "deployment", "orphan", "count", "used"})


def test_an_item_that_cannot_be_read_does_not_hold_up_the_sweep(world: World) -> None:
    """Stored by another version, which has been rolled back since."""
    broken, sound = world.create(name="broken"), world.create(name="sound")
    key = {"pk": {"S": broken}, "sk": {"S": "record"}}
    (item,) = [one for one in world.items() if one["pk"] == key["pk"] and one["sk"] == key["sk"]]
    world.dynamodb.update_item(
        TableName=world.table_name,
        Key=key,
        UpdateExpression="SET #record.#created = :strange REMOVE statusKey",  # and the list does not show it
        ExpressionAttributeNames={"#record": "record", "#created": "created_at"},
        ExpressionAttributeValues={":strange": {"S": "the other day"}},
    )
    world.advance(60)

    swept = world.sweep()

    assert swept["instances"] == 1
    assert swept["complete"]
    world.dynamodb.put_item(TableName=world.table_name, Item=item)
    world.advance(60)
    world.settle()
    assert world.record(sound).status is world.record(broken).status is Status.RUNNING


def test_a_record_that_cannot_be_read_holds_up_nobody_and_its_machine_is_left_alone(build: Build) -> None:
    """As after a roll-back: it was written by a version that knew more."""
    world = build(ORPHAN_POLICY="delete", ORPHAN_AGE="0")
    strange, other = world.create(name="strange"), world.create(name="other")
    world.settle()
    machines = {id_: str(world.record(id_).machine_id) for id_ in (strange, other)}
    key = {"pk": {"S": strange}, "sk": {"S": "record"}}
    item = world.dynamodb.get_item(TableName=world.table_name, Key=key)["Item"]
    status = {"S": "dreaming"}
    changed = {
        **item,
        "statusKey": {"S": "instances#dreaming"},
        "record": {"M": item["record"]["M"] | {"status": status}},
    }
    for stored in (changed, {**changed, "statusKey": item["statusKey"]}):
        world.dynamodb.put_item(TableName=world.table_name, Item=stored)
        world.simulator.patch_instance(machines[other], status="exited")
        world.advance(200)
        world.sweep()
        world.advance(200)
        world.sweep()

        assert world.record(other).status is Status.EXITED
        world.simulator.patch_instance(machines[other], status="running")
        world.advance(200)
        world.sweep()
        world.settle()
    assert {machine["id"] for machine in world.simulator.live()} == set(machines.values())

    world.dynamodb.put_item(TableName=world.table_name, Item=item)


def test_a_table_that_refuses_a_claim_ends_neither_the_sweep_nor_the_comparison(world: World) -> None:
    world.announcing = False
    instance_id = world.create()
    world.advance(120)

    def throttle(made: Made) -> None:
        if made.handler == "sweep" and made.name == "UpdateItem inst/record":
            raise ClientError({"Error": {"Code": "ThrottlingException"}}, "UpdateItem")

    world.wire.before = throttle
    swept = world.sweep()
    world.wire.before = None

    assert swept["instances"] == 0
    assert swept["events"] == 1
    assert swept["complete"]
    world.announcing = True
    world.settle()
    assert world.record(instance_id).status is Status.RUNNING
