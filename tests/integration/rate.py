"""How many calls Novita had."""

from bisect import bisect_right

from tests.integration.harness import Harness


def most_in_a_minute(harness: Harness) -> int:
    times = sorted(call["time"] for call in harness.simulator.calls())
    return max(bisect_right(times, at + 60) - number for number, at in enumerate(times))
