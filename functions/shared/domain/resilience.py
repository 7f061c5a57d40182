"""When calls may go out, come in and be tried again: circuits, slots, budgets, back-off, Retry-After."""

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from enum import StrEnum
from math import ceil
from typing import Literal, NamedTuple


class CircuitState(StrEnum):
    CLOSED = "CLOSED"
    OPEN = "OPEN"
    HALF_OPEN = "HALF_OPEN"


# Half open follows half open when a probe is taken over, comes back, or was good and one more is wanted.
NEXT_CIRCUIT_STATE: dict[CircuitState, frozenset[CircuitState]] = {
    CircuitState.CLOSED: frozenset({CircuitState.OPEN}),
    CircuitState.OPEN: frozenset({CircuitState.HALF_OPEN}),
    CircuitState.HALF_OPEN: frozenset({CircuitState.HALF_OPEN, CircuitState.OPEN, CircuitState.CLOSED}),
}

CIRCUIT_NAMES = ("reads", "buys", "actions")

_HOLDS_OF_A_MINUTE = 8
LONGEST_OPEN_FACTOR = 8  # times the recovery time-out


@dataclass(frozen=True, kw_only=True)
class CircuitPolicy:
    failure_threshold: int = 5
    window: float = 30
    recovery_timeout: float = 60
    success_threshold: int = 2
    cache_seconds: float = 5
    probe_seconds: float = 15  # what a probe may take; one that takes longer may be taken over


@dataclass(frozen=True)
class Circuit:
    """What all environments share; every transition raises the epoch, a counted failure does not."""

    name: str
    epoch: int = 0
    state: CircuitState = CircuitState.CLOSED
    failures: tuple[datetime, ...] = ()
    openings: int = 0  # in a row: see `opened`
    open_until: datetime | None = None
    closed_at: datetime | None = None
    successes: int = 0
    lease: str = ""
    lease_until: datetime | None = None


@dataclass(frozen=True)
class CircuitReport:
    name: str
    state: CircuitState
    failures: int  # within the window
    open_until: datetime | None
    epoch: int
    openings: int

    def refuses(self, now: datetime) -> bool:
        """Calls at this moment. One that nobody has asked since its time was over refuses nobody."""
        return self.state is CircuitState.OPEN and self.open_until is not None and now < self.open_until


@dataclass(frozen=True)
class CircuitEvent:
    id: str
    type: str
    timestamp: datetime
    circuit: str
    state: CircuitState
    epoch: int
    open_until: datetime | None


@dataclass(frozen=True)
class CallPermit:
    """Send. Without an epoch the outcome is not counted: the circuit was passed by, or could not be read."""

    circuit: str
    epoch: int | None


@dataclass(frozen=True)
class ProbePermit:
    """Make one cheap read, never a purchase, report it, and ask again; nobody else may meanwhile."""

    leased: Circuit

    @property
    def circuit(self) -> str:
        return self.leased.name


@dataclass(frozen=True)
class RefusedPermit:
    circuit: str
    retry_after: float


Permit = CallPermit | ProbePermit | RefusedPermit


def failures_within(circuit: Circuit, now: datetime, policy: CircuitPolicy) -> tuple[datetime, ...]:
    oldest = now - timedelta(seconds=policy.window)
    return tuple(at for at in circuit.failures if at >= oldest)


def is_tripped(circuit: Circuit, now: datetime, policy: CircuitPolicy) -> bool:
    """Enough failures to open, whoever counted the last: a crash before the opening write loses nothing."""
    enough = len(failures_within(circuit, now, policy)) >= policy.failure_threshold
    return circuit.state is CircuitState.CLOSED and enough


def may_probe(circuit: Circuit, now: datetime) -> bool:
    match circuit.state:
        case CircuitState.CLOSED:
            return False
        case CircuitState.OPEN:
            return _is_over(circuit.open_until, now)
        case CircuitState.HALF_OPEN:
            return _is_over(circuit.lease_until, now)


