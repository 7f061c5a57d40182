"""Records stored with their events, guarded by version: who wins, and that nothing is lost on the way."""

from collections.abc import Callable
from dataclasses import MISSING, fields, replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from botocore.exceptions import ClientError

from functions.shared.domain.errors import Fault, StaleInstance
from functions.shared.domain.instance.boot_times import BootEstimate
from functions.shared.domain.instance.commands import begin_delete, begin_start
from functions.shared.domain.instance.decision import Decision
from functions.shared.domain.instance.health import HealthCheck
from functions.shared.domain.instance.limits import EndedBy, LimitClock, Limits
from functions.shared.domain.instance.machine import Endpoint, ShownError
from functions.shared.domain.instance.reclaim import OnReclaim, ReclaimAction, Recovery, RecoveryCount
from functions.shared.domain.instance.record import (
    Action,
    Cleanup,
    CleanupTask,
    Event,
    HealthRounds,
    Instance,
    NetworkVolume,
    Operation,
    Purchase,
    PurchaseOutcome,
    PurchaseState,
    Refusal,
    RentedMachine,
    Spec,
)
from functions.shared.domain.instance.status import Status
from functions.shared.domain.money.caps import Commitment
from functions.shared.domain.money.ledger import Ledger, LineKind, Meter
from functions.shared.stores import instances as items
from functions.shared.stores.idempotency import ApiResult, IdempotencyKeys, idempotent_request
from functions.shared.stores.instances import Instances
from functions.shared.stores.listings import Listing
from functions.shared.stores.schema import SCHEMA, unpacked
from functions.shared.stores.table import ConditionFailed, Table, Write, marshal, unmarshal
from tests.unit.builders import NOW, after, created, deciding, new_instance, new_purchase
from tests.unit.tables import instances_in

ID = "inst_01JGFJJZ00ABCDEFGHJKMNPQRS"


