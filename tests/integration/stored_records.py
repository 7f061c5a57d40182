"""Many records, written without the service, and what DynamoDB is asked for to read them."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from functions.shared.domain.ids import new_instance_id
from functions.shared.domain.instance.record import Instance
from functions.shared.domain.instance.status import Status
from functions.shared.stores.instances import list_writes, read_record, record_item
from functions.shared.stores.schema import packed, unpack, unpacked
from functions.shared.stores.table import Table, Write, marshal
from tests.integration.harness import Harness
from tests.unit.builders import new_instance

AT_ONCE = 25  # BatchWriteItem's own limit


def stored(at: datetime, **changes: Any) -> Instance:
    """At rest and without a machine, so that nobody has to do anything about it."""
    plain: dict[str, Any] = {"status": Status.FAILED, "machine_id": None, "next_check_at": None, "version": 1}
    return new_instance(**plain | {"id": new_instance_id(at), "created_at": at} | changes)


def as_text(stored: Any) -> str:
    """All that is there to be read in it."""
    return json.dumps(stored, default=unpack)


def put(harness: Harness, records: list[Instance]) -> None:
    for start in range(0, len(records), AT_ONCE):
        puts = [{"PutRequest": {"Item": marshal(record_item(one))}} for one in records[start:][:AT_ONCE]]
        harness.dynamodb.batch_write_item(RequestItems={harness.table_name: puts})


def put_alike(harness: Harness, record: Instance, ids: list[str]) -> None:
    """So many that making each anew takes longer than the test."""
    item = marshal(record_item(record))
    known = unpacked(item["record"]["B"])
    for start in range(0, len(ids), AT_ONCE):
        puts = []
        for one in ids[start:][:AT_ONCE]:
            inner = {"B": packed({**known, "id": one})}
            puts.append(
                {"PutRequest": {"Item": {**item, "pk": {"S": one}, "id": {"S": one}, "record": inner}}}
            )
        harness.dynamodb.batch_write_item(RequestItems={harness.table_name: puts})


def put_listed(harness: Harness, record: Instance, ids: list[str]) -> None:
    """The items that list such records by owner and tag."""
    puts = [
        write.item
        for one in ids
        for write in list_writes(replace(record, id=one))
        if isinstance(write, Write)
    ]
    for start in range(0, len(puts), AT_ONCE):
        some = [{"PutRequest": {"Item": marshal(item)}} for item in puts[start:][:AT_ONCE]]
        harness.dynamodb.batch_write_item(RequestItems={harness.table_name: some})


def rewrite(table: Table, instance_id: str, change: Callable[[Instance], Instance]) -> None:
    """As if that had been stored with its last step: the same version and token."""
    item = table.get(instance_id, "record")
    assert item is not None
    table.put(Write(record_item(change(read_record(item)))))


@dataclass
class Read:
    """What DynamoDB was asked for."""

    calls: list[str] = field(default_factory=list)
    entries: int = 0  # by queries
    items: int = 0  # by batches


@contextmanager
def reading(harness: Harness) -> Iterator[Read]:
    read = Read()
    events = harness.wiring.table.client.meta.events

    def count(model: Any, parsed: Any, **_: Any) -> None:
        read.calls.append(model.name)
        read.entries += parsed.get("ScannedCount", 0)
        read.items += sum(map(len, parsed.get("Responses", {}).values()))

    events.register("after-call.dynamodb", count)
    try:
        yield read
    finally:
        events.unregister("after-call.dynamodb", count)