def permit_without_probe(
    circuit: Circuit, now: datetime, policy: CircuitPolicy
) -> CallPermit | RefusedPermit:
    """For a caller who gets no probe."""
    soon = max(1.0, policy.cache_seconds)
    if circuit.state is CircuitState.CLOSED:
        if is_tripped(circuit, now, policy):
            return RefusedPermit(circuit.name, soon)
        return CallPermit(circuit.name, circuit.epoch)
    if circuit.state is CircuitState.OPEN:
        return RefusedPermit(circuit.name, _left(circuit.open_until, now) or soon)
    return RefusedPermit(circuit.name, min(_left(circuit.lease_until, now) or soon, soon))


def opened(circuit: Circuit, now: datetime, policy: CircuitPolicy, jitter: float) -> Circuit:
    """Open, for longer each time in a row; closed for as long as the longest of these starts over."""
    relapse = timedelta(seconds=policy.recovery_timeout * LONGEST_OPEN_FACTOR)
    repeated = circuit.state is CircuitState.HALF_OPEN or (
        circuit.closed_at is not None and now - circuit.closed_at < relapse
    )
    openings = circuit.openings + 1 if repeated else 1
    return Circuit(
        name=circuit.name,
        epoch=circuit.epoch + 1,
        state=CircuitState.OPEN,
        failures=circuit.failures,
        openings=openings,
        open_until=now + timedelta(seconds=open_seconds(openings, policy, jitter)),
    )


def open_seconds(openings: int, policy: CircuitPolicy, jitter: float) -> float:
    """The recovery time-out, then twice, four and eight times that, the upper half by chance (0 to 1)."""
    if openings <= 1:
        return policy.recovery_timeout
    longest = policy.recovery_timeout * min(1 << min(openings - 1, 10), LONGEST_OPEN_FACTOR)
    return longest / 2 * (1 + jitter)


def leased(circuit: Circuit, lease: str, now: datetime, policy: CircuitPolicy) -> Circuit:
    """Half open with one prober; a new epoch, so that whoever held the lease before has lost it."""
    # Not shorter than the recovery time-out: a prober that dies costs one probe in that time, not more.
    lasts = max(policy.recovery_timeout, policy.probe_seconds)
    return replace(
        circuit,
        epoch=circuit.epoch + 1,
        state=CircuitState.HALF_OPEN,
        open_until=None,
        lease=lease,
        lease_until=now + timedelta(seconds=lasts),
    )


def after_good_probe(circuit: Circuit, now: datetime, policy: CircuitPolicy) -> Circuit:
    successes = circuit.successes + 1
    if successes < policy.success_threshold:
        return replace(released(circuit), successes=successes)
    return Circuit(name=circuit.name, epoch=circuit.epoch + 1, openings=circuit.openings, closed_at=now)


def event_of(circuit: Circuit, event_id: str, now: datetime) -> CircuitEvent | None:
    """The event that announces the circuit's new state; half open is not announced."""
    if circuit.state is CircuitState.HALF_OPEN:
        return None
    kind = "circuit.opened" if circuit.state is CircuitState.OPEN else "circuit.closed"
    return CircuitEvent(
        id=event_id,
        type=kind,
        timestamp=now,
        circuit=circuit.name,
        state=circuit.state,
        epoch=circuit.epoch,
        open_until=circuit.open_until,
    )


def circuit_report(circuit: Circuit, now: datetime, policy: CircuitPolicy) -> CircuitReport:
    failures = len(failures_within(circuit, now, policy))
    return CircuitReport(
        circuit.name, circuit.state, failures, circuit.open_until, circuit.epoch, circuit.openings
    )


def released(circuit: Circuit) -> Circuit:
    return replace(circuit, epoch=circuit.epoch + 1, lease="", lease_until=None)


def _is_over(until: datetime | None, now: datetime) -> bool:
    return until is None or now >= until


def _left(until: datetime | None, now: datetime) -> float:
    return max(0.0, (until - now).total_seconds()) if until else 0.0


# What a call to Novita is for decides whose share of the rate limit it uses: stops, deletes and probes of a
# circuit; looks at machines that bill; purchases, starts and what they read; what POST checks before it
# accepts a create; what else callers read; how busy GPUs are; stops and deletes that Novita has refused.
SlotClass = Literal["ends", "looks", "work", "lookups", "callers", "metrics", "refused"]

