"""`python -m tests.explorer.soak --seconds 600`: as deep as so much time allows, on all processors."""

import argparse
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import cpu_count, get_context
from random import Random, SystemRandom

from functions.shared.platform.observability import logger
from tests.explorer.roots import SPECS, Roots, limited_roots, roots
from tests.explorer.search import Bounds, Report, Search, walk
from tests.explorer.world import Budget

LIMITED = "limited"  # a clock ends it
# What each search begins with, what may happen in one history, and its share of the time.
SEARCHES = [
    ("plain", Budget(faults=3, requests=2), 5),
    ("plain", Budget(faults=1, requests=1), 4),
    ("plain", Budget(faults=2, requests=0), 4),
    ("plain", Budget(faults=0, requests=3), 2),
    ("plain", Budget(faults=1, requests=0), 1),
    ("kept on failure", Budget(faults=1, requests=1), 2),
    ("with a health check", Budget(faults=1, requests=1), 2),
    (LIMITED, Budget(faults=1, requests=1), 2),
    (LIMITED, Budget(faults=0, requests=2), 1),
]
_WALKS = 1  # share of the time for long histories of each kind
_LENGTH = 40
_MANY = Budget(faults=15, requests=8)


def search(spec: str, budget: Budget, seconds: float) -> str:
    report = Search(Bounds(seconds=seconds)).run(_beginnings(spec, budget))
    return f"{spec}, {budget.faults} faults, {budget.requests} requests: {report}"


def walks(spec: str, seed: int, seconds: float) -> str:
    logger.setLevel("CRITICAL")  # before anything is done
    begin, end, made = _beginnings(spec, _MANY), time.monotonic() + seconds, 0
    report: Report | None = None
    while time.monotonic() < end and not (report and report.broken):
        report = walk(begin, _LENGTH, Random(seed + made))
        made += 1
    broken = str(report) if report and report.broken else "every promise holds"
    return f"{spec}, {made} histories of {_LENGTH} moves from seed {seed}: {broken}"


def _beginnings(spec: str, budget: Budget) -> Roots:
    return limited_roots(budget) if spec == LIMITED else roots(SPECS[spec], budget)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.explorer.soak", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=None, help="of the long histories")
    parser.add_argument("--processes", type=int, default=cpu_count())
    asked = parser.parse_args(arguments)
    seed = asked.seed if asked.seed is not None else SystemRandom().randrange(1_000_000)
    walked = [*SPECS, LIMITED]
    shares = sum(share for *_, share in SEARCHES) + _WALKS * len(walked)
    second = asked.seconds * asked.processes / shares
    spawn = get_context("spawn")
    with ProcessPoolExecutor(asked.processes, mp_context=spawn, max_tasks_per_child=1) as pool:
        under_way = [pool.submit(search, spec, budget, share * second) for spec, budget, share in SEARCHES]
        under_way += [pool.submit(walks, spec, seed, _WALKS * second) for spec in walked]
        wrong = sum(_told(done.result()) for done in as_completed(under_way))
    return 1 if wrong else 0


def _told(report: str) -> bool:
    print(report, flush=True)  # noqa: T201  # a command prints
    return "BROKEN" in report


if __name__ == "__main__":
    sys.exit(main())
