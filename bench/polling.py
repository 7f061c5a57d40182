"""What it costs to learn that machines have come up, and how late it is: beside one call for each every 30 s.

`python -m bench.polling` prints a line for 1, 10, 100 and 1,000 instances that wait at any time. Boot times
are log-normal (median 240 s, sigma 0.3) and drawn by the simulator; those that are measured were never seen
before.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass

from bench.pending import INTERVAL, MEDIAN_SECONDS, RATE_LIMIT, SIGMA, Figures, Pending, quiet
from bench.table import Row

MOST_CALLS = 0.3 * RATE_LIMIT  # a minute
MOST_OF_FIXED = 0.6  # of the mean delay that the fixed interval has, for one that waits
MOST_SECONDS = 5.0  # mean delay, for ten or more
MOST_GETS = 1.02  # for each machine that comes up, where the list has no endpoints
LESSONS = 60  # boots before anything is measured
SEEDS_OF_ONE, SEED_OF_MANY = (11, 107, 305), 12


def one_at_a_time(boots: int, seed: int = SEEDS_OF_ONE[0]) -> Figures:
    pending = Pending(1, seed)
    pending.learn(LESSONS)
    return pending.run(lambda figures: len(figures.boots) >= boots)


def many_at_a_time(
    waiting: int,
    seconds: float,
    *,
    told: bool = True,
    seed: int = SEED_OF_MANY,
    median: float = MEDIAN_SECONDS,
) -> Figures:
    """`told`: whether the list has endpoints. Where it has not, each machine that has come up costs a get."""
    pending = Pending(waiting, seed, endpoint_in_list=told, boot_seconds=median)
    pending.learn(LESSONS)
    return pending.run_for(seconds, ramp=median)


@dataclass(frozen=True)
class Line:
    figures: Figures
    told: bool

    @property
    def broken(self) -> list[str]:
        """What was promised and does not hold."""
        too_many = self.figures.most_calls_in_a_minute > MOST_CALLS
        return [f"more than {MOST_CALLS:g} calls in 60 s"] * too_many + self.wrong

    @property
    def wrong(self) -> list[str]:
        """Of that, what could be helped: the gets that a list without endpoints makes necessary cannot."""
        own, fixed = self.figures, self.figures.at_fixed_interval()
        broken = []
        if self.told and own.most_calls_in_a_minute > MOST_CALLS:
            broken.append("although the list tells everything")
        if own.most_reads_in_a_minute > MOST_CALLS:
            broken.append(f"more than {MOST_CALLS:g} reads of the list in 60 s")
        if not self.told and len(own.gets) > MOST_GETS * len(own.boots):
            broken.append("more than one get for each machine that came up")
        if own.pending == 1 and own.mean_delay > MOST_OF_FIXED * fixed.mean_delay:
            broken.append(f"later than {MOST_OF_FIXED:.0%} of the fixed interval")
        if own.pending == 1 and len(own.calls) > len(fixed.calls):
            broken.append("more calls than the fixed interval")
        if own.pending >= 10 and own.mean_delay > MOST_SECONDS:
            broken.append(f"later than {MOST_SECONDS:g} s")
        return broken

    def __str__(self) -> str:
        own, fixed = self.figures, self.figures.at_fixed_interval()
        gets = f"{own.most_reads_in_a_minute} reads in 60 s, {len(own.gets):,} gets in all"
        return (
            f"{'NO' if self.broken else 'ok':<4}{own.pending:>7,}{len(own.boots):>8,}"
            f"{own.calls_per_minute:>11.1f}{own.most_calls_in_a_minute:>9}"
            f"{own.mean_delay:>9.1f}{own.late_delay:>8.1f}"
            f"{fixed.calls_per_minute:>14,.1f}{fixed.mean_delay:>9.1f}{fixed.late_delay:>8.1f}"
            f"   {'; '.join([*self.broken, *([] if self.told else [gets])])}"
        )


def lines() -> Iterator[Line]:
    for seed in SEEDS_OF_ONE:
        yield Line(one_at_a_time(400, seed), told=True)
    for waiting, seconds in ((10, 7200), (100, 1200), (1000, 600)):
        yield Line(many_at_a_time(waiting, seconds), told=True)


def lines_without_endpoints() -> Iterator[Line]:
    """Not for one, which is asked for by id anyway, nor for 1,000: the limit does not carry their gets."""
    for waiting, seconds in ((10, 7200), (100, 1200)):
        yield Line(many_at_a_time(waiting, seconds, told=False), told=False)


HEADER = (
    f"{'':<4}{'waiting':>7}{'boots':>8}{'calls/min':>11}{'in 60 s':>9}{'mean s':>9}{'95 % s':>8}"
    f"{'| calls/min':>14}{'mean s':>9}{'95 % s':>8}   | one call for each every {INTERVAL:g} s"
)


def rows() -> Iterator[Row]:
    quiet()
    for line in [*lines(), *lines_without_endpoints()]:
        own, name = line.figures, f"{line.figures.pending:,} waiting"
        if not line.told:
            name += ", no endpoints in the list"
        bound = MOST_SECONDS if own.pending >= 10 else MOST_OF_FIXED * own.at_fixed_interval().mean_delay
        yield Row("polling", f"{name}: noticed after", own.mean_delay, "s, mean", bound, spread=0.2)
        yield Row("polling", f"{name}: broken promises", len(line.wrong), "", 0)


def main() -> int:
    quiet()
    print(f"boots: median {MEDIAN_SECONDS:g} s, sigma {SIGMA}, {LESSONS} seen before;", end=" ")
    print(f"seeds {SEEDS_OF_ONE} (one) and {SEED_OF_MANY} (many)")
    print(f"calls: at most {MOST_CALLS:g} in 60 s of the {RATE_LIMIT} that Novita allows")
    print(HEADER)
    good = True
    for line in lines():
        print(line, flush=True)
        good &= not line.wrong
    print(
        "where the list has no endpoints, each machine that comes up costs one get more, whatever is done;\n"
        "a NO for the sum of calls is that price, and fails nothing here; too many reads or gets would:"
    )
    for line in lines_without_endpoints():
        print(line, flush=True)
        good &= not line.wrong
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