SECOND = 1000
MINUTE = 60 * SECOND
TICK = SECOND // 2  # grants are counted together that may be used until the end of the same half second

# In the order of their claims: see `SlotWindow.claim`.
CLASSES: tuple[SlotClass, ...] = ("ends", "looks", "work", "lookups", "callers", "metrics", "refused")
# Reads that a caller waits for, and what can wait. They have a bound and no pace, so that they use up nobody
# else's.
BOUNDED: frozenset[SlotClass] = frozenset({"lookups", "callers", "metrics", "refused"})

ENDS: frozenset[SlotClass] = frozenset({"ends", "refused"})

# After a burst, what is left of the minute is used up faster than evenly by so much: all of it is used, and
# still there is no time in which nothing goes out.
HASTE = 1.1
# A grant is used within this time, the write that stores it included; several are taken at once where a
# process uses that many in it.
IN_HAND = SECOND // 4
# One who does not come for its turn within this time is waited for no longer.
LATE = 2 * SECOND
# What Retry-After keeps stops and deletes waiting at most: what they end costs money. With the way of
# a message they are tried within a minute.
LONGEST_PAUSE_OF_ENDS_SECONDS = 50.0
# More are not noted, so that the item stays small; whoever comes then simply asks again. A crowd of callers
# must not take the place of those who work.
MOST_WAITING, MOST_CALLERS_WAITING = 100, 20


