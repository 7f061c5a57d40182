"""What the rate limiter lets through: steady work, every class at once, bursts, pauses, many writers."""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from heapq import heappop, heappush
from itertools import count, cycle

from bench.environments import CALLER_WAIT, LONGEST_CALL_WAIT, Environment, Fleet, Place
from functions.shared.domain.errors import NotNow
from functions.shared.domain.resilience import SlotClass, SlotRequest

# A steady trickle, and twelve at once in the middle.
DELETES = tuple(float(at) for at in range(10, 240, 5)) + (120.5,) * 12
PATIENCE: dict[SlotClass, float] = {"lookups": CALLER_WAIT, "callers": CALLER_WAIT}


@dataclass(frozen=True)
class Caller:
    """Somebody who asks again as soon as it was served, or is told to; or asks once."""

    environment: Environment
    kind: SlotClass
    ticket: str
    once: bool = False
    patience: float = LONGEST_CALL_WAIT

    @property
    def request(self) -> SlotRequest:
        return SlotRequest(self.kind, self.ticket)


@dataclass
class Traffic:
    """Calls sent, in true seconds since the start, and what each had waited since it was wanted."""

    seconds: float
    by_class: dict[SlotClass, list[float]] = field(default_factory=lambda: defaultdict(list))
    waits: dict[SlotClass, list[float]] = field(default_factory=lambda: defaultdict(list))
    refusals: Counter[SlotClass] = field(default_factory=Counter)
    writes: int = 0

    @property
    def sent(self) -> list[float]:
        return sorted(at for times in self.by_class.values() for at in times)

    @property
    def most_in_60_seconds(self) -> int:
        """Both ends counted in, so a little stricter than a window."""
        return max(bisect_right(self.sent, at + 60) - index for index, at in enumerate(self.sent))

    def per_minute(self, kind: SlotClass | None = None) -> float:
        return len(self.by_class[kind] if kind else self.sent) / self.seconds * 60

    @property
    def writes_per_call(self) -> float:
        return self.writes / len(self.sent)

    def between(self, start: float, end: float, kind: SlotClass | None = None) -> int:
        return sum(start <= at < end for at in (self.by_class[kind] if kind else self.sent))


class Run:
    """Events of one fleet in the order of their time; each asks with the clock set to it."""

    def __init__(self, fleet: Fleet, seconds: float) -> None:
        self.fleet = fleet
        self.result = Traffic(seconds)
        self._start = fleet.clock()
        self._order = count()
        self._due: list[tuple[float, int, Caller, float, float]] = []
        self._pauses: list[tuple[float, float]] = []

    def wants(self, at: float, caller: Caller) -> None:
        heappush(self._due, (at, next(self._order), caller, at, caller.patience))

    def pauses(self, at: float, asked: float) -> None:
        heappush(self._pauses, (at, asked))

    def traffic(self) -> Traffic:
        while self._due and self._due[0][0] < self.result.seconds:
            at, _, caller, since, left = heappop(self._due)
            while self._pauses and self._pauses[0][0] <= at:
                when, asked = heappop(self._pauses)
                self._go_to(when)
                self.fleet.first.limiter.pause(asked)
            self._go_to(at)
            self._ask(at, caller, since, left)
        self.result.writes = self.fleet.writes
        return self.result

    def _ask(self, at: float, caller: Caller, since: float, left: float) -> None:
        try:
            delay = caller.environment.limiter.ask(caller.request, left)
        except NotNow as error:
            self.result.refusals[caller.kind] += 1
            if not caller.once:
                self.wants(at + (error.retry_after or 0.1), caller)
            return
        if delay:
            heappush(self._due, (at + delay, next(self._order), caller, since, left - delay))
            return
        self.result.by_class[caller.kind].append(at)
        self.result.waits[caller.kind].append(at - since)
        if not caller.once:
            self.wants(at + 0.1 + (next(self._order) % 10) / 10, caller)

    def _go_to(self, at: float) -> None:
        self.fleet.clock.now = self._start + timedelta(seconds=at)


