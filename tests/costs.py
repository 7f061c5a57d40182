"""Our ledger against the simulator's own books: the intervals in which each machine was billed."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Any

from functions.shared.domain.instance.record import Instance, PurchaseOutcome
from functions.shared.domain.money.ledger import Line, LineKind, Meter, Span, amount
from tests.unasked import History

WITHIN = timedelta(seconds=65)  # each begin and end, where Novita does not tell it: a sweep, and its own time
_NOVITAS_SECOND = timedelta(seconds=1.05)  # it tells times in whole seconds

_ROUNDING = Decimal("0.0000001")

Interval = tuple[datetime, datetime]


@dataclass(frozen=True)
class Now:
    """When all is at rest, by the simulator's clock and by ours, which has ticked on meanwhile."""

    at: datetime
    within: timedelta = WITHIN


def wrong_costs(machines: Iterable[dict[str, Any]], histories: dict[str, History], now: Now) -> Iterator[str]:
    """A sentence for each machine whose intervals are not those of the simulator."""
    shown = {machine["id"]: machine for machine in machines}
    for history in histories.values():
        if record := history.record:
            yield from _wrong_entries(history, record, now)
            for machine_id in _metered(history, record):
                if machine_id in shown:
                    yield from _wrong(history, record, shown[machine_id], now)


def _metered(history: History, record: Instance) -> set[str]:
    """Machines that were bought here or have a line; a record that a test made by hand has none."""
    bought = {one.machine_id for one in history.purchases if one.outcome is PurchaseOutcome.BOUGHT}
    known = {record.machine.id, *(one.machine_id for one in record.cleanup.tasks)}
    counted = {line.machine_id for line in history.lines} | {one.machine_id for one in record.ledger.meters}
    ended = {id_ for id_, _ in record.ledger.ended}
    noticed = bought & (known | set(record.cleanup.gone) | set(record.cleanup.released))
    return {id_ for id_ in noticed | counted | ended if id_}


def _wrong(history: History, record: Instance, machine: dict[str, Any], now: Now) -> Iterator[str]:
    where = f"{record.id}: machine {machine['id']}"
    for kind, theirs in ((LineKind.RUNNING, machine["billed"]), (LineKind.STORAGE, machine["stored"])):
        if kind is LineKind.STORAGE and machine["rootfsSize"] <= 60:
            continue
        lines = [one for one in _lines(history, record, now.at) if one.kind is kind]
        lines = [one for one in lines if one.machine_id == machine["id"]]
        ours = sorted((one.begin, one.end) for one in lines)
        if any(before[1] > after[0] for before, after in pairwise(ours)):
            yield f"{where}: {kind} intervals overlap: {ours}"
        real = list(_real(theirs, record, machine, now))
        if not _near(ours, real, now.within):
            yield f"{where} is {kind} in {_shown(ours)}, and really in {_shown(real)}"
        for line in lines:
            yield from (f"{where}: {why}" for why in _inexact(line, real, now))
    meter = record.ledger.meter(machine["id"])
    has_open = meter is not None and meter.kind is LineKind.RUNNING and meter.confirmed
    if record.at_rest and has_open and not machine["billing"] and not machine["hidden"]:
        yield f"{where} is {machine['status']} and counted on"


def _inexact(line: Line, real: list[Interval], now: Now) -> Iterator[str]:
    """What is not estimated is exact."""
    if line.estimated:
        return
    begins, ends = [begin for begin, _ in real], [end for _, end in real]
    for at, known, what in ((line.begin, begins, "begin"), (line.end, ends, "end")):
        if at < now.at and not any(abs(at - one) <= _NOVITAS_SECOND for one in known):
            yield f"a {line.kind} interval is said to {what} at {at:%T}, exactly; really {_shown(real)}"


def _wrong_entries(history: History, record: Instance, now: Now) -> Iterator[str]:
    """What fell on the days, and what is still open, is what it has cost."""
    ledger = record.ledger
    if len(history.lines) != ledger.lines or len(history.day_usd) != ledger.entries:
        yield f"{record.id} has {len(history.lines)} lines and {len(history.day_usd)} entries: {ledger}"
    closed = sum((one.usd for one in history.lines), Decimal())
    if abs(closed - ledger.closed_usd) > _ROUNDING:
        yield f"{record.id}: its lines make {closed}, and it says {ledger.closed_usd}"
    unbooked = sum((one.usd(now.at) - _booked(one) for one in ledger.meters if one.since), Decimal())
    booked = sum(history.day_usd, Decimal()) + unbooked
    if abs(booked - ledger.usd(now.at)) > _ROUNDING:
        yield f"{record.id}: its days make {booked}, and it has cost {ledger.usd(now.at)}"


def _booked(meter: Meter) -> Decimal:
    if meter.booked_from is None or meter.booked_until is None:
        return Decimal()
    return amount(meter.rate, Span(meter.booked_from, meter.booked_until))


def _lines(history: History, record: Instance, now: datetime) -> Iterator[Line]:
    yield from history.lines
    yield from record.ledger.open_lines(now)


def _real(
    theirs: list[dict[str, Any]], record: Instance, machine: dict[str, Any], now: Now
) -> Iterator[Interval]:
    """As far as it was this instance's: from an import on, and until it was released."""
    first = record.created_at if record.imported else datetime.min.replace(tzinfo=UTC)
    ended = dict(record.ledger.ended).get(machine["id"])
    left = machine["id"] in (*record.cleanup.released, *record.cleanup.vanished)
    last = min(now.at, ended) if left and ended else now.at
    for one in theirs:
        begin = max(datetime.fromtimestamp(one["from"], UTC), first)
        end = min(datetime.fromtimestamp(one["to"], UTC) if one["to"] is not None else now.at, last)
        if begin < end:
            yield begin, end


def _near(ours: list[Interval], real: list[Interval], within: timedelta) -> bool:
    """Each begins and ends when it really did, as far as that can be told. What began and ended between two
    looks may be missing, or be one with its neighbour; then it is short."""
    if len(ours) == len(real):
        edges = zip(ours, real, strict=True)
        return all(abs(one[side] - other[side]) <= within for one, other in edges for side in (0, 1))
    return _difference(ours, real) <= within


def _difference(ours: list[Interval], real: list[Interval]) -> timedelta:
    """For how long the one says it is billed and the other does not."""
    edges = sorted({at for one in (*ours, *real) for at in one})
    return sum(
        (
            after - before
            for before, after in pairwise(edges)
            if _covers(ours, before) != _covers(real, before)
        ),
        timedelta(),
    )


def _covers(intervals: list[Interval], at: datetime) -> bool:
    return any(begin <= at < end for begin, end in intervals)


def _shown(intervals: list[Interval]) -> str:
    return ", ".join(f"{begin:%H:%M:%S} to {end:%H:%M:%S}" for begin, end in intervals) or "none"