@dataclass(frozen=True)
class SlotLimits:
    """What the limit means, in calls of any 60 s."""

    normal: int
    everything: int  # stops and deletes may use the difference
    burst: int  # may go at once after a quiet minute
    spare: int  # with no more left than this, the minute itself is the pace
    batch: int  # the most that one write may take
    share: Mapping[SlotClass, int]  # what a class gets before the others, if it wants it
    most: Mapping[SlotClass, int]

    @classmethod
    def of(cls, per_minute: int) -> "SlotLimits":
        def part(percent: int) -> int:
            return -(-per_minute * percent // 100)

        normal = part(98)
        everything = max(normal, per_minute * 104 // 100)
        share: dict[SlotClass, int] = {"ends": part(10), "looks": part(30), "lookups": part(5)}
        share |= {"callers": 0, "metrics": 0, "refused": part(1)}  # one that bills is asked for all the same
        share["work"] = max(1, normal - sum(share.values()))
        most: dict[SlotClass, int] = {"lookups": part(20), "callers": part(20)}
        most["metrics"] = most["refused"] = max(1, per_minute // 10)
        return cls(
            normal=normal,
            everything=everything,
            burst=part(20),
            spare=part(3),
            batch=max(1, normal * IN_HAND // MINUTE),
            share=share,
            most={kind: most.get(kind, everything) for kind in CLASSES},
        )


class TableTime(NamedTuple):
    """The table's time now, in milliseconds, is between these."""

    earliest: int
    latest: int


@dataclass(frozen=True)
class SlotRequest:
    kind: SlotClass
    ticket: str = ""
    begun: bool = False  # the last call of a purchase: to put it off now would waste those before it


Grants = tuple[tuple[int, tuple[int, ...]], ...]  # until when they may be used, and how many of each class


@dataclass(frozen=True)
class WaitingCall:
    ticket: str
    kind: SlotClass
    back_at: int  # when it asks again


@dataclass(frozen=True)
class SlotWindow:
    version: int = 0
    writer: str = ""
    grants: Grants = ()
    waiting: tuple[WaitingCall, ...] = ()  # first come, first
    credit: float = 0.0  # how many may go at once
    credit_at: int = 0
    paused_at: int = 0
    paused_until: int = 0
    buyers_until: int = 0  # purchases were put off, and come back until then

    def at(self, now: int, limits: SlotLimits) -> "SlotWindow":
        """As it is by then: without what no longer counts, and with the credit that has grown."""
        grants = tuple(grant for grant in self.grants if grant[0] + MINUTE > now)
        waiting = tuple(one for one in self.waiting if one.back_at + LATE > now)
        kept = replace(self, grants=grants, waiting=waiting)
        grown = self.credit + kept.pace(now, limits) * max(0, now - self.credit_at)
        return replace(kept, credit=min(limits.burst, grown), credit_at=max(now, self.credit_at))

    def used(self, kind: SlotClass | None = None) -> int:
        return sum(number for _, number in self._counts(kind))

    def pace(self, now: int, limits: SlotLimits) -> float:
        """Calls in a millisecond: a little more than what would last until each call of the last minute has
        made room again."""
        room, lasting = limits.normal - self.used(), float(limits.normal)
        for until, number in self._counts(None):
            lasting = min(lasting, room / (until + MINUTE - now))
            room += number
        return HASTE * max(0.0, min(lasting, room / MINUTE))

    def claim(self, kind: SlotClass, limits: SlotLimits) -> tuple[bool, int]:
        """The smaller comes first: whoever has had less than its share, then by class."""
        return self.used(kind) >= limits.share[kind], CLASSES.index(kind)

    def delay(self, ask: SlotRequest, now: int, limits: SlotLimits, number: int = 1) -> int:
        """How long until so many such calls may be sent; `self` is the window at that time.

        What is free goes to whoever asks, not to one who asks only later; but never to a caller's read while
        a purchase waits.
        """
        waiting = self._ahead(ask, limits)
        here = waiting if ask.kind in BOUNDED else self._ahead(ask, limits, by=now + TICK)
        at_once = self._delay(ask, here, now, limits, number)
        return self._delay(ask, waiting, now, limits, number) if at_once else 0

    def _delay(self, ask: SlotRequest, ahead: int, now: int, limits: SlotLimits, number: int) -> int:
        kind, has_share = ask.kind, self.used(ask.kind) < limits.share[ask.kind]
        reserve = kind == "ends" and has_share
        fits = (limits.everything if reserve else limits.normal) - ahead - number
        delays = [
            self._pause_end(kind) - now,
            self._free_at(fits, None, now) - now,
            self._free_at(limits.most[kind] - number, kind, now) - now,
        ]
        if ahead or not (reserve or ask.begun or kind in BOUNDED):
            delays.append(self._until_credit(ahead + number, now, limits))
        if kind in BOUNDED and not has_share:
            delays.append(self.buyers_until - now)
        return max(0, *delays)

    def grant(
        self, ask: SlotRequest, now: TableTime, limits: SlotLimits, number: int = 1
    ) -> tuple["SlotWindow", int]:
        """With so many calls counted, and until when they may be sent."""
        until = -(-(now.latest + IN_HAND) // TICK) * TICK
        more = tuple(number if each == ask.kind else 0 for each in CLASSES)
        counts = dict(self.grants)
        counts[until] = tuple(map(sum, zip(counts.get(until, (0,) * len(CLASSES)), more, strict=True)))
        reserve = ask.kind == "ends" and self.used("ends") < limits.share["ends"]
        credit = self.credit if reserve or ask.kind in BOUNDED else max(0.0, self.credit - number)
        return replace(self.without(ask.ticket), grants=tuple(sorted(counts.items())), credit=credit), until

    def without(self, ticket: str) -> "SlotWindow":
        return replace(self, waiting=tuple(one for one in self.waiting if one.ticket != ticket))

    def wait_in_line(self, ask: SlotRequest, back_at: int) -> "SlotWindow":
        """In its old place, or at the end; what is begun is first."""
        call = WaitingCall(ask.ticket, ask.kind, back_at)
        line = {one.ticket: one for one in self.waiting}
        line = {ask.ticket: call} | line if ask.begun else line
        return replace(self, waiting=tuple((line | {ask.ticket: call}).values()))

    def is_crowded(self, kind: SlotClass) -> bool:
        callers = sum(one.kind in BOUNDED for one in self.waiting)
        if kind in BOUNDED:
            return callers >= MOST_CALLERS_WAITING
        return len(self.waiting) - callers >= MOST_WAITING

    def pause(self, now: TableTime, length: int) -> "SlotWindow":
        """A shorter pause never ends a longer one; one that follows another belongs to it."""
        until = max(self.paused_until, now.latest + length)
        began = self.paused_at if self.paused_until > now.earliest else now.earliest
        return replace(self, paused_at=began, paused_until=until)

    def _pause_end(self, kind: SlotClass) -> int:
        longest = round(LONGEST_PAUSE_OF_ENDS_SECONDS * SECOND)
        return min(self.paused_until, self.paused_at + longest) if kind in ENDS else self.paused_until

    def _ahead(self, ask: SlotRequest, limits: SlotLimits, by: int | None = None) -> int:
        """How many wait with a better claim, or came before; of those who ask again by then."""
        mine, ahead = self.claim(ask.kind, limits), 0
        before_mine = mine[0] and not ask.begun, mine[1] - 1
        mine = before_mine if ask.begun else mine
        for one in self.waiting:
            if one.ticket == ask.ticket:
                mine = before_mine  # those of the same class that follow came later
            elif self.claim(one.kind, limits) <= mine and (by is None or one.back_at <= by):
                ahead += 1
        return ahead

    def _free_at(self, most: int, kind: SlotClass | None, now: int) -> int:
        """When no more than so many of the calls that count now still do."""
        left, at = self.used(kind), now
        for until, number in self._counts(kind):
            if left <= most:
                break
            left, at = left - number, until + MINUTE
        return at if left <= most else now + MINUTE

    def _until_credit(self, number: int, now: int, limits: SlotLimits) -> int:
        if limits.normal - self.used() <= limits.spare or self.credit >= number:
            return 0
        return ceil((number - self.credit) / self.pace(now, limits))

    def _counts(self, kind: SlotClass | None) -> Iterator[tuple[int, int]]:
        place = CLASSES.index(kind) if kind else None
        return ((until, sum(each) if place is None else each[place]) for until, each in self.grants)


def retry_wait(
    attempt: int, *, base: float, cap: float, chance: Callable[[], float] = random.random
) -> float:
    """After the given failed attempt (from 1): eightfold each time, and up to a quarter more or less, but
    never more than the cap."""
    wait = min(cap, base * 8.0 ** min(attempt - 1, 100))
    return min(cap, wait * (0.75 + chance() / 2))


def hold_wait(
    held: int, longest_seconds: float, chance: Callable[[], float], *, slow: bool = False
) -> timedelta:
    """Until a job that got no slot asks again: doubled each time, with jitter, and no longer than a job may
    last, since a slot is free then. One of the slow ones need not ask after a second. After a minute many
    more must be waiting than there are slots, and it asks less often."""
    doubled = min(held + (3 if slow else 0), 10)
    longest = longest_seconds if doubled <= _HOLDS_OF_A_MINUTE else 4 * longest_seconds
    return timedelta(seconds=min(2.0**doubled, longest) * (0.5 + chance()))


def retry_after_seconds(header: str | None, now: datetime, longest: float) -> float | None:
    """None where it says nothing; never more than `longest`, for a header may be wrong."""
    text = (header or "").strip()
    wait = float(text) if text.isascii() and text.isdigit() else _until(text, now)
    return None if wait is None else min(max(wait, 0.0), longest)


def _until(text: str, now: datetime) -> float | None:
    if len(text) > 64:
        return None
    try:
        when = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    return (when.replace(tzinfo=when.tzinfo or UTC) - now).total_seconds()


_BURST_SECONDS = 10  # so much of a budget may come at once
_MOST_CALLERS = 10_000


class RequestBudget:
    """So many requests a minute for each caller, counted in this process: without a write or a read."""

    def __init__(self, per_minute: int, clock: Callable[[], datetime]) -> None:
        self._per_second = per_minute / 60
        self._most = max(1.0, self._per_second * _BURST_SECONDS)
        self._clock = clock
        self._left: dict[str, tuple[datetime, float]] = {}  # the last one to spend is the last one here

    def wait(self, caller: str) -> float:
        """Seconds until the caller has one left, or 0."""
        return max(0.0, 1 - self._now_left(caller)) / self._per_second

    def spend(self, caller: str) -> None:
        left = self._now_left(caller) - 1
        self._left.pop(caller, None)
        if len(self._left) >= _MOST_CALLERS:
            del self._left[next(iter(self._left))]
        self._left[caller] = (self._clock(), left)

    def _now_left(self, caller: str) -> float:
        if (known := self._left.get(caller)) is None:
            return self._most
        since, left = known
        return min(self._most, left + (self._clock() - since).total_seconds() * self._per_second)
