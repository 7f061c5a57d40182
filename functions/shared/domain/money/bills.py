"""Novita's own bill of a machine beside what we count, and when they differ."""

import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from functions.shared.domain.money.ledger import Line, Span, amount, midnight, midnight_after

# A day is settled some hours after its end: an earlier look would find a part of it.
_SETTLED_AFTER = timedelta(hours=6)
_DAY = timedelta(days=1)
_LONGEST = timedelta(days=30)  # what Novita tells at once is 31 days
_SPREAD = 6 * 3600  # seconds over which the machines of a day are asked about
_DIFFERS_BY, _DIFFERS_BY_USD = Decimal("0.1"), Decimal(1)


@dataclass(frozen=True)
class Bill:
    """What Novita has billed for whole days of a machine, and what we count for the same."""

    machine_id: str
    begin: datetime
    end: datetime
    usd: Decimal
    ours: Decimal

    @property
    def differs(self) -> bool:
        difference = abs(self.usd - self.ours)
        return difference > _DIFFERS_BY_USD and difference > self.ours * _DIFFERS_BY


@dataclass(frozen=True)
class BillsRead:
    """Of an instance's machines: the last bill of each that has one, and until when each was asked for."""

    bills: tuple[Bill, ...] = ()
    until: Mapping[str, datetime] = field(default_factory=dict)

    def lacks(self, machine_id: str, span: Span, ended_at: datetime | None, now: datetime) -> bool:
        """Of a machine that has ended, the last day is asked for once more a day later: bills may be late."""
        if ended_at and now - ended_at > _LONGEST:
            return False
        until = self.until.get(machine_id)
        if until is None:
            return True
        return until < span.end and (ended_at is None or until < midnight_after(ended_at) + _DAY)

    def add(self, bills: Iterable[Bill], until: Mapping[str, datetime]) -> "BillsRead":
        """Without those that nobody will ask for again."""
        known = {bill.machine_id: bill for bill in (*self.bills, *bills)}
        asked = {**self.until, **until}
        newest = max(asked.values(), default=datetime.min.replace(tzinfo=UTC))
        kept = {one: end for one, end in asked.items() if newest - end < _LONGEST + 2 * _DAY}
        return BillsRead(tuple(bill for one, bill in known.items() if one in kept), kept)


def first_bill_at(instance_id: str, now: datetime) -> datetime:
    """When the day is settled, and not all at once."""
    spread = zlib.crc32(instance_id.encode()) % _SPREAD
    return midnight_after(now) + _SETTLED_AFTER + timedelta(seconds=spread)


def settled_days(
    lines: Iterable[Line],
    machine_id: str,
    now: datetime,
    *,
    imported: bool = False,
    released_at: datetime | None = None,
) -> Span | None:
    """The days that a bill can be asked for by now, from the machine's first; None: there is none yet. The
    day on which it was imported or released is not compared: Novita bills all of it, and we count a part."""
    end = midnight(now - _SETTLED_AFTER)
    if released_at is not None:
        end = min(end, midnight(released_at))
    first = min((line.begin for line in lines if line.machine_id == machine_id), default=end)
    begin = max(midnight_after(first) if imported else midnight(first), end - _LONGEST)
    return Span(begin, end) if begin < end else None


def counted(lines: Iterable[Line], machine_id: str, span: Span) -> Decimal:
    parts = (
        amount(line.usd_per_hour, Span(line.begin, line.end).within(span))
        for line in lines
        if line.machine_id == machine_id and line.begin < span.end and line.end > span.begin
    )
    return sum(parts, Decimal())
