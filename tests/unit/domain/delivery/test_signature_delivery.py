"""What follows from one attempt to deliver a webhook."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.shared.domain.delivery.webhooks import (
    DeliveryState,
    after_attempt,
    read_waits,
)

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
WAITS = read_waits("5,300,1800,7200,18000,36000,50400,72000,86400")


Outcome = tuple[DeliveryState, datetime | None]


def judged(status: int | None, retry_after: str = "", attempt: int = 1, chance: float = 0.5) -> Outcome:
    headers = {"Retry-After": retry_after} if retry_after else {}
    return after_attempt(status, headers, now=NOW, attempt=attempt, waits=WAITS, random=lambda: chance)


def wait_of(verdict: Outcome) -> float:
    state, again_at = verdict
    assert state is DeliveryState.PENDING
    assert again_at
    return (again_at - NOW).total_seconds()


@pytest.mark.parametrize("status", [200, 201, 204, 299])
def test_any_2xx_is_delivered(status: int) -> None:
    assert judged(status, attempt=99) == (DeliveryState.DELIVERED, None)


def test_gone_ends_it_for_good() -> None:
    assert judged(410) == (DeliveryState.ENDED, None)
    assert judged(410, attempt=99) == (DeliveryState.ENDED, None)


@pytest.mark.parametrize("status", [None, 101, 301, 302, 307, 400, 404, 429, 500, 503])
def test_everything_else_is_tried_again(status: int | None) -> None:
    assert wait_of(judged(status)) == 5


def test_the_waits_follow_the_schedule_and_then_it_is_exhausted() -> None:
    assert [wait_of(judged(500, attempt=number)) for number in range(1, 10)] == list(WAITS)
    assert judged(500, attempt=10) == (DeliveryState.EXHAUSTED, None)
    assert judged(503, "10", attempt=10) == (DeliveryState.EXHAUSTED, None)


@given(st.floats(0, 1, exclude_max=True), st.integers(1, 9))
def test_jitter_stays_within_a_tenth(chance: float, attempt: int) -> None:
    wait = wait_of(judged(500, attempt=attempt, chance=chance))

    assert WAITS[attempt - 1] * 0.9 <= wait + 1e-5
    assert wait <= WAITS[attempt - 1] * 1.1 + 1e-5


@pytest.mark.parametrize(
    ("retry_after", "wait"),
    [
        ("Mon, 01 Jan 2020 00:00:00 +99999999999999999999", 5),
        ("Fri, 31 Dec 9999 23:59:59 -2359", 24 * 3600),
        ("120", 120),
        (" 120 ", 120),
        ("1", 5),  # never sooner than the schedule
        ("0", 5),
        ("Sun, 01 Mar 2026 12:10:00 GMT", 600),
        ("Sun, 01 Mar 2026 12:10:00 -0000", 600),
        ("Sun, 01 Mar 2026 11:00:00 GMT", 5),
        ("172800", 86400),  # a day at most
        ("9" * 5000, 86400),
        ("Fri, 31 Dec 9999 23:59:59 GMT", 86400),
        ("-5", 5),
        ("soon", 5),
        ("١٢٠", 5),
        ("", 5),
    ],
)
@pytest.mark.parametrize("status", [429, 503])
def test_retry_after_is_kept(status: int, retry_after: str, wait: float) -> None:
    assert wait_of(judged(status, retry_after)) == wait


def test_retry_after_counts_only_with_429_and_503() -> None:
    assert wait_of(judged(500, "120")) == 5


def test_header_names_are_found_in_any_case() -> None:
    verdict = after_attempt(429, {"retry-after": "60"}, now=NOW, attempt=1, waits=WAITS, random=lambda: 0.5)

    assert verdict == (DeliveryState.PENDING, NOW + timedelta(seconds=60))


@pytest.mark.parametrize("text", ["5,-1", "nan", "5,x", "inf"])
def test_a_schedule_that_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"wait|float"):
        read_waits(text)
