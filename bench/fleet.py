"""Twenty environments that share one table, on a virtual clock: what the breaker and the limiter let through.

A row for each promise, counted over an emulator of DynamoDB.
"""

import logging
from collections.abc import Iterator

from bench.breaking import healthy, recovery, stale_prober, stampede, unreachable, while_open
from bench.environments import (
    ENVIRONMENTS,
    POLICY,
    Place,
    emulator,
)
from bench.limiting import (
    DELETES,
    EVERYBODY,
    burst,
    creates_beside_readers,
    high_limit,
    machines_beside_creates,
    rush_of_creates,
    traffic,
)
from bench.table import Row
from functions.shared.domain.resilience import SlotClass
from functions.shared.platform.observability import logger

GROUP = "fleet"
SHARES: dict[SlotClass, int] = {"ends": 10, "looks": 30, "work": 40}
AT_ONCE: tuple[SlotClass, ...] = ("looks", "work", "callers")


def count(name: str, value: float, bound: float, unit: str = "", *, least: bool = False) -> Row:
    return Row(GROUP, name, value, unit, bound, least)


def rows() -> Iterator[Row]:
    logger.setLevel(logging.ERROR)  # the table that is not there is meant
    with emulator() as place:
        yield from breaker(place)
        yield from limiter(place)


def breaker(place: Place) -> Iterator[Row]:
    dead = max((stampede(place) for _ in range(5)), key=lambda one: one.calls)
    yield count("calls to a dead Novita before all stop", dead.calls, dead.bound)
    still = while_open(place)
    yield count("probes in an open period", still.probes / still.periods, 1)
    yield count("probes before the time", still.probes_before_time, 0)
    gap = still.shortest_gap_seconds
    yield count("shortest time between two probes", gap, POLICY.recovery_timeout, "s", least=True)
    back = recovery(place)
    yield count("resumed after closing", back.resumed, ENVIRONMENTS, "environments", least=True)
    yield count("the last of them", back.last_after_seconds, POLICY.cache_seconds, "s")
    yield count("states moved by a stale prober", stale_prober(place).moved, 0)
    gone = unreachable()
    yield count("creates that go out without the table", gone.creates, 0)
    others = gone.reads + gone.starts + gone.deletes
    yield count("of reads, starts and deletes go out without it", others, 3, "kinds", least=True)
    well = healthy(place)
    yield count(f"writes in {well.calls:,} healthy calls", well.writes, 0)
    yield count("reads in a lifetime of the cache", well.most_reads / well.lifetimes, 1)


def limiter(place: Place) -> Iterator[Row]:
    busy = traffic(place, 600)
    yield count("calls, enough work", busy.per_minute(), 95, "a minute", least=True)
    mixed = traffic(place, 240, kinds=EVERYBODY, deletes=DELETES, skews=(-30.0, 0.0, 30.0))
    top = max(busy.most_in_60_seconds, mixed.most_in_60_seconds)
    yield count("most in any 60 s, clocks 30 s off either way", top, 105, "calls")
    yield count("table writes for a call", busy.writes_per_call, 4)
    for kind, least in SHARES.items():
        share = mixed.per_minute(kind)
        yield count(f"{kind}, if all want more than their share", share, least, "a minute", least=True)
    callers = mixed.per_minute("callers")
    yield count("callers, if all want more than their share", callers, 20, "a minute")
    for kind in AT_ONCE:
        went = burst(place, kind).went_at_once
        yield count(f"{kind} at once after a quiet minute", went, 20, "calls", least=True)
    rush = rush_of_creates(place)
    yield count("a delete waits behind a rush of creates", rush.delete_wait, 0, "s")
    yield count("a look waits behind it", rush.look_wait, 2, "s")
    machines = machines_beside_creates(place, 180)
    yield count("longest wait of 28 looks a minute beside creates", max(machines.waits["looks"]), 7, "s")
    yield count("of them refused", machines.refusals["looks"], 0)
    crowd = creates_beside_readers(place)
    yield count("a create waits beside 50 reads a second", max(crowd.waits["work"]), 0, "s")
    slowed = traffic(place, 90, pauses={30.0: 20.0})
    yield count("calls in the 20 s after a 429 asked for 20 s", slowed.between(30.001, 50), 0)
    high = high_limit(place)
    yield count(f"writes for {high.calls:,} calls at 10,000 a minute", high.writes, high.calls / 20)
