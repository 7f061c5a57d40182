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


def test_one_that_waits_is_noticed_in_seconds() -> None:
    seen = polling.one_at_a_time(30)

    assert seen.mean_delay <= 3
    assert seen.late_delay <= 5
    assert seen.most_calls_in_a_minute <= 30
    assert seen.looks.told_nobody > 500
    assert seen.looks.written_by_them == 0


@pytest.mark.parametrize(
    ("waiting", "seconds", "median", "most"),
    [(10, 800, 240, 3), (100, 300, 240, 3), pytest.param(1000, 80, 45, 5, marks=pytest.mark.soak)],
)
def test_ten_or_more_are_noticed_in_seconds_at_a_constant_price(
    waiting: int, seconds: float, median: float, most: float
) -> None:
    seen = polling.many_at_a_time(waiting, seconds, median=median, lag=0)
    fixed = seen.at_fixed_interval()

    assert len(seen.boots) >= 20
    assert seen.mean_delay <= most
    assert seen.late_delay <= 2 * most
    assert seen.most_calls_in_a_minute <= 30
    assert waiting == 10 or seen.calls_per_minute < fixed.calls_per_minute
    assert seen.looks.written_by_them <= 0.05 * seen.looks.told_nobody


def test_looks_cost_less_than_the_delay_would() -> None:
    price = polling.Price(polling.one_at_a_time(40))

    assert price.looks < price.delay_without / 2


def test_calls_do_not_grow_with_the_number_that_waits_but_with_the_pages() -> None:
    few, many = polling.many_at_a_time(20, 200), polling.many_at_a_time(200, 200)

    assert many.calls_per_minute <= few.calls_per_minute + 3


def test_a_list_without_endpoints_costs_one_get_more_for_each_machine() -> None:
    untold = polling.many_at_a_time(50, 300, told=False, lag=0)

    assert len(untold.gets) <= polling.MOST_GETS * len(untold.boots) + 5
    assert untold.most_reads_in_a_minute <= 30
    assert untold.mean_delay <= 3
