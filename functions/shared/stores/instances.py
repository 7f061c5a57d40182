"""Instances with their purchases, events and operations: stored together, guarded by version."""

import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from hashlib import sha256
from itertools import chain, islice
from random import random
from typing import Any

from functions.shared.domain.errors import NotFound, OstlerError, StaleInstance, Unavailable
from functions.shared.domain.ids import Mark, earliest_instance_id
from functions.shared.domain.instance.decision import Decision
from functions.shared.domain.instance.fleet import FleetEntry, fleet_summary, read_summary
from functions.shared.domain.instance.machine import Machine
from functions.shared.domain.instance.observations import LastUse
from functions.shared.domain.instance.record import Event, Instance, Operation, Purchase, PurchaseOutcome
from functions.shared.domain.instance.status import Status
from functions.shared.domain.money.caps import committed
from functions.shared.stores.bills import watch_bill
from functions.shared.stores.caps import Caps, no_caps
from functions.shared.stores.last_used import read_use, still_unused, use_key
from functions.shared.stores.ledger import with_books
from functions.shared.stores.listings import OWNER, TAG, Listing, ids_in_all
from functions.shared.stores.schema import (
    SCHEMA,
    adapter,
    packed,
    unknown_fields,
    unpacked,
    upgrade,
    with_unknown,
)
from functions.shared.stores.table import (
    NEW,
    RETENTION,
    ConditionFailed,
    Item,
    Removal,
    Table,
    Transacted,
    Write,
    event_key,
    millis,
    readable,
)

_RECORD_ATTRIBUTES = frozenset(
    {"pk", "sk", "kind", "schema", "id", "version", "token", "listed", "statusKey", "lookup", "record"}
    | {"due", "dueAt", "fleet", "summary", "lists"}
)
_NOT_STORED: dict[str, Any] = {
    "unknown": True,
    "counted": True,
    "lists": True,
    "ledger": {"new_lines": True, "new_entries": True},
}
FLEET_SHARDS = 16  # of the index of all that may have a machine, so that several can share a sweep


def record_item(record: Instance) -> Item:
    dumped = adapter(Instance).dump_python(record, mode="json", exclude_defaults=True, exclude=_NOT_STORED)
    item: Item = {
        "pk": record.id,
        "sk": "record",
        "kind": "instance",
        "schema": SCHEMA,
        "id": record.id,
        "version": record.version,
        "token": record.token,
        "listed": "instances",
        "statusKey": f"instances#{record.status}",
        "lookup": f"name#{record.name}",
        "lists": list(record.lists),
        "record": packed(with_unknown(dumped, record.unknown.get("record", {}), Instance)),
    }
    if record.next_check_at:
        item |= {"due": "instance", "dueAt": millis(record.next_check_at)}
    if record.may_have_machine:
        item |= {"fleet": fleet_key(record.id), "summary": fleet_summary(record)}
    return {**item, **record.unknown.get("item", {})}


def fleet_key(instance_id: str) -> str:
    """Of the instance's shard, in which it stays: whoever reads all shards misses none that changes."""
    return _shard_key(zlib.crc32(instance_id.encode()) % FLEET_SHARDS)


def read_record(item: Mapping[str, Any]) -> Instance:
    schema = item.get("schema", 1)
    stored = unpacked(item["record"]) if schema > 1 else upgrade(item["record"])
    record = replace(adapter(Instance).validate_python(stored), lists=tuple(item.get("lists", ())))
    beside = {name: value for name, value in item.items() if name not in _RECORD_ATTRIBUTES}
    if schema > SCHEMA:
        beside["schema"] = schema
    unknown = {"record": unknown_fields(stored, Instance), "item": beside}
    record = replace(record, counted=committed(record))
    return replace(record, unknown=unknown) if unknown["record"] or beside else record


def list_keys(record: Instance) -> list[str]:
    """Of the lists that it is in by its owner and its tags. Names and values of tags may have colons: what
    reads the same is the same list."""
    tags = (f"{TAG}{name}:{value}" for name, value in record.spec.tags)
    return list(dict.fromkeys([f"{OWNER}{record.actor}", *tags]))


def list_writes(record: Instance) -> list[Transacted]:
    """For the transaction that writes the record: an item for each list that it is new in, and none any more
    for those that it has left since it was read."""
    wanted = {_digest(key): key for key in list_keys(record)}
    new = [Write(_list_item(record.id, key)) for digest, key in wanted.items() if digest not in record.lists]
    left = [Removal(record.id, f"list#{digest}") for digest in record.lists if digest not in wanted]
    return [*new, *left]


