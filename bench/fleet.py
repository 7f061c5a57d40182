"""Twenty environments that share one table, on a virtual clock: what the breaker and the limiter let through.

`python -m bench.fleet` starts an emulator of DynamoDB and prints a figure for each promise.
"""

import logging
import sys
from collections.abc import Iterator
from dataclasses import dataclass

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
from functions.shared.platform.observability import logger


@dataclass(frozen=True)
class Figure:
    promise: str
    measured: str
    bound: str
    holds: bool


def figures(place: Place) -> Iterator[Figure]:
    dead = max((stampede(place) for _ in range(5)), key=lambda one: one.calls)
    yield Figure(
        "calls to a dead Novita before all stop", f"{dead.calls}", f"≤ {dead.bound}", dead.calls <= dead.bound
    )
    still = while_open(place)
    once = still.probes <= still.periods and not still.probes_before_time
    yield Figure("probes in the open periods", f"{still.probes} in {still.periods}", "≤ 1 each", once)
    gap, least = still.shortest_gap_seconds, POLICY.recovery_timeout
    yield Figure("shortest time between two probes", f"{gap:.1f} s", f"≥ {least:g} s", gap >= least)
    back = recovery(place)
    in_time = back.resumed == ENVIRONMENTS and back.last_after_seconds <= POLICY.cache_seconds
    within = f"all {ENVIRONMENTS} ≤ {POLICY.cache_seconds:g} s"
    yield Figure("resumed after closing", f"{back.resumed} in {back.last_after_seconds:g} s", within, in_time)
    stale = stale_prober(place)
    yield Figure("states moved by a stale prober", f"{stale.moved} of {stale.reports}", "0", stale.moved == 0)
    gone = unreachable()
    passed = [name for name in ("reads", "starts", "deletes", "creates") if getattr(gone, name)]
    as_told = passed == ["reads", "starts", "deletes"]
    yield Figure("go out without the table", ", ".join(passed), "no creates", as_told)
    well = healthy(place)
    yield Figure(f"writes in {well.calls:,} healthy calls", f"{well.writes}", "0", well.writes == 0)
    few, lifetimes = well.most_reads <= well.lifetimes, f"{well.lifetimes} cache lifetimes"
    yield Figure(f"reads in {lifetimes}", f"{well.most_reads}", f"≤ {well.lifetimes}", few)
    yield from limiter_figures(place)


def limiter_figures(place: Place) -> Iterator[Figure]:
    busy = traffic(place, 600)
    yield Figure("calls a minute, enough work", f"{busy.per_minute():.1f}", "≥ 95", busy.per_minute() >= 95)
    mixed = traffic(place, 240, kinds=EVERYBODY, deletes=DELETES, skews=(-30.0, 0.0, 30.0))
    top = max(busy.most_in_60_seconds, mixed.most_in_60_seconds)
    yield Figure("most in any 60 s, clocks 30 s off either way", f"{top}", "≤ 105", top <= 105)
    yield Figure("table writes for a call", f"{busy.writes_per_call:.2f}", "≤ 4", busy.writes_per_call <= 4)
    shares = {kind: mixed.per_minute(kind) for kind in ("ends", "looks", "work", "callers")}
    kept = shares["ends"] >= 10 and shares["looks"] >= 30 and shares["work"] >= 40 and shares["callers"] <= 20
    told = ", ".join(f"{kind} {number:.0f}" for kind, number in shares.items())
    yield Figure("a minute, if all want more than their share", told, "10, 30, 40, ≤ 20", kept)
    for kind in ("looks", "work", "callers"):
        at_once = burst(place, kind)
        yield Figure(
            f"{kind} at once after a quiet minute",
            f"{at_once.went_at_once}",
            "20",
            at_once.went_at_once == 20,
        )
    rush = rush_of_creates(place)
    yield Figure("a delete behind a rush of creates", f"{rush.delete_wait:g} s", "0 s", rush.delete_wait == 0)
    yield Figure("a look behind it", f"{rush.look_wait:.1f} s", "≤ 2 s", rush.look_wait <= 2)
    machines = machines_beside_creates(place, 180)
    late = max(machines.waits["looks"])
    none = not machines.refusals["looks"]
    yield Figure(
        "longest wait of 28 looks a minute beside creates", f"{late:.1f} s", "≤ 7 s", none and late <= 7
    )
    crowd = creates_beside_readers(place)
    waited = max(crowd.waits["work"])
    yield Figure("a create's wait beside 50 reads a second", f"{waited:g} s", "0 s", waited == 0)
    slowed = traffic(place, 90, pauses={30.0: 20.0})
    during = slowed.between(30.001, 50)
    yield Figure("calls in the 20 s after a 429 asked for 20 s", f"{during}", "0", during == 0)
    high = high_limit(place)
    cheap = high.writes <= high.calls / 20
    yield Figure(f"writes for {high.calls:,} calls at 10,000/min", f"{high.writes}", "≤ 500", cheap)


def main() -> int:
    logger.setLevel(logging.ERROR)  # the table that is not there is meant
    with emulator() as place:
        good = True
        for figure in figures(place):
            mark = "ok" if figure.holds else "NO"
            print(f"{mark}  {figure.promise:<46} {figure.measured:>26}   {figure.bound}", flush=True)
            good &= figure.holds
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
