"""What the rate limiter lets through: steady work, deletes, bursts, pauses, many writers."""

from bisect import bisect_right
from dataclasses import dataclass, field
from datetime import timedelta
from heapq import heappop, heappush
from itertools import count

from bench.environments import (
    LONGEST_CALL_WAIT,
    Environment,
    Place,
)
from functions.shared.domain.errors import NotNow
from functions.shared.engine.catalog import BEGIN_SECONDS
from functions.shared.stores.rate_limiter import Lane

# A steady trickle, and twelve at once in the middle.
DELETES = tuple(float(at) for at in range(10, 240, 5)) + (120.5,) * 12


@dataclass
class Traffic:
    """Calls sent, in seconds since the start."""

    seconds: float
    sent: list[float] = field(default_factory=list)
    urgent_waits: list[float] = field(default_factory=list)
    writes: int = 0

    @property
    def most_in_60_seconds(self) -> int:
        """Both ends counted in, so a little stricter than a window."""
        return max(bisect_right(self.sent, at + 60) - index for index, at in enumerate(self.sent))

    @property
    def per_minute(self) -> float:
        return len(self.sent) / self.seconds * 60

    @property
    def writes_per_call(self) -> float:
        return self.writes / len(self.sent)

    def between(self, start: float, end: float) -> int:
        return sum(start <= at < end for at in self.sent)


def traffic(
    place: Place,
    seconds: float = 600,
    deletes: tuple[float, ...] = (),
    pauses: dict[float, float] | None = None,
) -> Traffic:
    """As much normal work as there can be, deletes at their times, and 429s with what they ask for."""
    fleet = place.fleet()
    start = fleet.clock()
    result = Traffic(seconds)
    order = count()
    due: list[tuple[float, int, Environment, Lane, str, float]] = []

    def plan(at: float, environment: Environment, kind: Lane, step: str, since: float) -> None:
        heappush(due, (at, next(order), environment, kind, step, since))

    for number, environment in enumerate(fleet.environments):
        plan(0.0, environment, "normal", "ask", 0.0)
        for at in deletes[number :: len(fleet.environments)]:
            plan(at, environment, "urgent", "ask", at)
    for at, asked in (pauses or {}).items():
        plan(at, fleet.first, "normal", f"pause {asked}", at)
    while due:
        at, _, environment, kind, step, since = heappop(due)
        if at >= seconds:
            break
        fleet.clock.now = start + timedelta(seconds=at)
        limiter = environment.limiter
        if step.startswith("pause"):
            limiter.pause(float(step.split()[1]))
        elif step == "ask":
            try:
                delay = limiter.take(kind, LONGEST_CALL_WAIT)
            except NotNow as error:
                plan(at + (error.retry_after or 0.1), environment, kind, "ask", since)
            else:
                plan(at + delay, environment, kind, "look" if delay else "send", since)
        elif step == "look" and limiter.paused():
            plan(at, environment, kind, "ask", since)
        else:
            result.sent.append(at)
            if kind == "urgent":
                result.urgent_waits.append(at - since)
            else:
                plan(at + 0.1 + (next(order) % 10) / 10, environment, kind, "ask", 0.0)
    result.writes = fleet.writes
    return result


@dataclass(frozen=True)
class Burst:
    creates_waiting: int
    longest_create_wait: float
    delete_wait: float
    look_wait: float


def burst_of_creates(place: Place) -> Burst:
    """Everybody begins as many creates as there may be, then one delete comes and one look."""
    fleet = place.fleet()

    def take_all(environment: Environment) -> list[float]:
        waits: list[float] = []
        try:
            while True:
                waits.append(environment.limiter.take("normal", BEGIN_SECONDS))
        except NotNow:
            return waits

    waits = [wait for some in fleet.together(take_all) for wait in some]
    delete, look = fleet.first.limiter.take("urgent", 15), fleet.first.limiter.take("normal", 15)
    return Burst(len(waits), max(waits), delete, look)


@dataclass(frozen=True)
class ManyAtOnce:
    slots: int
    different: int
    most_writes_for_one: int


def many_at_once(place: Place) -> ManyAtOnce:
    """Twenty writers at the same moment, at a limit high enough that all are served."""
    fleet = place.fleet(limit=400)

    def take(environment: Environment) -> tuple[float, int]:
        return environment.limiter.take("normal", 15), environment.writes

    taken = fleet.together(take) + fleet.together(take)
    waits = [wait for wait, _ in taken]
    most = max(now - before for (_, before), (_, now) in zip(taken[:20], taken[20:], strict=True))
    return ManyAtOnce(len(waits), len(set(waits)), max(most, max(writes for _, writes in taken[:20])))


@dataclass(frozen=True)
class HighLimit:
    calls: int
    writes: int


def high_limit(place: Place, calls: int = 10_000) -> HighLimit:
    """One environment, as fast as 10,000 a minute allow."""
    fleet = place.fleet(1, limit=10_000)
    for _ in range(calls):
        fleet.clock.advance(fleet.first.limiter.take("normal", 15))
    return HighLimit(calls, fleet.writes)
