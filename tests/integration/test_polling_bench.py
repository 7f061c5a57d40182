"""What `bench.polling` prints, in counts and ratios, with fewer boots."""

from collections.abc import Iterator

import pytest

from bench import polling
from bench.pending import quiet
from functions.shared.platform.observability import logger


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    level = logger.log_level
    quiet()
    yield
    logger.setLevel(level)


def test_one_that_waits_is_noticed_in_60_percent_of_the_time_with_no_more_calls() -> None:
    seen = polling.one_at_a_time(150)
    fixed = seen.at_fixed_interval()

    assert seen.mean_delay <= 0.6 * fixed.mean_delay
    assert len(seen.calls) <= len(fixed.calls)


@pytest.mark.parametrize(
    ("waiting", "seconds", "median"),
    [(10, 1800, 240), (100, 500, 240), pytest.param(1000, 80, 45, marks=pytest.mark.soak)],
)
def test_ten_or_more_are_noticed_within_5_seconds_at_a_constant_price(
    waiting: int, seconds: float, median: float
) -> None:
    seen = polling.many_at_a_time(waiting, seconds, median=median)
    fixed = seen.at_fixed_interval()

    assert len(seen.boots) >= 40
    assert seen.mean_delay <= 5
    assert seen.late_delay <= 10
    assert seen.most_calls_in_a_minute <= 30
    assert seen.calls_per_minute < fixed.calls_per_minute


def test_calls_do_not_grow_with_the_number_that_waits_but_with_the_pages() -> None:
    few, many = polling.many_at_a_time(20, 300), polling.many_at_a_time(200, 300)

    assert many.calls_per_minute <= few.calls_per_minute + 3


def test_a_list_without_endpoints_costs_one_get_more_for_each_machine() -> None:
    told = polling.many_at_a_time(50, 300, told=True)
    untold = polling.many_at_a_time(50, 300, told=False)

    assert len(untold.calls) <= len(told.calls) + len(untold.boots) + 5
    assert untold.most_reads_in_a_minute <= 30
    assert untold.mean_delay <= 5
