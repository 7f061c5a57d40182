"""How soon it is noticed that a machine has come up, what that takes of the rate limit, and what it costs.

Boot times are log-normal (median 240 s, sigma 0.3) and drawn by the simulator; those that are measured were
never seen before. Whoever waits alone is asked for by id; the more wait, the more it is the list that tells,
and how far Novita's list lags nobody knows: it is measured without a lag, and with the two seconds that the
simulator has.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import sqrt
from statistics import stdev

from bench import prices
from bench.pending import INTERVAL, MEDIAN_SECONDS, RATE_LIMIT, Figures, Pending, quiet
from bench.table import Row
from infra.budgets import BUDGETS

MOST_CALLS = 0.3 * RATE_LIMIT  # a minute
MOST_SECONDS = {1: 3.0, 10: 3.0, 100: 3.0, 1000: 5.0}  # mean delay, by how many wait
MOST_LAGGING = 5.0  # the same, where the list lags
LAG = 2.0
MOST_GETS = 1.05  # for each machine that comes up, where the list has no endpoints
MOST_WRITES = 0.05  # of a look that tells nobody: the first list, or another number of pages, is kept
LESSONS = 60  # boots before anything is measured
SEED_OF_ONE, SEED_OF_MANY = 11, 12
WAITING = {1: 0.0, 10: 7200.0, 100: 1200.0, 1000: 600.0}  # and for how many seconds

MACHINE_HOUR = 0.35  # USD
# What one look is taken for, beside what is counted: Novita's answer, a little work at a third of a core, and
# AWS's answers. One that asks nobody lacks the first.
LOOK_SECONDS, NOVITA_SECONDS = 0.10, 0.20
SQS_REQUESTS = 2.1  # receive and delete, and a tenth of a batch


def one_at_a_time(boots: int, seed: int = SEED_OF_ONE, **simulator: float) -> Figures:
    pending = Pending(1, seed, **simulator)
    pending.learn(LESSONS)
    return pending.run(lambda figures: len(figures.boots) >= boots)


def many_at_a_time(
    waiting: int,
    seconds: float,
    *,
    told: bool = True,
    seed: int = SEED_OF_MANY,
    median: float = MEDIAN_SECONDS,
    lag: float = LAG,
) -> Figures:
    """`told`: whether the list has endpoints. Where it has not, each machine that has come up costs a get."""
    pending = Pending(waiting, seed, endpoint_in_list=told, boot_seconds=median, list_lag_seconds=lag)
    pending.learn(LESSONS)
    return pending.run_for(seconds, ramp=median)


@dataclass(frozen=True)
class Price:
    """USD for a thousand machines that came up."""

    figures: Figures

    @property
    def looks(self) -> float:
        looks = self.figures.looks
        seconds = looks.taken * LOOK_SECONDS + looks.pages * NOVITA_SECONDS
        total = (
            looks.taken * (prices.LAMBDA_REQUEST + SQS_REQUESTS * prices.SQS_REQUEST)
            + seconds * BUDGETS["monitor"].memory_mb / 1024 * prices.LAMBDA_GB_SECOND
            + looks.table_reads * prices.DYNAMODB_READ_UNIT
            + looks.pages * (prices.DYNAMODB_WRITE_UNIT + prices.DYNAMODB_READ_UNIT)  # the limiter's
        )
        return 1000 * total / len(self.figures.boots)

    @property
    def delay_without(self) -> float:
        """What machines would cost until they are noticed if each were asked for once in the interval, beyond
        what they cost now."""
        sooner = self.figures.at_fixed_interval().mean_delay - self.figures.mean_delay
        return 1000 * sooner * MACHINE_HOUR / 3600


def spread(figures: Figures) -> float:
    """Of the mean: two standard errors."""
    return 2 * stdev(boot.delay for boot in figures.boots) / sqrt(len(figures.boots))


def noticed(waiting: int, figures: Figures) -> Iterator[Row]:
    own, name, looks = figures, f"{waiting:,} waiting", figures.looks
    yield Row(
        "polling",
        f"{name}: noticed after",
        own.mean_delay,
        "s, mean",
        MOST_SECONDS[waiting],
        anchor=f"{own.at_fixed_interval().mean_delay:.1f} s with a look every {INTERVAL:g} s",
        spread=spread(own),
    )
    yield Row("polling", f"{name}: 95 of 100 after", own.late_delay, "s", spread=1.0)
    yield Row("polling", f"{name}: calls in the busiest minute", own.most_calls_in_a_minute, "", MOST_CALLS)
    written = looks.written_by_them / looks.told_nobody
    yield Row("polling", f"{name}: writes of a look that told nobody", written, "", MOST_WRITES)
    price = Price(own)
    yield Row(
        "polling",
        f"{name}: looks of 1,000 boots",
        price.looks,
        "USD",
        price.delay_without,
        anchor=f"the delay would cost {price.delay_without:.2f} USD more without them",
        spread=0.1 * price.looks,
    )


def lagging(waiting: int, figures: Figures) -> Row:
    name = f"{waiting:,} waiting, the list {LAG:g} s late: noticed after"
    return Row("polling", name, figures.mean_delay, "s, mean", MOST_LAGGING, spread=spread(figures))


def without_endpoints(waiting: int, figures: Figures) -> Iterator[Row]:
    """Each machine that comes up costs a get, whatever is done: the sum has no bound, its parts have."""
    own, name = figures, f"{waiting:,} waiting, no endpoints in the list"
    yield Row("polling", f"{name}: noticed after", own.mean_delay, "s, mean", MOST_SECONDS[waiting])
    yield Row(
        "polling", f"{name}: reads of it in the busiest minute", own.most_reads_in_a_minute, "", MOST_CALLS
    )
    yield Row(
        "polling", f"{name}: gets for each that comes up", len(own.gets) / len(own.boots), "", MOST_GETS
    )
    yield Row("polling", f"{name}: calls in the busiest minute", own.most_calls_in_a_minute, "")


def rows() -> Iterator[Row]:
    quiet()
    for waiting, seconds in WAITING.items():
        if waiting == 1:
            yield from noticed(1, one_at_a_time(400))
        else:
            yield from noticed(waiting, many_at_a_time(waiting, seconds, lag=0))
            yield lagging(waiting, many_at_a_time(waiting, seconds))
    for waiting in (10, 100):
        yield from without_endpoints(waiting, many_at_a_time(waiting, WAITING[waiting], told=False, lag=0))
