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
from bench.limiting import DELETES, burst_of_creates, high_limit, many_at_once, traffic
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
    busy = traffic(place, 600)
    enough = busy.per_minute >= 95
    yield Figure("calls a minute, enough work, 10 min", f"{busy.per_minute:.1f}", "≥ 95", enough)
    mixed = traffic(place, 240, deletes=DELETES)
    top = max(busy.most_in_60_seconds, mixed.most_in_60_seconds)
    yield Figure("most calls in any 60 s, with deletes", f"{top}", "≤ 105", top <= 105)
    yield Figure("table writes for a call", f"{mixed.writes_per_call:.2f}", "≤ 3", mixed.writes_per_call <= 3)
    rush = burst_of_creates(place)
    waiting = f"{rush.delete_wait:g} s, creates {rush.longest_create_wait:.1f} s"
    yield Figure("a delete behind a burst of creates", waiting, "0 s", rush.delete_wait == 0)
    yield Figure("a look behind it", f"{rush.look_wait:.1f} s", "≤ 7 s", rush.look_wait <= 7)
    slowed = traffic(place, 90, pauses={30.0: 20.0})
    during = slowed.between(30.001, 50)
    yield Figure("calls in the 20 s after a 429 asked for 20 s", f"{during}", "0", during == 0)
    met = many_at_once(place)
    apart = met.different == met.slots and met.most_writes_for_one <= 3
    tries = f"{met.different} of {met.slots} apart, {met.most_writes_for_one} writes"
    yield Figure("slots of 20 writers at once", tries, "all apart, ≤ 3", apart)
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
