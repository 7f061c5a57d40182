"""Novita's bills of each instance's machines, when the next one is due, and which differences were told."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from functions.shared.domain.ids import timestamp
from functions.shared.domain.money.bills import Bill, BillsRead, first_bill_at
from functions.shared.stores.table import (
    NEW,
    RETENTION,
    ConditionFailed,
    Item,
    ItemUpdate,
    Table,
    Write,
    millis,
    moment,
)

_SORT = "bill"
_KEPT = timedelta(days=400)
# Somebody else may have set its time: a second machine of the same instance moves nothing.
_WATCH = "SET kind = :kind, instanceId = :id, due = :due, dueAt = if_not_exists(dueAt, :at)"


def watch_bill(instance_id: str, now: datetime) -> ItemUpdate:
    """For the transaction that gives the instance a machine: from then on it has bills."""
    first_at = millis(first_bill_at(instance_id, now))
    values = {":kind": "bill", ":id": instance_id, ":due": "bill", ":at": first_at}
    return ItemUpdate(_pk(instance_id), _SORT, _WATCH, values)


class Bills:
    def __init__(self, table: Table, new_id: Callable[[], str]) -> None:
        self._table = table
        self._new_id = new_id

    def of(self, instance_id: str) -> tuple[tuple[Bill, ...], datetime | None]:
        """The last ones that could be read, and when that was."""
        item = self._table.get(_pk(instance_id), _SORT)
        if item is None or "bills" not in item:
            return (), None
        return read_bills(item).bills, moment(item["readAt"])

    def keep(self, instance_id: str, read: BillsRead, now: datetime, next_at: datetime | None) -> None:
        item: Item = {
            "pk": _pk(instance_id),
            "sk": _SORT,
            "kind": "bill",
            "instanceId": instance_id,
            "bills": [_item(one) for one in read.bills],
            "until": {machine_id: millis(end) for machine_id, end in read.until.items()},
            "readAt": millis(now),
            "expiresAt": int((now + _KEPT).timestamp()) if next_at is None else None,
            **({"due": "bill", "dueAt": millis(next_at)} if next_at else {}),
        }
        self._table.put(Write(item))

    def tell(self, instance_id: str, bill: Bill, now: datetime) -> None:
        """That it differs: once a day and machine, also where a sweep died before it had kept the bill."""
        event = {
            "pk": _pk(instance_id),
            "sk": f"event#{now.date().isoformat()}#{bill.machine_id}",
            "kind": "event",
            "id": self._new_id(),
            "type": "cost.differs",
            "timestamp": timestamp(now),
            "data": {
                "instanceId": instance_id,
                "novitaInstanceId": bill.machine_id,
                "from": timestamp(bill.begin),
                "to": timestamp(bill.end),
                "billedUsd": f"{bill.usd:.4f}",
                "oursUsd": f"{bill.ours:.4f}",
            },
            "due": "event",
            "dueAt": millis(now),
            "expiresAt": int((now + RETENTION).timestamp()),
        }
        with suppress(ConditionFailed):
            self._table.put(Write(event, NEW))


def read_bills(item: Mapping[str, Any]) -> BillsRead:
    """Those stored before there was `until` are read once more."""
    until = {machine_id: moment(end) for machine_id, end in item.get("until", {}).items()}
    return BillsRead(tuple(_read(one) for one in item.get("bills", [])), until)


def _pk(instance_id: str) -> str:
    return f"bill#{instance_id}"


def _item(bill: Bill) -> Item:
    return {
        "machine": bill.machine_id,
        "begin": millis(bill.begin),
        "end": millis(bill.end),
        "usd": str(bill.usd),
        "ours": str(bill.ours),
    }


def _read(item: Item) -> Bill:
    times = moment(item["begin"]), moment(item["end"])
    return Bill(item["machine"], *times, Decimal(item["usd"]), Decimal(item["ours"]))
