"""When calls may go out, come in and be tried again: circuits, back-off, budgets, by what the clock says."""

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from enum import StrEnum


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