def traffic(
    place: Place,
    seconds: float = 600,
    *,
    kinds: tuple[SlotClass, ...] = ("work",),
    deletes: tuple[float, ...] = (),
    pauses: dict[float, float] | None = None,
    skews: tuple[float, ...] = (0.0,),
) -> Traffic:
    """As much of these kinds as there can be, deletes at their times, and 429s with what they ask for."""
    fleet = place.fleet(skews=skews)
    run = Run(fleet, seconds)
    for number, (environment, kind) in enumerate(zip(fleet.environments, cycle(kinds), strict=False)):
        patience = PATIENCE.get(kind, LONGEST_CALL_WAIT)
        run.wants(0.0, Caller(environment, kind, f"worker {number}", patience=patience))
    for number, (at, environment) in enumerate(zip(deletes, cycle(fleet.environments), strict=False)):
        run.wants(at, Caller(environment, "ends", f"delete {number}", once=True))
    for at, asked in (pauses or {}).items():
        run.pauses(at, asked)
    return run.traffic()


# A tenth, 30 %, the rest and at most 20 %: more than enough of each.
EVERYBODY: tuple[SlotClass, ...] = ("work", "looks", "work", "looks", "ends", "callers")


def machines_beside_creates(place: Place, seconds: float) -> Traffic:
    """A thousand creates wait all the time; besides, machines want 28 looks in a minute."""
    fleet = place.fleet()
    run = Run(fleet, seconds)
    for number, environment in enumerate(fleet.environments[:10]):
        run.wants(0.0, Caller(environment, "work", f"create {number}"))
    looks = cycle(fleet.environments[10:])
    for number in range(int(seconds * 28 / 60)):
        run.wants(5 + number * 60 / 28, Caller(next(looks), "looks", f"look {number}", once=True))
    return run.traffic()


def creates_beside_readers(place: Place, seconds: float = 120, crowd: int = 50) -> Traffic:
    """One key reads as fast as the gateway lets it; every 20 s somebody creates, which is five calls."""
    fleet = place.fleet()
    run = Run(fleet, seconds)
    readers, buyers = cycle(fleet.environments[:15]), cycle(fleet.environments[15:])
    for number in range(int(seconds * crowd)):
        run.wants(number / crowd, Caller(next(readers), "callers", f"r{number}", once=True, patience=1.0))
    for create in range(int(seconds / 20)):
        for call in range(5):
            run.wants(10 + create * 20, Caller(next(buyers), "work", f"c{create}.{call}", once=True))
    return run.traffic()


@dataclass(frozen=True)
class Burst:
    went_at_once: int
    most_writes_for_one: int


def burst(place: Place, kind: SlotClass) -> Burst:
    """After a quiet minute all environments send one call in the same moment."""
    fleet = place.fleet()
    for environment in fleet.environments[:10]:  # the others have never called
        environment.limiter.ask(SlotRequest("ends", "before"), 0)
    fleet.clock.advance(60)
    before = [environment.writes for environment in fleet.environments]

    def ask(environment: Environment) -> bool:
        try:
            return environment.limiter.ask(SlotRequest(kind, "now"), 0) == 0
        except NotNow:
            return False

    went = fleet.together(ask)
    writes = (environment.writes for environment in fleet.environments)
    return Burst(sum(went), max(now - was for now, was in zip(writes, before, strict=True)))


@dataclass(frozen=True)
class Rush:
    creates: int
    delete_wait: float
    look_wait: float


def rush_of_creates(place: Place) -> Rush:
    """Creates take all they can for half a minute; then come a delete and a look."""
    fleet = place.fleet()
    run = Run(fleet, 60)
    for number, environment in enumerate(fleet.environments[:-1]):
        run.wants(0.0, Caller(environment, "work", f"create {number}"))
    run.wants(30.0, Caller(fleet.environments[-1], "ends", "delete", once=True))
    run.wants(30.0, Caller(fleet.environments[-1], "looks", "look", once=True))
    seen = run.traffic()
    return Rush(len(seen.by_class["work"]), seen.waits["ends"][0], seen.waits["looks"][0])


@dataclass(frozen=True)
class HighLimit:
    calls: int
    writes: int


def high_limit(place: Place, calls: int = 10_000) -> HighLimit:
    """One environment, as fast as 10,000 a minute allow."""
    fleet = place.fleet(1, limit=10_000)
    for _ in range(calls):
        for delay in _waits(fleet.first):
            fleet.clock.advance(delay)
        fleet.clock.advance(0.006)
    return HighLimit(calls, fleet.writes)


def _waits(environment: Environment) -> Iterator[float]:
    while delay := environment.limiter.ask(SlotRequest("work", "high"), LONGEST_CALL_WAIT):
        yield delay
