"""Crash points: calls at which a function dies, or is interrupted, taken from a recording of a run.

What a crash before a call leaves behind is what a crash after the call before it leaves, and a read leaves
nothing. So a function dies after the effect of each write, before each read, and before its first call, and
with that it has died on both sides of each; OSTLER_EVERY_SIDE=1 tries both sides of every call all the same.
"""

import os
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tests.integration import tally
from tests.integration.harness import Harness
from tests.integration.wire import Killed, Made

# Nothing is remembered, neither by the process nor by the table, so that every run makes the same calls.
FORGETFUL = {
    "PRODUCTS_TTL": "0",
    "TEMPLATES_TTL": "0",
    "OFFER_MAX_AGE": "0",
    "SHARE_LIST_FROM": "100000",  # however many are due at once, each is asked for by its id
    "BREAKER_FAILURE_THRESHOLD": "1000",  # nor does one wait for the faults of another
    "SETTLE_SECONDS": "40",
}
# What is around every call and every Novita call alike: one crash in each handler is enough.
AROUND = ("circuit/", "limiter/", "count/", "key/", "GetItem answer/", "cache/", "GetSecretValue")
ONLY_COLD = (
    *AROUND,
    "novita GET /products",
    "novita GET /clusters",
    "novita GET /template",
    "deployment/",
    "GetItem switch/",  # held for five seconds by whoever has read it for another instance
)
EVERY_SIDE = bool(os.environ.get("OSTLER_EVERY_SIDE"))
MOST_ALIKE = 99 if EVERY_SIDE else 2  # times that a poll or an announcement is like the one before it


@dataclass(frozen=True)
class Point:
    handler: str
    call: str
    occurrence: int
    after: bool

    @property
    def harmless(self) -> bool:
        """It leaves nothing behind."""
        return not self.after or is_one(self.call, AROUND)

    def __str__(self) -> str:
        return f"{self.handler} dies {'after' if self.after else 'before'} {self.call} ({self.occurrence})"


def points(calls: Iterable[Made]) -> list[Point]:
    seen: Counter[tuple[str, str]] = Counter()
    found, invocation = [], 0
    for made in calls:
        seen[made.handler, made.name] += 1
        nth = seen[made.handler, made.name]
        if nth <= MOST_ALIKE and (nth == 1 or EVERY_SIDE or not is_one(made.name, AROUND)):
            first = made.invocation != invocation
            if first or not made.writes or EVERY_SIDE:
                found.append(Point(made.handler, made.name, nth, after=False))
            if made.writes or EVERY_SIDE:
                found.append(Point(made.handler, made.name, nth, after=True))
        invocation = made.invocation
    return found


def is_one(call: str, those: tuple[str, ...]) -> bool:
    return any(word in call for word in those)


def lives(found: list[Point]) -> list[list[Point]]:
    """The crashes of one instance each. Some that leave nothing behind may follow each other: three of a
    message before it would be a dead letter, any number of a request that is repeated or of a sweep."""
    shared: list[list[Point]] = []
    for point in found:
        last = shared[-1] if shared else []
        most = 99 if point.handler in ("api", "sweep") else 3
        alike = last and last[-1].handler == point.handler and len(last) < most and not EVERY_SIDE
        if alike and last[-1].harmless and point.harmless:
            last.append(point)
        else:
            shared.append([point])
    return shared


class Crashes:
    """Which function crashes at which call, in this order."""

    def __init__(self, harness: Harness) -> None:
        self.harness = harness
        self.planned: dict[str, list[Point]] = {}
        self._made: dict[str, Counter[tuple[str, str]]] = {}
        self._begun: dict[str, tuple[int, Counter[tuple[str, str]]]] = {}
        self._dead = 0
        harness.wire.before = self._before
        harness.wire.after = self._after
        harness.cold = self._begins_cold

    def end(self) -> None:
        """Every planned crash has happened: a recorded call that was never reached is an error."""
        self.harness.wire.before = self.harness.wire.after = None
        never = [str(point) for points in self.planned.values() for point in points]
        assert never == [], f"never reached: {never}"

    def plan(self, about: str, crashes: list[Point]) -> None:
        self.planned[about] = list(crashes)
        self._made[about] = Counter()

    def rename(self, about: str, instance_id: str) -> None:
        """Crashes that did not happen in the request happen later, under the instance's id."""
        if about != instance_id:
            self.plan(instance_id, self.planned.pop(about))

    def _begins_cold(self, about: str) -> bool:
        return any(is_one(point.call, ONLY_COLD) for point in self.planned.get(about, []))

    def _before(self, made: Made) -> None:
        if made.invocation == self._dead:  # another thread of a function that has died
            raise Killed
        if made.about not in self.planned:
            return
        counts = self._made[made.about]
        if self._begun.get(made.about, (0, counts))[0] != made.invocation:
            self._begun[made.about] = (made.invocation, counts.copy())
        counts[made.handler, made.name] += 1
        self._strike(made, after=False)

    def _after(self, made: Made) -> None:
        if made.about in self.planned:
            self._strike(made, after=True)

    def _strike(self, made: Made, *, after: bool) -> None:
        crashes = self.planned[made.about]
        nth = self._made[made.about][made.handler, made.name]
        if crashes and crashes[0] == Point(made.handler, made.name, nth, after):
            crashes.pop(0)
            tally.add(tally.KILL_POINTS)
            self._dead = made.invocation
            self._made[made.about] = self._begun[made.about][1].copy()  # it begins anew
            raise Killed


def sides(calls: Iterable[Made]) -> list[Point]:
    """Before each call of a handler and after the effect of each that has one, without what is around all."""
    return [
        Point(point.handler, point.call, point.occurrence, after)
        for point in points(calls)
        for after in ((False, True) if point.after else (False,))
        if not is_one(point.call, AROUND)
    ]


class Interruptions:
    """What happens elsewhere, to its end, while a function is at one of its calls."""

    def __init__(self, harness: Harness) -> None:
        self._harness = harness
        self._planned: dict[str, tuple[Point, Callable[[], object]]] = {}
        self._counts: Counter[tuple[str, str, str]] = Counter()
        harness.wire.before = self._before
        harness.wire.after = self._after

    def plan(self, about: str, point: Point, work: Callable[[], object]) -> None:
        """At that call of what is asked for from now on."""
        self._planned[about] = (point, work)
        self._counts = Counter({key: count for key, count in self._counts.items() if key[0] != about})

    def end(self) -> None:
        self._harness.wire.before = self._harness.wire.after = None
        never = [str(point) for point, _ in self._planned.values()]
        assert never == [], f"never reached: {never}"

    def _before(self, made: Made) -> None:
        self._counts[made.about, made.handler, made.name] += 1
        self._happen(made, after=False)

    def _after(self, made: Made) -> None:
        self._happen(made, after=True)

    def _happen(self, made: Made, *, after: bool) -> None:
        nth = self._counts[made.about, made.handler, made.name]
        point, work = self._planned.get(made.about, (None, None))
        if work and point == Point(made.handler, made.name, nth, after):
            del self._planned[made.about]
            self._harness.elsewhere(work)
