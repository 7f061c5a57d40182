"""Intervals that are over and what fell on which day: items that are written with their instance's record."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from functions.shared.domain.instance.billing import carried
from functions.shared.domain.instance.record import Instance
from functions.shared.domain.money.ledger import DayEntry, Line
from functions.shared.stores.schema import adapter
from functions.shared.stores.table import Item, Table, Write, millis

KEPT = timedelta(days=400)
_LINE = "cost#"
ENTRY = "entry#"
LATE_DAYS = "costs#late"  # where the sweep finds days to sum again, beside today and the day before
_LATE_KEPT = timedelta(days=3)


def with_books(record: Instance, now: datetime) -> tuple[Instance, list[Write]]:
    """The record as it is to be stored, and what its ledger has to write beside it. The numbers come from the
    record, so that whoever loses the record's write has written nothing, and nobody writes a thing twice.
    That is guard enough: a condition of their own could only keep a machine from being given back."""
    record = carried(record, now)
    ledger = record.ledger
    if not ledger.new_lines and not ledger.new_entries:
        return record, []
    lines = enumerate(ledger.new_lines, ledger.lines)
    entries = enumerate(ledger.new_entries, ledger.entries)
    writes = [Write(_line_item(record.id, number, line)) for number, line in lines]
    writes += [Write(_entry_item(record, number, entry)) for number, entry in entries]
    late = {one.day for one in ledger.new_entries if one.day < now.date() - timedelta(days=1)}
    writes += [Write(_late_item(record.id, day, now)) for day in sorted(late)]
    stored = replace(
        ledger,
        lines=ledger.lines + len(ledger.new_lines),
        entries=ledger.entries + len(ledger.new_entries),
        new_lines=(),
        new_entries=(),
    )
    return replace(record, ledger=stored), writes


def day_key(day: date) -> str:
    return f"costs#{day.isoformat()}"


def expires(day: date) -> int:
    return int((datetime.combine(day, time(), UTC) + KEPT).timestamp())


def _line_item(instance_id: str, number: int, line: Line) -> Item:
    return {
        "pk": instance_id,
        "sk": f"{_LINE}{number:06d}",
        "kind": "cost",
        "line": adapter(Line).dump_python(line, mode="json", exclude_defaults=True),
        "expiresAt": expires(line.end.date()),
    }


def _entry_item(record: Instance, number: int, entry: DayEntry) -> Item:
    return {
        "pk": day_key(entry.day),
        "sk": f"{ENTRY}{record.id}#{number:06d}",
        "kind": "costEntry",
        "usd": str(entry.usd),
        "estimated": entry.estimated or None,
        "product": record.spec.product_name or None,
        "region": entry.region or None,
        "key": record.actor or None,
        "tags": dict(entry.tags) or None,
        "expiresAt": expires(entry.day),
    }


def _late_item(instance_id: str, day: date, now: datetime) -> Item:
    return {
        "pk": LATE_DAYS,
        "sk": f"{day.isoformat()}#{instance_id}",
        "kind": "costLate",
        "bookedAt": millis(now),
        "expiresAt": int((now + _LATE_KEPT).timestamp()),
    }


def read_line(item: Mapping[str, Any]) -> Line:
    return adapter(Line).validate_python(item["line"])


class LedgerLines:
    def __init__(self, table: Table) -> None:
        self._table = table

    def of(self, instance_id: str) -> list[Line]:
        """Its intervals that are over, oldest first."""
        found = self._table.query_all("pk = :pk AND begins_with(sk, :sk)", {":pk": instance_id, ":sk": _LINE})
        return [read_line(item) for item in found]