def _list_item(instance_id: str, key: str) -> Item:
    return {
        "pk": instance_id,
        "sk": f"list#{_digest(key)}",
        "kind": "list",
        "id": instance_id,
        "lookup": key,
    }


def _digest(key: str) -> str:
    """A sort key has 1,024 bytes at most, a tag may have more. It is also all that a record keeps of it."""
    return sha256(key.encode()).hexdigest()[:20]


def is_listed(record: Instance, listing: Listing) -> bool:
    keys = list_keys(record)
    return (
        listing.name in (None, record.name)
        and listing.status in (None, record.status)
        and (listing.owner is None or f"{OWNER}{listing.owner}" in keys)
        and (listing.tag is None or f"{TAG}{listing.tag}" in keys)
    )


def event_item(event: Event) -> Item:
    """Due until it has been announced: the stream is the quick way, the sweep the sure one."""
    return {
        "pk": event.instance_id,
        "sk": event_key(event.sequence),
        "kind": "event",
        "event": adapter(Event).dump_python(event, mode="json", exclude_none=True),
        "due": "event",
        "dueAt": millis(event.at),
        "expiresAt": int((event.at + RETENTION).timestamp()),
    }


def variables_item(instance_id: str, variables: Sequence[tuple[str, str]]) -> Item:
    """Apart from the record, which is read and written at every step: values may be secrets, and large."""
    return {
        "pk": instance_id,
        "sk": "variables",
        "kind": "variables",
        "variables": [list(one) for one in variables],
    }


def read_event(item: Mapping[str, Any]) -> Event:
    return adapter(Event).validate_python(item["event"])


def operation_item(record: Instance, operation: Operation) -> Item:
    own = record.operation is not None and record.operation.id == operation.id
    unknown = record.unknown.get("record", {}).get("operation", {}) if own else {}
    dumped = adapter(Operation).dump_python(operation, mode="json", exclude_none=True)
    return {
        "pk": operation.id,
        "sk": "operation",
        "kind": "operation",
        "id": operation.id,
        "instanceId": record.id,
        "lookup": f"operations#{record.id}",
        "operation": with_unknown(dumped, unknown, Operation),
        "expiresAt": int((operation.began_at + RETENTION).timestamp()),
    }


def read_operation(item: Mapping[str, Any]) -> Operation:
    return adapter(Operation).validate_python(item["operation"])


def purchase_item(purchase: Purchase) -> Item:
    return {
        "pk": purchase.instance_id,
        "sk": f"purchase#{purchase.number:04d}",
        "kind": "purchase",
        "outcome": purchase.outcome,
        "purchase": with_unknown(
            adapter(Purchase).dump_python(purchase, mode="json", exclude_none=True, exclude={"unknown"}),
            purchase.unknown,
            Purchase,
        ),
    }


def read_purchase(item: Mapping[str, Any]) -> Purchase:
    purchase = adapter(Purchase).validate_python(item["purchase"])
    unknown = unknown_fields(item["purchase"], Purchase)
    return replace(purchase, unknown=unknown) if unknown else purchase


# The record is still the one that this write grew from.
_SAME_VERSION = "attribute_exists(pk) AND #version = :version"
# A purchase's outcome is only ever written over one that was not final.
_NOT_FINAL = "outcome IN (:intended, :unclear)"
_ONLY_THE_RECORD = frozenset({0})  # the first write of the transaction
_BEGUN = "initiated"  # an operation's first status
_TRIES = 3
# Against others that count at the same moment; each of them has made progress.
_COUNTING_TRIES = 16
_LONGEST_WAIT = 0.4  # seconds


