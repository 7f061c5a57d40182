"""How much of a create's time is our own: what is left of it without the table, the queue and Novita.

make bench, or: python -m bench.creating
"""

import logging
import os
import statistics
import sys
from collections.abc import Iterator

from moto import mock_aws

from bench.fleet import Figure
from functions.shared.platform.observability import logger
from local.novita.process import running
from tests.unit.api.api import Answer, Api, create_body  # the real handler over a table in memory

CREATES = 100
BOUND_MS = 100


def parts(answer: Answer) -> dict[str, float]:
    """By its Server-Timing, in milliseconds."""
    given = (part.split(";dur=") for part in answer.headers["Server-Timing"].split(", "))
    return {part: float(spent) for part, spent in given}


def own(spent: dict[str, float]) -> float:
    return spent["total"] - spent.get("table", 0) - spent.get("queue", 0) - spent.get("novita", 0)


def figures() -> Iterator[Figure]:
    with mock_aws(), running() as simulator:
        simulator.settings(latencyMs=200)
        api = Api()
        api.restart(NOVITA_API_BASE_URL=simulator.api_url)
        api.post(create_body())  # whatever a process does once
        api.restart(NOVITA_API_BASE_URL=simulator.api_url, PRODUCTS_TTL="0.001", TEMPLATES_TTL="0.001")
        uncached = parts(api.post(create_body()))
        api.restart(NOVITA_API_BASE_URL=simulator.api_url)
        api.post(create_body())
        times = [own(parts(api.post(create_body()))) for _ in range(CREATES)]
    told = ", ".join(f"{part} {spent:.0f}" for part, spent in uncached.items())
    yield Figure("ms of an uncached create, by part", told, "Novita's 200", uncached["catalog"] >= 200)
    median, most = statistics.median(times), sorted(times)[int(CREATES * 0.95)]
    yield Figure(
        "ms of our own in a cached create, median", f"{median:.1f}", f"< {BOUND_MS}", median < BOUND_MS
    )
    yield Figure("the same, 95 of 100", f"{most:.1f}", f"< {BOUND_MS}", most < BOUND_MS)


def main() -> int:
    logger.setLevel(logging.CRITICAL)  # the queue that is not there is meant
    os.environ.setdefault("AWS_DEFAULT_REGION", "us-east-1")
    good = True
    for figure in figures():
        mark = "ok" if figure.holds else "NO"
        print(f"{mark}  {figure.promise:<46} {figure.measured:>26}   {figure.bound}", flush=True)
        good &= figure.holds
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
