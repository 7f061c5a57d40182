"""How records, events, operations and purchases look as items of the table."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from pydantic import TypeAdapter

from functions.shared.adapters.table import Item
from functions.shared.domain.instance import Event, Instance, Operation
from functions.shared.domain.purchase import Purchase
from functions.shared.log import logger

T = TypeVar("T")

_instance = TypeAdapter(Instance)
_event = TypeAdapter(Event)
_operation = TypeAdapter(Operation)
_purchase = TypeAdapter(Purchase)

RETENTION = timedelta(days=30)
UNREADABLE = (KeyError, TypeError, ValueError)  # what reading an item of another version may raise


def millis(time: datetime) -> int:
    return int(time.timestamp() * 1000)


def moment(at: int) -> datetime:
    return datetime.fromtimestamp(at / 1000, UTC)


def readable(read: Callable[[Item], T], found: Iterable[Item]) -> Iterator[T]:
    """One that cannot be read, as after a roll-back, must not hide the others."""
    for item in found:
        try:
            yield read(item)
        except UNREADABLE:
            logger.exception("record not read", key=item["pk"])


def record_item(record: Instance) -> Item:
    item: Item = {
        "pk": record.id,
        "sk": "record",
        "kind": "instance",
        "id": record.id,
        "version": record.version,
        "token": record.token,
        "listed": "instances",
        "statusKey": f"instances#{record.status}",
        "lookup": f"name#{record.name}",
        "record": _instance.dump_python(record, mode="json", exclude_defaults=True),
    }
    if record.next_check_at:
        item |= {"due": "instance", "dueAt": millis(record.next_check_at)}
    return item


def read_record(item: Mapping[str, Any]) -> Instance:
    return _instance.validate_python(item["record"])


def event_key(sequence: int) -> str:
    return f"event#{sequence:010d}"


def event_item(event: Event) -> Item:
    """Due until it has been announced: the stream is the quick way, the sweep the sure one."""
    return {
        "pk": event.instance_id,
        "sk": event_key(event.sequence),
        "kind": "event",
        "event": _event.dump_python(event, mode="json", exclude_none=True),
        "due": "event",
        "dueAt": millis(event.at),
        "expiresAt": int((event.at + RETENTION).timestamp()),
    }


def read_event(item: Mapping[str, Any]) -> Event:
    return _event.validate_python(item["event"])


def operation_item(instance_id: str, operation: Operation) -> Item:
    return {
        "pk": operation.id,
        "sk": "operation",
        "kind": "operation",
        "id": operation.id,
        "instanceId": instance_id,
        "lookup": f"operations#{instance_id}",
        "operation": _operation.dump_python(operation, mode="json", exclude_none=True),
        "expiresAt": int((operation.began_at + RETENTION).timestamp()),
    }


def read_operation(item: Mapping[str, Any]) -> Operation:
    return _operation.validate_python(item["operation"])


def purchase_item(purchase: Purchase) -> Item:
    return {
        "pk": purchase.instance_id,
        "sk": f"purchase#{purchase.number:04d}",
        "kind": "purchase",
        "outcome": purchase.outcome,
        "purchase": _purchase.dump_python(purchase, mode="json", exclude_none=True),
    }


def read_purchase(item: Mapping[str, Any]) -> Purchase:
    return _purchase.validate_python(item["purchase"])
