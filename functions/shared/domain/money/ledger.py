"""What machines cost: a meter for each, the intervals in which Novita bills it, and what falls on which day.

Where Novita tells a time, that is the time. Where it does not, an interval is as long as what was seen
allows: from the last sign that the machine was not billed to the first that it is not billed any more.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import StrEnum

_HOUR = Decimal(3600)
_SMALLEST = Decimal("0.000000001")  # of a dollar: what an amount is kept to
_NOVITAS_SECOND = timedelta(seconds=1)  # it tells times in whole seconds
_CLOCKS = timedelta(minutes=5)  # by so much Novita's may differ from ours
_FREE_STORAGE = 60  # GB
_STORAGE_PRICE = Decimal("0.005")  # USD for a GB and day, where Novita does not show its own
_HOURS_OF_A_DAY = 24
_MOST_ENTRIES = 60

Tags = tuple[tuple[str, str], ...]


class LineKind(StrEnum):
    RUNNING = "running"
    STORAGE = "storage"  # of a machine that is stopped: its disk is kept


@dataclass(frozen=True)
class Span:
    """From a time to another, which is not part of it."""

    begin: datetime
    end: datetime

    @property
    def seconds(self) -> Decimal:
        return Decimal((self.end - self.begin) // timedelta(microseconds=1)) / 1_000_000

    def days(self) -> Iterator[tuple[date, "Span"]]:
        """Its part of each day (UTC) that it touches."""
        begin = self.begin
        while begin < self.end:
            end = min(self.end, midnight_after(begin))
            yield begin.date(), Span(begin, end)
            begin = end

    def within(self, other: "Span") -> "Span":
        begin = max(self.begin, other.begin)
        return Span(begin, max(begin, min(self.end, other.end)))


def midnight(at: datetime) -> datetime:
    return at.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


def midnight_after(at: datetime) -> datetime:
    return midnight(at) + timedelta(days=1)


def amount(usd_per_hour: Decimal | None, span: Span) -> Decimal:
    """Nothing where nobody knows the price."""
    return ((usd_per_hour or Decimal()) * span.seconds / _HOUR).quantize(_SMALLEST)


def storage_per_hour(rootfs_gb: int, price_per_gb_day: Decimal | None) -> Decimal:
    """Of a machine that is stopped."""
    price = _STORAGE_PRICE if price_per_gb_day is None else price_per_gb_day
    return max(0, rootfs_gb - _FREE_STORAGE) * price / _HOURS_OF_A_DAY


@dataclass(frozen=True)
class Line:
    """An interval in which a machine was billed."""

    machine_id: str
    kind: LineKind
    begin: datetime
    end: datetime
    usd_per_hour: Decimal | None = None  # None: nobody knows
    estimated: bool = False
    product_id: str = ""
    region: str = ""

    @property
    def usd(self) -> Decimal:
        return amount(self.usd_per_hour, Span(self.begin, self.end))


@dataclass(frozen=True)
class DayEntry:
    """What fell on one day, under the tags of that time; less than nothing where too much had been booked."""

    day: date
    usd: Decimal
    estimated: bool = False
    region: str = ""
    tags: Tags = ()


class Billing(StrEnum):
    """Whether Novita bills a machine that shows a status."""

    YES = "yes"
    NOT_YET = "not yet"
    NO = "no"
    AS_BEFORE = "as before"


_BILLING = {
    **dict.fromkeys(("toCreate", "creating", "pending"), Billing.NOT_YET),
    **dict.fromkeys(("exited", "removed"), Billing.NO),
    **dict.fromkeys(("toStart", "freezing", "toRemove", "removing"), Billing.AS_BEFORE),
}


def billing_of(novita_status: str) -> Billing:
    """From `pulling` on; a status that nobody knows counts, as it may."""
    return _BILLING.get(novita_status, Billing.YES)


@dataclass(frozen=True)
class Sighting:
    """What Novita shows of a machine that is of interest here."""

    novita_status: str
    began: datetime  # when the request was begun
    off: bool  # the instance takes it for stopped
    started_at: datetime | None = None  # as Novita tells it, where it does
    stopped_at: datetime | None = None
    bought_at: datetime | None = None  # None: nobody knows

    @property
    def believed(self) -> "Sighting":
        """Without times that cannot be: what is yet to come, or was before there was such a machine."""
        return replace(self, started_at=self._told(self.started_at), stopped_at=self._told(self.stopped_at))

    def _told(self, at: datetime | None) -> datetime | None:
        early = at and self.bought_at and at + _CLOCKS < self.bought_at
        return at if at and at <= self.began + _CLOCKS and not early else None


@dataclass(frozen=True)
class Meter:
    """One machine: its terms, and the interval that is open, if one is."""

    machine_id: str
    usd_per_hour: Decimal | None = None  # while it is billed, all GPUs together
    storage_usd_per_hour: Decimal = Decimal()  # while it is stopped
    guessed_price: bool = False  # it is not that of a purchase of ours
    product_id: str = ""
    region: str = ""
    kind: LineKind | None = None  # of the open interval
    since: datetime | None = None
    estimated: bool = False  # the time it began
    confirmed: bool = False  # Novita has shown that it is billed
    ended_at: datetime | None = None  # the end of the interval before: a start that is older is not new
    booked_from: datetime | None = None  # the part of it that is booked on its days
    booked_until: datetime | None = None

    @property
    def rate(self) -> Decimal | None:
        """Of the open interval."""
        return self.storage_usd_per_hour if self.kind is LineKind.STORAGE else self.usd_per_hour

    @property
    def unsure(self) -> bool:
        return self.estimated or (self.kind is LineKind.RUNNING and self._price_unsure)

    @property
    def _price_unsure(self) -> bool:
        return self.guessed_price or self.usd_per_hour is None

    def usd(self, now: datetime) -> Decimal:
        if self.since is None:
            return Decimal()
        return amount(self.rate, Span(self.since, max(self.since, now)))


@dataclass(frozen=True)
class Ledger:
    """Of one instance. Closed intervals and the entries of days are items of their own, written with it."""

    meters: tuple[Meter, ...] = ()
    closed_usd: Decimal = Decimal()
    estimated: bool = False  # some of it
    lines: int = 0  # closed intervals that are stored: their numbers have no gaps
    entries: int = 0  # of days, that are stored
    ended: tuple[tuple[str, datetime], ...] = ()  # machines that are no more, and when they were last billed
    tags: Tags = ()  # under which the days are booked
    new_lines: tuple[Line, ...] = ()  # to be stored with the next write
    new_entries: tuple[DayEntry, ...] = ()

    def meter(self, machine_id: str | None) -> Meter | None:
        return next((one for one in self.meters if one.machine_id == machine_id), None)

    def usd(self, now: datetime) -> Decimal:
        return sum((one.usd(now) for one in self.meters), self.closed_usd)

    @property
    def usd_per_hour(self) -> Decimal:
        return sum((one.rate or Decimal() for one in self.meters if one.since), Decimal())

    @property
    def unsure(self) -> bool:
        return self.estimated or any(one.unsure for one in self.meters if one.since)

    def open_lines(self, now: datetime) -> Iterator[Line]:
        for one in self.meters:
            if one.since and one.kind:
                yield _line(one, max(now, one.since), one.estimated)

    def add(self, meter: Meter) -> "Ledger":
        if self.meter(meter.machine_id):
            return self
        ended = dict(self.ended).get(meter.machine_id)
        left = tuple(one for one in self.ended if one[0] != meter.machine_id)
        meter = replace(meter, ended_at=ended or meter.ended_at)
        return replace(self, meters=(*self.meters, meter), ended=left)

    def expect(self, machine_id: str, at: datetime) -> "Ledger":
        """It was bought, or told to start: billed from then on, unless it is seen that it is not yet."""
        meter = self.meter(machine_id)
        if meter is None or meter.kind is LineKind.RUNNING:
            return self
        return self._close(meter, at, estimated=True)._open(machine_id, at, confirmed=False)

    def see(self, machine_id: str, sighting: Sighting) -> "Ledger":
        meter, sighting = self.meter(machine_id), sighting.believed
        if meter is None:
            return self
        running = meter.kind is LineKind.RUNNING
        match billing_of(sighting.novita_status):
            case Billing.YES:
                return self._see_billed(meter, sighting)
            case Billing.NO if running and meter.confirmed:
                return self._see_stopped(meter, sighting)
            case Billing.NO if running:
                return self._see_not_started(meter, sighting)
            case Billing.NO if sighting.off:
                return self._see_off(meter, sighting)
            case Billing.NOT_YET | Billing.AS_BEFORE if running and not meter.confirmed:
                # One that nobody waits for any more may never be billed.
                never = sighting.off and billing_of(sighting.novita_status) is Billing.NOT_YET
                return self._drop(meter) if never else self._not_before(meter, sighting.began)
        return self

    def see_leaving(self, machine_id: str, sighting: Sighting) -> "Ledger":
        """It is being removed, and had stopped before that, as Novita tells: while nobody could look."""
        sighting = sighting.believed
        meter, stopped, started = self.meter(machine_id), sighting.stopped_at, sighting.started_at
        if meter is None or meter.kind is not LineKind.RUNNING or not meter.since:
            return self
        if stopped is None or stopped <= meter.since:
            return self
        after = self._stop(machine_id, stopped)
        return after._begin(machine_id, started) if started and started > stopped else after

    def end(self, machine_id: str, at: datetime) -> "Ledger":
        """The machine is no more, or not ours any more."""
        meter = self.meter(machine_id)
        if meter is None:
            return self
        after = self._close(meter, at, estimated=True)
        last = after.meter(machine_id)
        meters = tuple(one for one in after.meters if one.machine_id != machine_id)
        ended = (machine_id, (last and last.ended_at) or at)
        return replace(after, meters=meters, ended=(*after.ended, ended))

    def price(
        self, machine_id: str, usd_per_hour: Decimal | None, storage_usd_per_hour: Decimal | None
    ) -> "Ledger":
        """As Novita shows it: of storage where nothing is stored yet, of the rest where nobody knows that of
        a purchase."""
        meter = self.meter(machine_id)
        if meter and meter.usd_per_hour is None and usd_per_hour is not None:
            meter = replace(meter, usd_per_hour=usd_per_hour, guessed_price=True)
        if meter and meter.kind is not LineKind.STORAGE and storage_usd_per_hour is not None:
            meter = replace(meter, storage_usd_per_hour=storage_usd_per_hour)
        return self._put(meter) if meter else self

    def _see_billed(self, meter: Meter, seen: Sighting) -> "Ledger":
        if meter.kind is not LineKind.RUNNING:
            return self._see_begun(meter, seen)
        stopped, started = seen.stopped_at, _new_start(meter, seen)
        if meter.confirmed and meter.since and stopped and started and meter.since < stopped <= started:
            # Stopped and started since it was last seen.
            return self._stop(meter.machine_id, stopped)._begin(meter.machine_id, started)
        if meter.confirmed:
            return self
        confirmed = replace(meter, confirmed=True)
        if started and not (stopped and stopped > started):
            return self._put(replace(confirmed, since=started, estimated=False))
        return self._put(confirmed)

    def _see_begun(self, meter: Meter, seen: Sighting) -> "Ledger":
        """It is billed, and nobody here had it started."""
        if started := _new_start(meter, seen):
            return self._begin(meter.machine_id, started)
        if seen.started_at and meter.kind is LineKind.STORAGE:  # from before it stopped: an old answer
            return self
        if seen.off:
            return self
        at = seen.began
        if seen.started_at and meter.ended_at:  # it was taken for gone, and ran all along
            at = meter.ended_at
        return self._close(meter, at, estimated=True)._open(meter.machine_id, at, confirmed=True)

    def _see_stopped(self, meter: Meter, seen: Sighting) -> "Ledger":
        told = seen.stopped_at
        before = told and meter.since and told + _NOVITAS_SECOND < meter.since
        if before and not (meter.estimated and seen.off):  # what it was before it started
            return self
        if told and meter.since and told + _CLOCKS < meter.since:  # and was seen running since
            told = None
        if not told and not seen.off:
            return self
        return self._close(meter, told or seen.began, estimated=told is None)._store_from(
            meter.machine_id, told, seen.began
        )

    def _see_off(self, meter: Meter, seen: Sighting) -> "Ledger":
        """It is stopped, as it was; unless it was started and stopped since it was last seen."""
        started, stopped = _new_start(meter, seen), seen.stopped_at
        if started and stopped and meter.ended_at and stopped > meter.ended_at + _NOVITAS_SECOND:
            begun = self._begin(meter.machine_id, started)
            return begun._stop(meter.machine_id, stopped)
        return self._store_from(meter.machine_id, stopped, seen.began) if meter.kind is None else self

    def _stop(self, machine_id: str, at: datetime) -> "Ledger":
        """At a time that Novita tells."""
        meter = self.meter(machine_id)
        return self._close(meter, at)._store_from(machine_id, at, at) if meter else self

    def _see_not_started(self, meter: Meter, seen: Sighting) -> "Ledger":
        """It was to start, and is stopped: it ran and stopped unseen, or does not run yet, or never did."""
        started, stopped = _new_start(meter, seen), seen.stopped_at
        if started and stopped and stopped >= started:
            told = replace(meter, since=started, estimated=False)
            return self._put(told)._stop(meter.machine_id, stopped)
        if stopped and meter.since and stopped > meter.since + _NOVITAS_SECOND:  # it ran until then
            return self._stop(meter.machine_id, stopped)
        if not seen.off:
            return self._not_before(meter, seen.began)
        return self._drop(meter)._store_from(meter.machine_id, stopped, meter.ended_at or seen.began)

    def _begin(self, machine_id: str, at: datetime) -> "Ledger":
        """At a time that Novita tells."""
        meter = self.meter(machine_id)
        if meter is None:
            return self
        return self._close(meter, at)._open(machine_id, at, confirmed=True, estimated=False)

    def _store_from(self, machine_id: str, told: datetime | None, seen: datetime) -> "Ledger":
        meter = self.meter(machine_id)
        if meter is None or meter.kind or not meter.storage_usd_per_hour:
            return self
        return self._open(machine_id, told or seen, LineKind.STORAGE, estimated=told is None)

    def _open(
        self,
        machine_id: str,
        at: datetime,
        kind: LineKind = LineKind.RUNNING,
        *,
        confirmed: bool = True,
        estimated: bool = True,
    ) -> "Ledger":
        meter = self.meter(machine_id)
        if meter is None:
            return self
        since = max(at, meter.ended_at or at)
        estimated = estimated or since > at + _NOVITAS_SECOND  # by a clock of ours that was ahead
        return self._put(replace(meter, kind=kind, since=since, confirmed=confirmed, estimated=estimated))

    def _not_before(self, meter: Meter, at: datetime) -> "Ledger":
        return self._put(replace(meter, since=max(at, meter.since or at)))

    def _close(self, meter: Meter, at: datetime, *, estimated: bool = False) -> "Ledger":
        """What Novita never showed as billed and lasted no time is no interval."""
        if meter.since is None or meter.kind is None:
            return self
        line = _line(meter, max(at, meter.since), estimated or meter.estimated)
        if line.end == line.begin:
            return self._drop(meter)
        span = Span(line.begin, line.end)
        after = self._put(_idle(meter, line.end))._book(meter, span, estimated=line.estimated)
        return replace(
            after,
            closed_usd=after.closed_usd + line.usd,
            estimated=after.estimated or line.estimated,
            new_lines=(*after.new_lines, line),
        )

    def _drop(self, meter: Meter) -> "Ledger":
        begin = meter.booked_from or meter.since or meter.ended_at
        after = self._put(_idle(meter, meter.ended_at))
        return after._book(meter, Span(begin, begin), estimated=True) if begin else after

    def _put(self, meter: Meter) -> "Ledger":
        meters = (meter if one.machine_id == meter.machine_id else one for one in self.meters)
        return replace(self, meters=tuple(meters))

    def carry(self, now: datetime, tags: Tags) -> "Ledger":
        """Before it is stored: days that are over are booked, and what comes goes under the tags of now."""
        ledger, until = self, midnight(now) if tags == self.tags else now
        for meter in self.meters:
            ledger = ledger._book_until(meter, until)
        return replace(ledger, tags=tags)

    def _book_until(self, meter: Meter, until: datetime) -> "Ledger":
        if meter.since is None:
            return self
        wanted = Span(meter.since, max(meter.since, until, meter.booked_until or until))
        booked = meter.booked_from and Span(meter.booked_from, meter.booked_until or meter.booked_from)
        if wanted == booked or (booked is None and wanted.begin == wanted.end):
            return self
        marked = replace(meter, booked_from=wanted.begin, booked_until=wanted.end)
        return self._put(marked)._book(meter, wanted, estimated=meter.estimated)

    def _book(self, meter: Meter, wanted: Span, *, estimated: bool) -> "Ledger":
        """What the days lack of that span, or have too much of it."""
        if meter.booked_from is None or meter.booked_until is None:
            parts = [(1, wanted)]
        else:
            begin, end = meter.booked_from, meter.booked_until
            parts = [
                (1, Span(wanted.begin, min(wanted.end, begin))),
                (-1, Span(begin, min(wanted.begin, end))),
                (1, Span(max(wanted.begin, end), wanted.end)),
                (-1, Span(max(wanted.end, begin), end)),
            ]
        unsure = estimated or meter.unsure
        entries = [
            DayEntry(day, sign * amount(meter.rate, part), unsure, meter.region, self.tags)
            for sign, span in parts
            if span.begin < span.end
            for day, part in span.days()
        ]
        return replace(self, new_entries=(*self.new_entries, *_not_too_many(entries)))


def _not_too_many(entries: list[DayEntry]) -> list[DayEntry]:
    """One write has to hold them. Only where no sweep has run for months: what is older is one entry."""
    if len(entries) <= _MOST_ENTRIES:
        return entries
    older, newer = entries[:-_MOST_ENTRIES], entries[-_MOST_ENTRIES:]
    whole = sum((one.usd for one in older), newer[0].usd)
    return [replace(newer[0], usd=whole, estimated=True), *newer[1:]]


def _new_start(meter: Meter, seen: Sighting) -> datetime | None:
    """The start that Novita tells, unless it is that of the interval before."""
    started = seen.started_at
    if started is None or (meter.ended_at and started + _NOVITAS_SECOND < meter.ended_at):
        return None
    return max(started, meter.ended_at or started)


def _idle(meter: Meter, ended_at: datetime | None) -> Meter:
    return replace(
        meter,
        kind=None,
        since=None,
        estimated=False,
        confirmed=False,
        ended_at=ended_at,
        booked_from=None,
        booked_until=None,
    )


def _line(meter: Meter, end: datetime, estimated: bool) -> Line:
    kind = meter.kind or LineKind.RUNNING
    unsure = estimated or (kind is LineKind.RUNNING and meter._price_unsure)
    return Line(
        meter.machine_id,
        kind,
        meter.since or end,
        end,
        meter.rate,
        unsure,
        meter.product_id,
        meter.region,
    )