class Instances:
    def __init__(
        self,
        table: Table,
        new_token: Callable[[], str],
        caps: Caps | None = None,
        wait: Callable[[float], None] = time.sleep,
        within_budgets: Callable[[Instance], None] = lambda _: None,
    ) -> None:
        self._table = table
        self._new_token = new_token
        self._caps = caps or no_caps(table)
        self._wait = wait
        self._require_budget = within_budgets  # raises SpendingRefused

    def get(self, instance_id: str) -> Instance | None:
        item = self._table.get(instance_id, "record")
        return read_record(item) if item else None

    def get_with_use(self, instance_id: str) -> tuple[Instance | None, LastUse]:
        """And when it was last used, in one read."""
        item, used = self._table.get_both((instance_id, "record"), use_key(instance_id))
        return read_record(item) if item else None, read_use(used)

    def add(self, decision: Decision, also: Sequence[Write] = ()) -> Instance:
        """Store a new instance with its events, and whatever must stand or fall with it."""
        (record, books), lists = self._stepped(decision), list_writes(decision.record)
        writes = [Write(record_item(record), NEW), *_beside(decision), *books, *lists, *also]
        try:
            self._transact_counted(record, decision, writes)
        except ConditionFailed:  # perhaps by an earlier try of ours: nobody else has this id
            if stored := self.get(record.id):
                return stored
            raise
        return _as_stored(record)

    def _transact_counted(self, record: Instance, decision: Decision, writes: Sequence[Transacted]) -> None:
        """With what the instance commits, where a cap is set. Many may count at once: whoever is not let in
        for that alone looks anew whether there is room."""
        if decision.commits:
            self._require_budget(record)
        for turn in range(_COUNTING_TRIES):
            counts = self._caps.updates(record, commits=decision.commits)
            try:
                self._table.transact([*writes, *counts])
            except ConditionFailed as lost:
                others = frozenset(one for one in lost.failed if one < len(writes))
                if others:
                    raise ConditionFailed(others) from lost
                self._wait(random() * min(_LONGEST_WAIT, 0.02 * 2**turn))  # noqa: S311  # not for secrecy
            else:
                return
        raise Unavailable("Too many commit money at this moment; ask again")

    def require_room(self, record: Instance) -> None:
        """SpendingRefused where caps or budgets would not let it commit what it is about to; nothing is
        stored."""
        self._require_budget(record)
        self._caps.updates(record, commits=True)

    def save(self, decision: Decision, also: Sequence[Write] = ()) -> Instance:
        """Write over the version that the decision grew from, or raise StaleInstance."""
        record, books = self._stepped(decision)
        put = Write(
            record_item(record),
            _SAME_VERSION,
            {":version": decision.record.version},
            {"#version": "version"},
        )
        beside: list[Transacted] = [*_beside(decision), *books, *list_writes(decision.record), *also]
        for _ in range(_TRIES):
            try:
                self._transact_counted(record, decision, [put, *beside])
            except ConditionFailed as lost:
                stored = self._table.get(record.id, "record")
                if self._is_mine(record, stored):
                    return _as_stored(record)
                # A write that came in between may have changed nothing that counts, as a sweep's does.
                unchanged = stored is not None and stored["version"] == decision.record.version
                if not unchanged or lost.failed != _ONLY_THE_RECORD:
                    break
            else:
                return _as_stored(record)
        raise StaleInstance(record.id)

    def intend(self, decision: Decision, purchase: Purchase) -> Instance:
        """Store the intent to buy together with the instance's knowledge of it."""
        return self.save(decision, [Write(purchase_item(purchase), NEW)])

    def imported(self, machine_id: str, instance_id: str, former: str | None = None) -> Write:
        """For the transaction that takes a machine under management; it fails if another instance has it."""
        item = _owner_item(machine_id, instance_id)
        return Write(item, "instanceId = :former", {":former": former}) if former else Write(item, NEW)

    def owner(self, machine_id: str) -> str | None:
        item = self._table.get(f"machine#{machine_id}", "owner")
        return str(item["instanceId"]) if item else None

    def owners(self, machine_ids: Iterable[str]) -> dict[str, str]:
        """Of several machines, perhaps a moment old: by machine, the instance that has or had it last."""
        found = self._table.get_all((f"machine#{one}", "owner") for one in machine_ids)
        return {item["pk"].removeprefix("machine#"): str(item["instanceId"]) for item in found}

    def purchases(self, instance_id: str) -> tuple[Purchase, ...]:
        found = self._table.query_all(
            "pk = :pk AND begins_with(sk, :sk)", {":pk": instance_id, ":sk": "purchase#"}
        )
        return tuple(map(read_purchase, found))

    def variables(self, instance_id: str) -> tuple[tuple[str, str], ...]:
        """What the caller wants set in the machine, with the values: for a purchase and nothing else."""
        item = self._table.get(instance_id, "variables")
        if item is None:
            raise OstlerError("INTERNAL_ERROR", f"The variables of {instance_id} are not stored")
        return tuple((name, value) for name, value in item["variables"])

    def settle(self, purchase: Purchase) -> None:
        """Write a purchase's outcome by its key; one that is final stays as it is."""
        values = {":intended": PurchaseOutcome.INTENDED, ":unclear": PurchaseOutcome.UNCLEAR}
        try:
            self._table.put(Write(purchase_item(purchase), _NOT_FINAL, values))
        except ConditionFailed:
            return

    def turned_out_bought(self, mark: Mark, machine: Machine, seen_at: datetime, *, wanted: bool) -> bool:
        """Record the purchase of a machine found by its mark. False if no purchase explains it: there is none
        of that number (but one that is waited for is taken all the same), or it has another machine."""
        found = self._table.get(mark.instance_id, f"purchase#{mark.purchase:04d}")
        if found is None and not wanted:
            return False
        purchase = read_purchase(found) if found else _unrecorded(mark, machine, seen_at)
        if purchase.outcome is PurchaseOutcome.BOUGHT:
            return purchase.machine_id == machine.id
        bought = replace(purchase, outcome=PurchaseOutcome.BOUGHT, machine_id=machine.id, ended_at=seen_at)
        item, values = purchase_item(bought), {":bought": PurchaseOutcome.BOUGHT}
        try:
            self._table.put(Write(item, "outcome <> :bought", values) if found else Write(item, NEW))
        except ConditionFailed:
            return self.turned_out_bought(mark, machine, seen_at, wanted=wanted)
        return True

    def fleet(self) -> list[FleetEntry]:
        """Every instance that has or may have a machine, as a sweep needs them: perhaps a moment old."""
        return [FleetEntry(entry["id"], entry["summary"]) for entry in self._fleet_entries()]

    def fleet_as_it_is(self) -> Iterator[FleetEntry]:
        """The same, read consistently."""
        keys = ((entry["pk"], entry["sk"]) for entry in self._fleet_entries())
        for item in self._table.get_all(keys, consistent=True, only=("id", "fleet", "summary")):
            if "fleet" in item:
                yield FleetEntry(item["id"], item["summary"])

    def whole(self, ids: Iterable[str]) -> list[Instance]:
        return list(self.each_whole(ids))

    def each_whole(self, ids: Iterable[str]) -> Iterator[Instance]:
        """Their records, perhaps a moment old, read as they are asked for. One that cannot be read, as after
        a roll-back, must not hide the others."""
        return readable(read_record, self._table.get_all((one, "record") for one in ids))

    def not_terminated(self) -> list[Instance]:
        """The fleet, and those that have no machine: they failed, or are about to end."""
        others = (self._entries(*Listing(status=one).entries) for one in (Status.FAILED, Status.DELETING))
        found = self._read_all(chain(self._fleet_entries(), *others))
        return [record for record in found if record.status is not Status.TERMINATED]

    def _fleet_entries(self) -> Iterator[Item]:
        for shard in range(FLEET_SHARDS):
            yield from self._table.query_each(
                "#key = :key", {":key": _shard_key(shard)}, index="fleet", names={"#key": "fleet"}
            )

    def _entries(self, index: str, key: str, value: str) -> list[Item]:
        return self._table.query_all(
            "#key = :key", {":key": value}, index=index, names={"#key": key}, forward=False
        )

    def _read_all(self, entries: Iterable[Item]) -> list[Instance]:
        items = self._table.get_all((entry["pk"], entry["sk"]) for entry in entries)
        return list(readable(read_record, items))

    def had_machines(self, before: datetime) -> bool:
        """Whether any machine was ours before that, or may have been: an unclear purchase counts."""
        horizon = earliest_instance_id(before)
        return any(self._may_have_bought(entry) for entry in self._fleet_entries() if entry["id"] < horizon)

    def _may_have_bought(self, entry: Item) -> bool:
        if read_summary(entry["summary"]).machine_id:
            return True
        record = self.get(entry["id"])
        return record is not None and (record.purchases.unsettled or bool(record.cleanup.tasks))

    def events(self, instance_id: str, after: int = 0, limit: int | None = None) -> list[Event]:
        """In order, from the sequence that follows `after`."""
        condition = "pk = :pk AND sk BETWEEN :first AND :last"
        keys = {":pk": instance_id, ":first": event_key(after + 1), ":last": "event#~"}
        found, start = self._table.query(condition, keys, limit=limit)
        while start and (limit is None or len(found) < limit):
            more, start = self._table.query(condition, keys, limit=limit, start=start)
            found += more
        return [read_event(item) for item in found[:limit]]

    def page(self, listing: Listing, *, limit: int, after: str | None) -> tuple[list[Instance], str | None]:
        """Newest first, from below the id `after`; and the id to go on below, if there are more. One that
        cannot be read is left out of its page."""
        if listing.joined:
            return self._joined_page(listing, limit, after)
        status = listing.status
        found, end = self._table.page(
            *listing.entries,
            limit=limit,
            after=after,
            wanted=lambda item: status is None or _status_of(item) == status,
        )
        return list(readable(read_record, found)), end

    def _joined_page(
        self, listing: Listing, limit: int, after: str | None
    ) -> tuple[list[Instance], str | None]:
        """The index may lag: only what is still so by the records themselves is in the page."""
        ids = ids_in_all(self._table, listing.parts, after, at_once=limit + 1)
        found: list[Instance] = []
        while some := list(islice(ids, limit - len(found))):
            items = self._table.whole({"pk": one, "sk": "record"} for one in some)
            found += (one for one in readable(read_record, items) if is_listed(one, listing))
            if len(found) == limit:
                return found, found[-1].id if next(ids, None) else None
        return found, None

    def live_named(self, name: str) -> list[str]:
        """The ids of those that are not over, newest first, also where a record cannot be read."""
        found = self._table.whole(filter(_is_live, self._entries(*Listing(name=name).entries)))
        return [item["id"] for item in found if _is_live(item)]

    def operation(self, operation_id: str) -> tuple[str, Operation]:
        """The instance's id and the operation."""
        item = self._table.get(operation_id, "operation")
        if item is None:
            raise NotFound("OPERATION_NOT_FOUND", "There is no operation of that id, or it is too old")
        return item["instanceId"], self._as_it_is(item["instanceId"], read_operation(item))

    def operations(self, instance_id: str) -> list[Operation]:
        """Newest first."""
        found = self._table.whole(self._entries("lookup", "lookup", f"operations#{instance_id}"))
        return [self._as_it_is(instance_id, read_operation(item)) for item in found]

    def _as_it_is(self, instance_id: str, stored: Operation) -> Operation:
        """Its item says how it began and how it ended; how it goes, the record."""
        record = None if stored.ended else self.get(instance_id)
        own = record.operation if record else None
        return own if own and own.id == stored.id else stored

    def _is_mine(self, record: Instance, stored: Item | None) -> bool:
        """A write whose answer was lost is sent again by the SDK and then meets itself."""
        return stored is not None and stored["token"] == record.token

    def _stepped(self, decision: Decision) -> tuple[Instance, list[Write]]:
        """The record as it is stored, and what its ledger writes beside it."""
        record, books = with_books(decision.record, decision.now)
        lists = tuple(map(_digest, list_keys(record)))
        return replace(record, version=record.version + 1, token=self._new_token(), lists=lists), books


