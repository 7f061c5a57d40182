from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from botocore.exceptions import EndpointConnectionError

from functions.shared.domain.errors import NotNow
from functions.shared.engine.catalog import BEGIN_SECONDS
from functions.shared.stores.rate_limiter import Lane, RateLimiter
from functions.shared.stores.table import Table

NOBODY = EndpointConnectionError(endpoint_url="http://127.0.0.1:9")


class Client:
    def __init__(self, client: Any) -> None:
        self._client = client
        self.calls: Counter[str] = Counter()
        self.fault: Exception | None = None

    def __getattr__(self, name: str) -> Any:
        def call(**arguments: Any) -> Any:
            self.calls[name] += 1
            if self.fault:
                raise self.fault
            return getattr(self._client, name)(**arguments)

        return call


class Harness:
    def __init__(self, table: Table) -> None:
        self._table = table
        self.now = datetime(2030, 1, 1, tzinfo=UTC)

    def environment(self, per_minute: int = 100) -> tuple[RateLimiter, Client]:
        client: Any = Client(self._table.client)
        return RateLimiter(client, self._table.name, per_minute, lambda: self.now), client

    def pass_time(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


@pytest.fixture
def harness(table: Table) -> Harness:
    return Harness(table)


def test_environments_follow_each_other(harness: Harness) -> None:
    one, other = harness.environment()[0], harness.environment()[0]

    waits = [one.take("normal", 5), other.take("normal", 5), one.take("normal", 5), other.take("normal", 5)]

    assert waits == [0, 0.625, 1.25, 1.875]


def test_a_caller_who_may_not_wait_is_told_when_to_come_back(harness: Harness) -> None:
    limiter, _ = harness.environment()
    limiter.take("normal", 0)

    with pytest.raises(NotNow) as refusal:
        limiter.take("normal", 0.5)

    assert (refusal.value.code, refusal.value.retry_after) == ("RATE_LIMIT_EXCEEDED", 0.625)
    harness.pass_time(0.625)
    assert limiter.take("normal", 0) == 0


def test_a_refusal_that_is_already_known_costs_nothing(harness: Harness) -> None:
    limiter, client = harness.environment()
    limiter.take("normal", 0)
    before = client.calls.total()

    for _ in range(10):
        with pytest.raises(NotNow):
            limiter.take("normal", 0)

    assert client.calls.total() == before


def test_nobody_waits_longer_than_fifteen_seconds(harness: Harness) -> None:
    limiter, _ = harness.environment()

    waits = [limiter.take("normal", 3600) for _ in range(25)]

    assert waits[-1] == 15
    with pytest.raises(NotNow):
        limiter.take("normal", 3600)


def test_a_delete_does_not_wait_behind_creates(harness: Harness) -> None:
    busy, other = harness.environment()[0], harness.environment()[0]
    for _ in range(20):
        busy.take("normal", 15)

    assert [other.take("urgent", 15) for _ in range(6)] == [0, 0, 0, 0, 0, 6]


def test_the_whole_fleet_keeps_a_pause(harness: Harness) -> None:
    one, other = harness.environment()[0], harness.environment()[0]
    other.take("normal", 0)

    one.pause(8)

    assert one.take("urgent", 15) == 8
    assert other.take("normal", 15) == 8.625
    with pytest.raises(NotNow) as refusal:
        harness.environment()[0].take("normal", 2)
    assert refusal.value.retry_after == 9.25


@pytest.mark.parametrize("kind", ["normal", "urgent"])
def test_a_pause_reaches_those_who_have_slots_ahead(harness: Harness, kind: Lane) -> None:
    one, other = harness.environment()[0], harness.environment()[0]
    for _ in range(5):
        other.take("normal", 15)

    one.pause(8)

    assert other.take(kind, 15) == 8


def test_a_queue_that_grew_since_we_looked_takes_no_slot_from_who_may_not_wait(harness: Harness) -> None:
    one, other = harness.environment()[0], harness.environment()[0]
    one.take("normal", 0)
    one.take("normal", 1)
    for _ in range(8):
        other.take("normal", 15)

    with pytest.raises(NotNow) as refusal:
        one.take("normal", 2)

    assert refusal.value.retry_after == 6.25
    assert other.take("normal", 15) == 6.25


def test_a_shorter_pause_does_not_end_a_longer_one(harness: Harness) -> None:
    one, other = harness.environment()[0], harness.environment()[0]
    one.pause(10)

    other.pause(1)
    harness.pass_time(2)

    assert other.paused()
    assert other.take("normal", 15) == 8


def test_a_pause_before_anybody_has_called_is_kept_too(harness: Harness) -> None:
    harness.environment()[0].pause(3)

    assert harness.environment()[0].take("normal", 15) == 3


def test_whoever_waits_when_a_pause_comes_takes_another_slot(harness: Harness) -> None:
    waiting, other = harness.environment()[0], harness.environment()[0]
    waiting.take("normal", 0)
    waits = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 1:
            other.pause(4)
        harness.pass_time(seconds)

    waiting.enter("normal", 10, wait)

    assert waits == [0.625, 3.375]


def test_whoever_waits_is_told_to_come_back_when_the_pause_is_too_long(harness: Harness) -> None:
    waiting, other = harness.environment()[0], harness.environment()[0]
    waiting.take("normal", 0)

    def wait(seconds: float) -> None:
        other.pause(60)
        harness.pass_time(seconds)

    with pytest.raises(NotNow) as refusal:
        waiting.enter("normal", 10, wait)
    assert refusal.value.retry_after == 59.375


def test_however_many_purchases_want_a_slot_there_is_one_for_a_look(harness: Harness) -> None:
    buyers, looker = [harness.environment()[0] for _ in range(3)], harness.environment()[0]
    bought, waits = 0, []
    for tick in range(120):  # one minute
        for buyer in buyers:
            try:
                buyer.take("normal", BEGIN_SECONDS)
                bought += 1
            except NotNow:
                continue
        if tick % 4 == 0:
            waits.append(looker.take("normal", 15))
        harness.pass_time(0.5)

    assert len(waits) == 30
    assert max(waits) < 7  # behind the purchases that had their slots before it, and no others
    assert bought > 60


def test_without_the_table_all_but_a_purchase_goes_out(harness: Harness) -> None:
    limiter, client = harness.environment()
    client.fault = NOBODY

    assert limiter.take("normal", 0) == 0
    assert limiter.take("urgent", 0) == 0
    with pytest.raises(NotNow) as refusal:
        limiter.take("normal", 0, buying=True)
    assert refusal.value.code == "NOVITA_UNAVAILABLE"


def test_without_the_table_a_process_keeps_the_pause_it_was_asked_for(harness: Harness) -> None:
    limiter, client = harness.environment()
    client.fault = NOBODY

    limiter.pause(5)

    assert limiter.paused()
    assert limiter.take("normal", 10) == 5
    with pytest.raises(NotNow):
        limiter.take("urgent", 1)


def test_a_high_limit_takes_many_slots_with_one_write(harness: Harness) -> None:
    limiter, client = harness.environment(10_000)

    waited = 0.0
    for _ in range(1000):
        waited += (wait := limiter.take("normal", 15))
        harness.pass_time(wait)

    assert client.calls.total() <= 40
    assert 999 * 0.00625 * 0.95 <= waited <= 1000 * 0.00625


def test_slots_that_were_not_used_in_time_are_lost(harness: Harness) -> None:
    limiter, client = harness.environment(10_000)
    for _ in range(20):
        harness.pass_time(limiter.take("normal", 15))
    harness.pass_time(60)
    before = client.calls.total()

    waits = [limiter.take("normal", 15) for _ in range(3)]

    assert client.calls.total() > before
    assert waits == sorted(waits)
    assert len(set(waits)) == 3


def test_a_process_that_calls_rarely_takes_one_slot_at_a_time(harness: Harness) -> None:
    limiter, _ = harness.environment(10_000)
    other, _ = harness.environment(10_000)

    for _ in range(5):
        limiter.take("normal", 15)
        harness.pass_time(1)
        assert other.take("normal", 15) == 0


def test_the_smallest_limit_works(harness: Harness) -> None:
    limiter, _ = harness.environment(1)

    assert limiter.take("normal", 0) == 0
    assert limiter.take("urgent", 0) == 0
    with pytest.raises(NotNow) as refusal:
        limiter.take("normal", 15)
    assert refusal.value.retry_after == 125
