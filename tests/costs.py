"""Our ledger against the simulator's own books: the intervals in which each machine was billed."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
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
_PRICES_PER_USD = 100_000

Interval = tuple[datetime, datetime]


@dataclass(frozen=True)
class Now:
    """When all is at rest, by the simulator's clock and by ours, which has ticked on meanwhile."""

    at: datetime
    within: timedelta = WITHIN
    # When nobody here could look; where that counts, a machine that is hidden cannot be seen either.
    blind: tuple[Interval, ...] | None = None

    def for_machine(self, machine: dict[str, Any]) -> "Now":
        if self.blind is None:
            return self
        hidden = (
            (
                datetime.fromtimestamp(one["from"], UTC),
                self.at if one["to"] is None else datetime.fromtimestamp(one["to"], UTC),
            )
            for one in machine["hidings"]
        )
        return replace(self, blind=(*self.blind, *hidden))

    def unseen(self, one: datetime, other: datetime) -> timedelta:
        """For how long nobody could look between the two."""
        begin, end = min(one, other), max(one, other)
        parts = (min(end, last) - max(begin, first) for first, last in self.blind or ())
        return min(end - begin, sum((part for part in parts if part > timedelta()), timedelta()))


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
    where, now = f"{record.id}: machine {machine['id']}", now.for_machine(machine)
    for kind, theirs in ((LineKind.RUNNING, machine["billed"]), (LineKind.STORAGE, machine["stored"])):
        if kind is LineKind.STORAGE and machine["rootfsSize"] <= 60:
            continue
        lines = [one for one in _lines(history, record, now.at) if one.kind is kind]
        lines = [one for one in lines if one.machine_id == machine["id"]]
        ours = sorted((one.begin, one.end) for one in lines)
        if any(before[1] > after[0] for before, after in pairwise(ours)):
            yield f"{where}: {kind} intervals overlap: {ours}"
        real = list(_real(theirs, record, machine, now))
        if not _near(ours, real, now):
            yield f"{where} is {kind} in {_shown(ours)}, and really in {_shown(real)}"
        for line in lines:
            yield from (f"{where}: {why}" for why in _inexact(line, real, now))
            if line.kind is LineKind.RUNNING and line.usd_per_hour not in (None, _price(machine)):
                yield f"{where} is counted at {line.usd_per_hour} and costs {_price(machine)} an hour"
    meter = record.ledger.meter(machine["id"])
    has_open = meter is not None and meter.kind is LineKind.RUNNING and meter.confirmed
    if record.at_rest and has_open and not machine["billing"] and not machine["hidden"]:
        yield f"{where} is {machine['status']} and counted on"


def _price(machine: dict[str, Any]) -> Decimal:
    """An hour of all its GPUs, as it was bought."""
    return Decimal(machine["pricePerGpuHour"] * machine["gpuNum"]) / _PRICES_PER_USD


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


def _near(ours: list[Interval], real: list[Interval], now: Now) -> bool:
    """Each begins and ends when it really did, as far as that can be told. What began and ended between two
    looks may be missing, or be one with its neighbour; then it is short."""
    if len(ours) == len(real):
        pairs = ((one[side], other[side]) for one, other in zip(ours, real, strict=True) for side in (0, 1))
        return all(abs(at - really) <= now.within + now.unseen(at, really) for at, really in pairs)
    return _difference(ours, real, now) <= now.within


def _difference(ours: list[Interval], real: list[Interval], now: Now) -> timedelta:
    """For how long the one says it is billed and the other does not, though somebody could look."""
    edges = sorted({at for one in (*ours, *real) for at in one})
    return sum(
        (
            after - before - now.unseen(before, after)
            for before, after in pairwise(edges)
            if _covers(ours, before) != _covers(real, before)
        ),
        timedelta(),
    )


def _covers(intervals: list[Interval], at: datetime) -> bool:
    return any(begin <= at < end for begin, end in intervals)


def _shown(intervals: list[Interval]) -> str:
    return ", ".join(f"{begin:%H:%M:%S} to {end:%H:%M:%S}" for begin, end in intervals) or "none"