def _unrecorded(mark: Mark, machine: Machine, seen_at: datetime) -> Purchase:
    """A purchase that the table has forgotten, as after a restore from a backup."""
    return Purchase(
        instance_id=mark.instance_id,
        number=mark.purchase,
        name=machine.name,
        outcome=PurchaseOutcome.UNCLEAR,
        intended_at=seen_at,
        lease_until=seen_at,
        product_id=machine.product_id,
        region=machine.region,
        expects_endpoints=bool(machine.endpoints),
    )


def _as_stored(record: Instance) -> Instance:
    return replace(record, counted=committed(record))


def _beside(decision: Decision) -> list[Transacted]:
    """What is stored with the record: its events, its operations, and whose a machine is that it bought; and
    what it rests on."""
    writes: list[Transacted] = [Write(event_item(event), NEW) for event in decision.events]
    writes += [
        Write(operation_item(decision.record, one))
        for one in decision.operations
        if one.ended or one.status == _BEGUN
    ]
    ended = any(event.type == f"instance.{Status.TERMINATED}" for event in decision.events)
    if ended and decision.record.spec.env_names:  # nothing is bought any more
        writes.append(Write(variables_item(decision.record.id, ())))
    if decision.owns:
        writes.append(Write(_owner_item(decision.owns, decision.record.id)))
    imported = decision.record.version == 0 and decision.record.machine.id is not None
    if decision.owns or imported:
        writes.append(watch_bill(decision.record.id, decision.now))
    if decision.unused:
        writes.append(still_unused(decision.record.id, decision.unused))
    return writes


def _owner_item(machine_id: str, instance_id: str) -> Item:
    return {"pk": f"machine#{machine_id}", "sk": "owner", "kind": "owner", "instanceId": instance_id}


def _shard_key(shard: int) -> str:
    return f"fleet#{shard:x}"


def _status_of(item: Item) -> str:
    """As the index has it, also where the record itself cannot be read."""
    return str(item.get("statusKey", "")).removeprefix("instances#")


def _is_live(item: Item) -> bool:
    """Neither terminated, nor failed without a machine."""
    status = _status_of(item)
    return status != Status.TERMINATED and (status != Status.FAILED or "fleet" in item)