class Flaky:
    """The real client, whose writes can go wrong: an answer lost after its effect, or a conflict with another
    transaction, which a put and a transaction are told in different ways."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.answers_lost = 0
        self.conflicts = 0
        self.sent = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def transact_write_items(self, **request: Any) -> Any:
        self.sent += 1
        if self.conflicts:
            self.conflicts -= 1
            raise _conflict(len(request["TransactItems"]))
        if self.answers_lost:  # and the SDK sends the request again
            self.answers_lost -= 1
            self._client.transact_write_items(**request)
        return self._client.transact_write_items(**request)

    def put_item(self, **request: Any) -> Any:
        self.sent += 1
        if self.conflicts:
            self.conflicts -= 1
            raise ClientError({"Error": {"Code": "TransactionConflictException", "Message": ""}}, "PutItem")
        if self.answers_lost:
            self.answers_lost -= 1
            self._client.put_item(**request)
        return self._client.put_item(**request)


def _conflict(writes: int) -> ClientError:
    none = [{"Code": "None"}] * (writes - 1)
    response: Any = {
        "Error": {"Code": "TransactionCanceledException", "Message": ""},
        "CancellationReasons": [{"Code": "TransactionConflict"}, *none],
    }
    return ClientError(response, "TransactWriteItems")


def stored(table: Table) -> list[tuple[str, str]]:
    found = table.client.scan(TableName=table.name, ConsistentRead=True)["Items"]
    return sorted((item["pk"]["S"], item["sk"]["S"]) for item in found)


def test_an_instance_is_stored_with_its_first_event(table: Table, instances: Instances) -> None:
    record = instances.add(created())

    assert instances.get(ID) == record
    assert (record.version, record.token) == (1, "token-1")
    assert [(event.type, event.sequence) for event in instances.events(ID)] == [("instance.creating", 1)]
    event, of_its_owner, item = stored(table)
    assert (event, item) == ((ID, "event#0000000001"), (ID, "record"))
    assert of_its_owner[1].startswith("list#")


def test_a_write_over_another_version_is_refused_and_writes_nothing(
    table: Table, instances: Instances
) -> None:
    first = instances.add(created())
    winner = instances.save(begin_delete(deciding(first), "op_winner"))
    before = stored(table)

    with pytest.raises(StaleInstance):
        instances.save(begin_delete(deciding(first), "op_loser"))

    assert stored(table) == before
    assert instances.get(ID) == winner


def test_of_two_writers_one_wins(instances: Instances) -> None:
    first = instances.add(created())

    outcomes = []
    for name in ("op_a", "op_b"):
        try:
            outcomes.append(instances.save(begin_delete(deciding(first), name)).version)
        except StaleInstance:
            outcomes.append(0)

    assert outcomes == [2, 0]
    assert [event.sequence for event in instances.events(ID)] == [1, 2]


def test_a_deleted_record_is_not_brought_back_by_a_late_writer(table: Table, instances: Instances) -> None:
    record = instances.add(created())
    table.client.delete_item(TableName=table.name, Key={"pk": {"S": ID}, "sk": {"S": "record"}})

    with pytest.raises(StaleInstance):
        instances.save(deciding(record))

    assert instances.get(ID) is None


def with_event(record: Instance) -> Decision:
    return begin_delete(deciding(record), "op_1")


def without_event(record: Instance) -> Decision:
    """The record alone changes, which needs no transaction."""
    return deciding(record).change(name="other")


@pytest.mark.parametrize("change", [with_event, without_event])
def test_a_save_whose_answer_was_lost_has_been_made(
    table: Table, change: Callable[[Instance], Decision]
) -> None:
    flaky: Any = Flaky(table.client)
    instances = instances_in(Table(flaky, table.name))
    decision = change(instances.add(created()))
    flaky.answers_lost = 1

    saved = instances.save(decision)

    assert instances.get(ID) == saved
    assert [event.sequence for event in instances.events(ID)] == list(range(1, 2 + len(decision.events)))


def test_an_add_whose_answer_was_lost_has_been_made(table: Table) -> None:
    flaky: Any = Flaky(table.client)
    instances = instances_in(Table(flaky, table.name))
    flaky.answers_lost = 1

    record = instances.add(created())

    assert instances.get(ID) == record


@pytest.mark.parametrize("change", [with_event, without_event])
def test_a_conflict_that_nobody_won_is_tried_again(
    table: Table, change: Callable[[Instance], Decision]
) -> None:
    """The sweep moves a due time while a step is being saved: neither is another version."""
    flaky: Any = Flaky(table.client)
    instances = instances_in(Table(flaky, table.name))
    record = instances.add(created())
    flaky.conflicts, flaky.sent = 2, 0

    saved = instances.save(change(record))

    assert instances.get(ID) == saved
    assert flaky.sent == 3


@pytest.mark.parametrize("change", [with_event, without_event])
def test_conflicts_without_end_are_somebody_elses_turn(
    table: Table, change: Callable[[Instance], Decision]
) -> None:
    flaky: Any = Flaky(table.client)
    instances = instances_in(Table(flaky, table.name))
    record = instances.add(created())
    flaky.conflicts = 10

    with pytest.raises(StaleInstance):
        instances.save(change(record))


def test_a_used_idempotency_key_keeps_everything_from_being_written(
    table: Table, instances: Instances
) -> None:
    answers = IdempotencyKeys(table, lambda: NOW)
    asked = idempotent_request("key_1", "POST /api/instances", "the key", {"name": "test"})
    other_id = "inst_01JGFJJZ00ZZZZZZZZZZZZZZZZ"
    instances.add(created(), [answers.write(asked, ApiResult(201, {"instanceId": ID}))])
    before = stored(table)

    with pytest.raises(ConditionFailed):
        instances.add(
            created(instance_id=other_id), [answers.write(asked, ApiResult(201, {"instanceId": other_id}))]
        )

    assert stored(table) == before
    found = answers.find(asked)
    assert found
    assert found.body == {"instanceId": ID}


def test_an_intent_is_stored_with_what_the_instance_knows_of_it_or_not_at_all(instances: Instances) -> None:
    record = instances.add(created())
    intending = deciding(record).change_purchases(count=1, unsettled=True)

    instances.intend(intending, new_purchase(PurchaseOutcome.INTENDED))
    with pytest.raises(StaleInstance):
        instances.intend(intending, new_purchase(PurchaseOutcome.INTENDED, 2))

    assert instances.purchases(ID) == (new_purchase(PurchaseOutcome.INTENDED),)
    after_it = instances.get(ID)
    assert after_it
    assert after_it.purchases == PurchaseState(count=1, unsettled=True)


def test_the_same_purchase_is_never_intended_twice(instances: Instances) -> None:
    record = instances.add(created())
    once = instances.intend(deciding(record), new_purchase(PurchaseOutcome.INTENDED))

    with pytest.raises(StaleInstance):
        instances.intend(deciding(once), replace(new_purchase(PurchaseOutcome.INTENDED), name="another"))

    assert instances.get(ID) == once


@pytest.mark.parametrize("final", [PurchaseOutcome.REFUSED, PurchaseOutcome.BOUGHT, PurchaseOutcome.ABSENT])
@pytest.mark.parametrize("later", list(PurchaseOutcome))
def test_a_final_outcome_is_never_written_over(
    instances: Instances, final: PurchaseOutcome, later: PurchaseOutcome
) -> None:
    record = instances.add(created())
    instances.intend(deciding(record), new_purchase(PurchaseOutcome.INTENDED))
    instances.settle(new_purchase(PurchaseOutcome.UNCLEAR))
    instances.settle(new_purchase(final))

    instances.settle(replace(new_purchase(later), region="other"))

    assert instances.purchases(ID) == (new_purchase(final),)


def test_a_purchase_that_nobody_intended_cannot_be_settled(instances: Instances) -> None:
    instances.settle(new_purchase(PurchaseOutcome.BOUGHT))

    assert instances.purchases(ID) == ()


def test_settling_needs_no_version(instances: Instances) -> None:
    record = instances.add(created())
    intended = instances.intend(deciding(record), new_purchase(PurchaseOutcome.INTENDED))
    instances.save(begin_delete(deciding(intended), "op_1"))

    instances.settle(new_purchase(PurchaseOutcome.BOUGHT))

    assert instances.purchases(ID) == (new_purchase(PurchaseOutcome.BOUGHT),)


FULL_SPEC = Spec(
    product_name="RTX 4090 24GB",
    template_id="107672",
    gpu_num=2,
    rootfs_size=61,
    region="CN-HK-01",
    regions=("CN-HK-01", "AS-SGP-02"),
    billing_mode="onDemand",
    max_price=Decimal("0.3500000001"),
    placement="cheapest",
    boot_wait_seconds=90.5,
    keep_on_failure=True,
    health_check=HealthCheck(1001, 1, 101, 30_001, 8188, "/up"),
    tags=(("team", "röd"), ("empty", "")),
    on_reclaim=OnReclaim(ReclaimAction.REPLACE, timedelta(minutes=90), 3, timedelta(seconds=61), "onDemand"),
    network_volumes=(NetworkVolume("storage-1", "/data"),),
    env_names=("HF_TOKEN",),
)
REFUSAL = Refusal(after(30), 3, after(31), announced=True)
FULL_METER = Meter(
    "m-3",
    Decimal("0.42"),
    Decimal("0.01"),
    guessed_price=True,
    product_id="p-1",
    region="AS-SGP-02",
    kind=LineKind.RUNNING,
    since=after(4),
    estimated=True,
    confirmed=True,
    ended_at=after(3),
    booked_from=after(4),
    booked_until=after(5),
)
FULL = Instance(
    id=ID,
    name="Zoë's 🐴",
    spec=FULL_SPEC,
    status=Status.STARTING,
    created_at=after(0.000001),
    updated_at=after(1),
    deadline_at=after(2),
    next_check_at=after(3),
    actor="key_1",
    correlation_id="corr",
    webhook_url="https://hook.example/?a=1",
    version=41,
    token="token",
    sequence=12,
    machine=RentedMachine(
        id="m-3",
        region="AS-SGP-02",
        product_id="p-1",
        price=Decimal("0.21"),
        bought_at=after(4),
        boot=BootEstimate(3.5, 0.4),
        novita_status="pulling",
        endpoints=(Endpoint(8188, "http", "https://x.example"), Endpoint(22, "tcp", "")),
        expects_endpoints=True,
        spot_status="reclaiming",
        spot_reclaim_at=after(5),
        told_notice="notified",
        billing_mode="onDemand",
        untried=True,
        looked_at=after(7),
        seen_at=after(9),
        first_missed_at=after(10),
        last_missed_at=after(10.5),
        missed_seconds=0.5,
        missing_since=after(10.2),
        owned=True,
        shown_error=ShownError("oom", after(7.5)),
        told_errors=("oom",),
        needs_look=True,
        acted_at=after(11),
        may_start_until=after(11.5),
    ),
    purchases=PurchaseState(
        count=3,
        unsettled=True,
        unseen_at=after(6.5),
        read_at=after(6),
        reasons=(("CN-HK-01", "NO_PRICE"),),
        price=Decimal("0.22"),
    ),
    capped=True,
    counted=Commitment(1, 2),
    limits=Limits(
        timedelta(seconds=5400),
        timedelta(days=3),
        timedelta(minutes=5),
        timedelta(hours=8),
        after(40),
        after(41),
        4.5,
    ),
    ceilings=Limits(timedelta(days=7)),
    clock=LimitClock(*(after(42 + number) for number in range(9))),
    protected=True,
    ended_by=EndedBy.IDLE,
    cleanup=Cleanup(
        tasks=(
            CleanupTask("m-4", Action.STOP, after(14), after(15), after(16), after(17), REFUSAL),
            CleanupTask("m-5", Action.DELETE, after(18)),
        ),
        gone=("m-1", "m-2"),
        vanished=("m-3",),
        released=("m-6",),
    ),
    ledger=Ledger(
        meters=(FULL_METER,),
        closed_usd=Decimal("1.000000001"),
        estimated=True,
        lines=2,
        entries=3,
        ended=(("m-1", after(1)), ("m-2", after(2))),
        tags=FULL_SPEC.tags,
    ),
    operation=Operation(
        "op_1",
        Action.RESTART,
        "monitoring",
        "key_1",
        after(19),
        (("initiated", after(19)),),
        2,
        Fault("A", "b"),
        pending=True,
        refusal=REFUSAL,
        health_check=HealthCheck(),
        webhook_url="https://hook.example/start",
        began_in=Status.STOPPED,
    ),
    health={"overall": "partial", "endpoints": [{"port": 1, "responseTime": 1.5, "error": None}], "n": {}},
    rounds=HealthRounds(made=1, lost=2, held=3, slow=True, until=after(20), old_look=after(21)),
    probed_at=after(8),
    ready_at=after(12),
    last_used_at=after(13),
    recovery=Recovery(
        after(22),
        after(23),
        after(24),
        2,
        True,
        after(25),
        seeks_offer=True,
        checked_at=after(26),
        given_back="m-2",
        held_since=after(27),
        paused_for=timedelta(minutes=1),
    ),
    recoveries=RecoveryCount(4, (after(23),)),
    error=Fault("X", ""),
    lists=("0123456789",),
    waiting=Fault("Y", "ü", {"regions": {"CN-HK-01": "NO_PRICE"}}),
    paused_at=NOW,
)


def test_the_full_record_has_every_field_set_to_something_else_than_its_default() -> None:
    parts = (FULL.machine, FULL.purchases, FULL.cleanup, FULL.operation, FULL.rounds, FULL.recovery)
    for one in (FULL, FULL_SPEC, FULL_SPEC.on_reclaim, *parts, FULL.recoveries, FULL.ledger, FULL_METER):
        assert one
        for item in fields(one):
            if item.name in ("new_lines", "new_entries"):  # items of their own
                continue
            assert item.default is MISSING or getattr(one, item.name) != item.default, item.name


@pytest.mark.parametrize(
    "record", [FULL, created().record, *(new_instance(status) for status in Status)], ids=lambda r: r.status
)
def test_a_record_comes_back_as_it_was(instances: Instances, record: Instance) -> None:
    saved = instances.add(deciding(record))

    assert instances.get(ID) == saved
    assert saved == replace(record, version=record.version + 1, token="token-1")


def test_a_field_set_back_to_its_default_stays_so(instances: Instances) -> None:
    saved = instances.add(deciding(FULL))
    defaults = {
        item.name: item.default
        for item in fields(Instance)
        if item.default is not MISSING and item.name != "version"
    }

    emptied = instances.save(deciding(saved).change(**defaults))

    assert instances.get(ID) == emptied


def _newer(item: dict[str, Any]) -> dict[str, Any]:
    """As a version to come might have written it: a field more everywhere."""
    record = unpacked(item["record"]) | {"budget": "b-1"}
    record["machine"]["owner"] = "key_2"
    record["operation"]["priority"] = {"of": 3}
    record["cleanup"]["tasks"][1]["refused"] = 4
    record["spec"]["limits"] = [1, 2]
    return {**item, "schema": 9, "ownerKey": "key#2", "record": record}


def test_what_a_newer_version_wrote_is_kept_by_one_that_does_not_know_it(
    table: Table, instances: Instances
) -> None:
    instances.add(deciding(FULL))
    stored = table.get(ID, "record")
    assert stored
    table.put(Write(_newer(stored)))
    record = instances.get(ID)
    assert record

    done = deciding(record).without_task("m-4").change_machine(region="CN-HK-01").change(name="other")
    instances.save(done)

    after_it = table.get(ID, "record")
    assert after_it
    assert (after_it["schema"], after_it["ownerKey"]) == (9, "key#2")
    kept = unpacked(after_it["record"])
    assert (kept["budget"], kept["name"]) == ("b-1", "other")
    assert (kept["machine"]["owner"], kept["machine"]["region"]) == ("key_2", "CN-HK-01")
    assert kept["operation"]["priority"] == {"of": 3}
    assert [(one["machine_id"], one.get("refused")) for one in kept["cleanup"]["tasks"]] == [("m-5", 4)]
    assert kept["spec"]["limits"] == [1, 2]


def test_what_a_newer_version_wrote_of_a_purchase_is_kept(table: Table, instances: Instances) -> None:
    purchase = new_purchase(PurchaseOutcome.INTENDED)
    item = items.purchase_item(purchase)
    table.put(Write({**item, "purchase": {**item["purchase"], "committedUsd": "0.35"}}))

    (read,) = instances.purchases(purchase.instance_id)
    instances.settle(replace(read, outcome=PurchaseOutcome.BOUGHT, machine_id="m-1"))

    stored = table.get(item["pk"], item["sk"])
    assert stored
    assert (stored["outcome"], stored["purchase"]["committedUsd"]) == ("bought", "0.35")


def test_a_record_of_the_first_schema_is_read_and_written_as_the_present_one(
    table: Table, instances: Instances
) -> None:
    """It had every field side by side, and no number."""
    item = items.record_item(replace(FULL, token="t"))
    record = unpacked(item["record"])
    machine, purchases, cleanup = (record.pop(name) for name in ("machine", "purchases", "cleanup"))
    pending = {"pending": "restart", "health_check": record["operation"].pop("health_check")}
    flat = record | {
        **{
            name: value
            for name, value in machine.items()
            if name not in ("id", "needs_look", "first_missed_at")
        },
        "machine_id": machine["id"],
        "missing_at": machine["first_missed_at"],
        "doubted": True,
        "purchases": purchases["count"],
        "unsettled": True,
        "unseen_at": purchases["unseen_at"],
        "reviewed_at": purchases["read_at"],
        "duties": cleanup["tasks"],
        "gone": cleanup["gone"],
        "vanished": cleanup["vanished"],
        **pending,
    }
    del record["operation"]["pending"]
    table.put(Write({**item, "schema": None, "record": flat}))

    read = instances.get(ID)

    assert read == replace(
        FULL,
        token="t",
        cleanup=replace(FULL.cleanup, released=()),
        purchases=replace(FULL.purchases, reasons=(), price=None),
    )
    assert items.record_item(read)["schema"] == SCHEMA


def test_events_operations_and_purchases_come_back_as_they_were() -> None:
    event = Event(
        ID, 3, "startup.failed", after(1), Status.FAILED, "key_1", "corr", "m-1", "CN-HK-01", 7, "why",
        Fault("A", "b"), {"overall": "unhealthy", "ms": 0.25}, "op_1", Action.START, "https://hook.example",
        "https://hook.example/start", (("initiated", after(1)),), {"regions": {"r": "NO_PRICE"}},
    )  # fmt: skip  # one field after the other
    purchase = Purchase(
        ID, 2, "name", PurchaseOutcome.BOUGHT, NOW, after(1), "p", "r", Decimal("0.10"), True, "m-1",
        after(2), Fault("A", ""), (("r", "NO_PRICE"),), "onDemand",
    )  # fmt: skip  # one field after the other
    assert FULL.operation

    assert items.read_event(_through(items.event_item(event))) == event
    assert items.read_operation(_through(items.operation_item(FULL, FULL.operation))) == FULL.operation
    assert items.read_purchase(_through(items.purchase_item(purchase))) == purchase


def _through(item: dict[str, Any]) -> dict[str, Any]:
    return unmarshal(marshal(item))


def test_an_operation_is_stored_with_the_step_that_changed_it(table: Table, instances: Instances) -> None:
    record = instances.add(deciding(new_instance(Status.EXITED)))

    instances.save(begin_start(deciding(record), "op_1", HealthCheck()))

    item = table.get("op_1", "operation")
    assert item
    assert items.read_operation(item).status == "initiated"


def test_between_its_begin_and_its_end_an_operation_goes_as_its_record_says(
    table: Table, instances: Instances
) -> None:
    record = instances.add(deciding(new_instance(Status.EXITED)))
    record = instances.save(begin_start(deciding(record), "op_1", HealthCheck()))

    under_way = instances.save(deciding(record).move_operation("monitoring"))
    shown, listed = instances.operation("op_1"), instances.operations(record.id)
    item = table.get("op_1", "operation")
    instances.save(deciding(under_way).move_operation("completed"))

    assert item
    assert items.read_operation(item).status == "initiated"
    assert shown == (record.id, under_way.operation)
    assert listed == [under_way.operation]
    assert instances.operation("op_1")[1].status == "completed"
    ended = table.get("op_1", "operation")
    assert ended
    assert items.read_operation(ended).status == "completed"


def _many(instances: Instances, count: int) -> list[str]:
    ids = [f"inst_{number:026d}" for number in range(count)]
    for number, one in enumerate(ids):
        instances.add(created(name=f"n{number % 2}", instance_id=one))
    return ids


def test_pages_are_newest_first_and_go_on_where_the_last_one_ended(instances: Instances) -> None:
    ids = _many(instances, 7)

    seen: list[str] = []
    page, end = instances.page(Listing(), limit=3, after=None)
    while end:
        seen += [record.id for record in page]
        page, end = instances.page(Listing(), limit=3, after=end)

    assert seen + [record.id for record in page] == ids[::-1]


@pytest.mark.parametrize("broken", range(7))
def test_a_record_that_cannot_be_read_is_left_out_and_pages_go_on(
    table: Table, instances: Instances, broken: int
) -> None:
    """Wherever in its page it is, the last place included."""
    ids = _many(instances, 7)
    table.update(ids[broken], "record", "SET #r = :x", names={"#r": "record"}, values={":x": "?"})

    seen: list[str] = []
    end: str | None = "~"
    while end:
        page, end = instances.page(Listing(status="creating"), limit=3, after=end)
        seen += [record.id for record in page]

    assert seen == [one for one in ids[::-1] if one != ids[broken]]


def test_one_that_cannot_be_read_still_has_its_name(table: Table, instances: Instances) -> None:
    ids = _many(instances, 5)
    table.update(ids[0], "record", "SET #r = :x", names={"#r": "record"}, values={":x": "?"})
    gone = instances.get(ids[2])
    assert gone
    instances.save(deciding(gone).change(status=Status.TERMINATED))

    assert instances.live_named("n0") == [ids[4], ids[0]]


def test_pages_by_name_and_status_hold_those_and_no_others(instances: Instances) -> None:
    ids = _many(instances, 6)
    gone = instances.get(ids[0])
    assert gone
    instances.save(begin_delete(deciding(gone), "op_1"))

    def listed(name: str | None, status: str | None) -> list[str]:
        page, end = instances.page(Listing(name=name, status=status), limit=100, after=None)
        assert not end
        return [record.id for record in page]

    assert listed("n1", None) == [ids[5], ids[3], ids[1]]
    assert listed(None, "deleting") == [ids[0]]
    assert listed("n0", "creating") == [ids[4], ids[2]]
    assert listed("n0", "ready") == listed("nobody", None) == []


def test_a_page_that_is_exactly_full_promises_no_more(instances: Instances) -> None:
    _many(instances, 4)

    page, end = instances.page(Listing(), limit=4, after=None)

    assert (len(page), end) == (4, None)


def test_a_due_time_is_kept_to_the_millisecond(table: Table, instances: Instances) -> None:
    record = replace(created().record, next_check_at=NOW + timedelta(milliseconds=1500))

    instances.add(deciding(record))

    item = table.get(ID, "record")
    assert item
    assert item["dueAt"] == int(NOW.timestamp()) * 1000 + 1500
