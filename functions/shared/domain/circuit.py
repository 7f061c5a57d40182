"""When calls may go out: a circuit that is closed, open or half open, as functions of it and the time."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum


class State(StrEnum):
    CLOSED = "CLOSED"
    OPEN = "OPEN"
    HALF_OPEN = "HALF_OPEN"


# Half open follows half open when a probe is taken over, comes back, or was good and one more is wanted.
NEXT: dict[State, frozenset[State]] = {
    State.CLOSED: frozenset({State.OPEN}),
    State.OPEN: frozenset({State.HALF_OPEN}),
    State.HALF_OPEN: frozenset({State.HALF_OPEN, State.OPEN, State.CLOSED}),
}

NAMES = ("reads", "buys", "actions")

LONGEST_OPEN = 8  # times the recovery time-out


@dataclass(frozen=True, kw_only=True)
class Policy:
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
    state: State = State.CLOSED
    failures: tuple[datetime, ...] = ()
    openings: int = 0  # in a row: see `opened`
    open_until: datetime | None = None
    closed_at: datetime | None = None
    successes: int = 0
    lease: str = ""
    lease_until: datetime | None = None


@dataclass(frozen=True)
class Report:
    name: str
    state: State
    failures: int  # within the window
    open_until: datetime | None
    epoch: int
    openings: int

    def refuses(self, now: datetime) -> bool:
        """Calls at this moment. One that nobody has asked since its time was over refuses nobody."""
        return self.state is State.OPEN and self.open_until is not None and now < self.open_until


@dataclass(frozen=True)
class CircuitEvent:
    id: str
    type: str
    timestamp: datetime
    circuit: str
    state: State
    epoch: int
    open_until: datetime | None


@dataclass(frozen=True)
class Go:
    """Send. Without an epoch the outcome is not counted: the circuit was passed by, or could not be read."""

    circuit: str
    epoch: int | None


@dataclass(frozen=True)
class Probe:
    """Make one cheap read, never a purchase, report it, and ask again; nobody else may meanwhile."""

    leased: Circuit

    @property
    def circuit(self) -> str:
        return self.leased.name


@dataclass(frozen=True)
class Refused:
    circuit: str
    retry_after: float


Permit = Go | Probe | Refused


def failures_within(circuit: Circuit, now: datetime, policy: Policy) -> tuple[datetime, ...]:
    oldest = now - timedelta(seconds=policy.window)
    return tuple(at for at in circuit.failures if at >= oldest)


def is_tripped(circuit: Circuit, now: datetime, policy: Policy) -> bool:
    """Enough failures to open, whoever counted the last: a crash before the opening write loses nothing."""
    enough = len(failures_within(circuit, now, policy)) >= policy.failure_threshold
    return circuit.state is State.CLOSED and enough


def may_probe(circuit: Circuit, now: datetime) -> bool:
    match circuit.state:
        case State.CLOSED:
            return False
        case State.OPEN:
            return _is_over(circuit.open_until, now)
        case State.HALF_OPEN:
            return _is_over(circuit.lease_until, now)


def answer(circuit: Circuit, now: datetime, policy: Policy) -> Go | Refused:
    """What a caller who gets no probe is told."""
    soon = max(1.0, policy.cache_seconds)
    if circuit.state is State.CLOSED:
        if is_tripped(circuit, now, policy):
            return Refused(circuit.name, soon)
        return Go(circuit.name, circuit.epoch)
    if circuit.state is State.OPEN:
        return Refused(circuit.name, _left(circuit.open_until, now) or soon)
    return Refused(circuit.name, min(_left(circuit.lease_until, now) or soon, soon))


def opened(circuit: Circuit, now: datetime, policy: Policy, jitter: float) -> Circuit:
    """Open, for longer each time in a row; closed for as long as the longest of these starts over."""
    relapse = timedelta(seconds=policy.recovery_timeout * LONGEST_OPEN)
    repeated = circuit.state is State.HALF_OPEN or (
        circuit.closed_at is not None and now - circuit.closed_at < relapse
    )
    openings = circuit.openings + 1 if repeated else 1
    return Circuit(
        name=circuit.name,
        epoch=circuit.epoch + 1,
        state=State.OPEN,
        failures=circuit.failures,
        openings=openings,
        open_until=now + timedelta(seconds=open_seconds(openings, policy, jitter)),
    )


def open_seconds(openings: int, policy: Policy, jitter: float) -> float:
    """The recovery time-out, then twice, four and eight times that, the upper half by chance (0 to 1)."""
    if openings <= 1:
        return policy.recovery_timeout
    longest = policy.recovery_timeout * min(1 << min(openings - 1, 10), LONGEST_OPEN)
    return longest / 2 * (1 + jitter)


def leased(circuit: Circuit, lease: str, now: datetime, policy: Policy) -> Circuit:
    """Half open with one prober; a new epoch, so that whoever held the lease before has lost it."""
    # Not shorter than the recovery time-out: a prober that dies costs one probe in that time, not more.
    lasts = max(policy.recovery_timeout, policy.probe_seconds)
    return replace(
        circuit,
        epoch=circuit.epoch + 1,
        state=State.HALF_OPEN,
        open_until=None,
        lease=lease,
        lease_until=now + timedelta(seconds=lasts),
    )


def after_good_probe(circuit: Circuit, now: datetime, policy: Policy) -> Circuit:
    successes = circuit.successes + 1
    if successes < policy.success_threshold:
        return replace(_released(circuit), successes=successes)
    return Circuit(name=circuit.name, epoch=circuit.epoch + 1, openings=circuit.openings, closed_at=now)


def after_bad_probe(circuit: Circuit, now: datetime, policy: Policy, jitter: float) -> Circuit:
    return opened(circuit, now, policy, jitter)


def after_unsent_probe(circuit: Circuit) -> Circuit:
    return _released(circuit)


def event_of(circuit: Circuit, event_id: str, now: datetime) -> CircuitEvent | None:
    """What is told of a circuit that has just become so; half open is nobody's news."""
    if circuit.state is State.HALF_OPEN:
        return None
    kind = "circuit.opened" if circuit.state is State.OPEN else "circuit.closed"
    return CircuitEvent(
        id=event_id,
        type=kind,
        timestamp=now,
        circuit=circuit.name,
        state=circuit.state,
        epoch=circuit.epoch,
        open_until=circuit.open_until,
    )


def report(circuit: Circuit, now: datetime, policy: Policy) -> Report:
    failures = len(failures_within(circuit, now, policy))
    return Report(circuit.name, circuit.state, failures, circuit.open_until, circuit.epoch, circuit.openings)


def _released(circuit: Circuit) -> Circuit:
    return replace(circuit, epoch=circuit.epoch + 1, lease="", lease_until=None)


def _is_over(until: datetime | None, now: datetime) -> bool:
    return until is None or now >= until


def _left(until: datetime | None, now: datetime) -> float:
    return max(0.0, (until - now).total_seconds()) if until else 0.0
