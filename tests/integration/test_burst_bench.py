"""What `bench.burst` prints of buying, with fewer creates."""

from collections.abc import Iterator

import pytest

from bench.burst import LEAST_USED, MOST_IN_A_MINUTE, buy_all
from functions.shared.platform import wiring
from functions.shared.platform.observability import choose_metrics, logger


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    level = logger.log_level
    yield
    logger.setLevel(level)
    choose_metrics("all")
    wiring.use(None)


def test_creates_at_once_are_bought_as_fast_as_the_limit_allows() -> None:
    seen = buy_all(100)

    assert seen.number == 100
    assert seen.used >= LEAST_USED
    assert seen.most_in_a_minute <= MOST_IN_A_MINUTE
