"""One window for all environments: what they know of each other, what it costs, what goes out without it."""

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from botocore.exceptions import EndpointConnectionError

from bench.virtual_time import Clock, VirtualTableClock
from functions.shared.domain.errors import NotNow
from functions.shared.domain.resilience import SlotClass, SlotRequest
from functions.shared.stores.rate_limiter import ATTEMPTS, RateLimiter
from functions.shared.stores.table import Table

NOBODY = EndpointConnectionError(endpoint_url="http://127.0.0.1:9")


class Client:
    def __init__(self, client: Any) -> None:
        self._client = client
        self.calls: Counter[str] = Counter()
        self.fault: Exception | None = None
        self.twice = False  # as the SDK does where an answer is lost: the second write meets the first
        self.before: Callable[[str], None] = lambda _: None
        self.after: Callable[[str], None] = lambda _: None

    def __getattr__(self, name: str) -> Any:
        def call(**arguments: Any) -> Any:
            self.calls[name] += 1
            if self.fault:
                raise self.fault
            self.before(name)
            if self.twice and name == "put_item":
                self._client.put_item(**arguments)
            try:
                return getattr(self._client, name)(**arguments)
            finally:
                self.after(name)

        return call


class Harness:
    def __init__(self, table: Table) -> None:
        self._table = table
        self.clock = Clock()
        self.clock.now = datetime(2030, 1, 1, tzinfo=UTC)

    def environment(self, per_minute: int = 100, skew_seconds: float = 0.0) -> tuple[RateLimiter, Client]:
        client: Any = Client(self._table.client)
        skew = timedelta(seconds=skew_seconds)
        own = VirtualTableClock(lambda: self.clock() + skew, self.clock)
        return RateLimiter(client, self._table.name, per_minute, own, chance=lambda: 0.5), client

    def limiter(self, per_minute: int = 100, skew_seconds: float = 0.0) -> RateLimiter:
        return self.environment(per_minute, skew_seconds)[0]

    def enter(self, limiter: RateLimiter, kind: SlotClass, patience: float = 15, **more: Any) -> float:
        """The seconds that it waited."""
        began = self.clock()
        limiter.enter(kind, patience, self.clock.advance, **more)
        return (self.clock() - began).total_seconds()

    def use_up(self, limiter: RateLimiter, kind: SlotClass = "work") -> None:
        """As many as may go at once."""
        try:
            while True:
                limiter.enter(kind, 0, self.clock.advance)
        except NotNow:
            return


@pytest.fixture
def harness(table: Table) -> Harness:
    return Harness(table)


def test_environments_share_one_burst_and_one_pace(harness: Harness) -> None:
    one, other = harness.limiter(), harness.limiter()

    at_once = [harness.enter(limiter, "work") for limiter in (one, other) for _ in range(10)]
    after_it = [harness.enter(limiter, "work") for limiter in (one, other, one, other)]

    assert at_once == [0] * 20
    assert all(0.4 < wait < 0.8 for wait in after_it)


def test_a_caller_who_may_not_wait_is_told_when_to_come_back(harness: Harness) -> None:
    limiter = harness.limiter()
    harness.use_up(limiter)

    with pytest.raises(NotNow) as refusal:
        limiter.enter("work", 0.1, harness.clock.advance)

    assert refusal.value.code == "RATE_LIMIT_EXCEEDED"
    assert refusal.value.retry_after
    harness.clock.advance(refusal.value.retry_after)
    assert harness.enter(limiter, "work", 0) == 0


def test_a_refusal_that_is_already_known_costs_nothing(harness: Harness) -> None:
    limiter, client = harness.environment()
    harness.use_up(limiter, "callers")
    before = client.calls.total()

    for _ in range(100):
        harness.clock.advance(0.1)
        with pytest.raises(NotNow):
            limiter.enter("callers", 1, harness.clock.advance)

    assert client.calls.total() == before


def test_purchases_that_are_put_off_say_so_once_in_a_while(harness: Harness) -> None:
    limiter, client = harness.environment()
    harness.use_up(limiter)

    for _ in range(20):
        with pytest.raises(NotNow):
            limiter.enter("work", 0, harness.clock.advance)

    assert client.calls["put_item"] == 20 + 1
    with pytest.raises(NotNow):
        harness.limiter().enter("callers", 0, harness.clock.advance)


def test_nobody_waits_longer_than_fifteen_seconds(harness: Harness) -> None:
    limiter = harness.limiter(5)
    for _ in range(5):
        limiter.enter("ends", 0, harness.clock.advance, buying=True)

    with pytest.raises(NotNow):
        limiter.enter("work", 3600, harness.clock.advance)


def test_whoever_waits_keeps_its_place_and_gives_it_back(harness: Harness) -> None:
    one, other, third = harness.limiter(), harness.limiter(), harness.limiter()
    harness.use_up(one)

    waits = [limiter.ask(SlotRequest("work", name), 15) for limiter, name in ((one, "a"), (other, "b"))]
    with pytest.raises(NotNow) as refusal:
        third.ask(SlotRequest("work", "c"), waits[1])

    assert waits[0] < waits[1] < (refusal.value.retry_after or 0)
    harness.clock.advance(waits[0])
    assert one.ask(SlotRequest("work", "a"), 15) == 0
    harness.clock.advance(waits[1] - waits[0])
    assert other.ask(SlotRequest("work", "b"), 15) <= 0.1


def test_one_who_gives_up_is_waited_for_by_nobody(harness: Harness) -> None:
    one, other = harness.limiter(), harness.limiter()
    harness.use_up(one)
    delay = one.ask(SlotRequest("work", "a"), 15)

    with pytest.raises(NotNow):
        one.ask(SlotRequest("work", "a"), 0)

    assert other.ask(SlotRequest("work", "b"), 15) == pytest.approx(delay, abs=0.05)


@pytest.mark.parametrize("skew", [-30.0, 30.0])
def test_an_environment_whose_clock_is_off_stops_nobody(harness: Harness, skew: float) -> None:
    off, right = harness.limiter(skew_seconds=skew), harness.limiter()
    for _ in range(10):
        harness.enter(off, "work")

    assert [harness.enter(right, "work") for _ in range(10)] == [0] * 10
    harness.clock.advance(62)
    assert [harness.enter(off, "work") for _ in range(10)] == [0] * 10
    assert [harness.enter(right, "work") for _ in range(10)] == [0] * 10


@pytest.mark.parametrize("asleep", [5.0, 600.0])
def test_a_clock_that_is_set_is_noticed_before_it_does_harm(harness: Harness, asleep: float) -> None:
    client: Any = Client(harness._table.client)
    skew = [0.0]
    own = VirtualTableClock(lambda: harness.clock() + timedelta(seconds=skew[0]), harness.clock)
    limiter, other = RateLimiter(client, harness._table.name, 100, own), harness.limiter()
    harness.enter(limiter, "work")
    harness.clock.advance(asleep)
    skew[0] = 300.0
    harness.use_up(other)

    assert harness.enter(limiter, "work") > 0.3
    assert harness.enter(other, "work") < 2


def test_the_whole_fleet_keeps_a_pause_and_deletes_for_less_than_a_minute_of_it(harness: Harness) -> None:
    one, other = harness.limiter(), harness.limiter()
    harness.enter(other, "work")

    one.pause(3600)

    for kind, wait in (("work", 3600), ("callers", 3600), ("ends", 50)):
        with pytest.raises(NotNow) as refusal:
            harness.limiter().enter(kind, 15, harness.clock.advance)  # type: ignore[arg-type]  # of the list
        assert refusal.value.retry_after == pytest.approx(wait, abs=1)
    harness.clock.advance(2)
    with pytest.raises(NotNow):
        harness.enter(other, "work")
    harness.clock.advance(49)
    assert harness.enter(other, "ends") == 0


def test_whoever_waits_when_a_pause_comes_waits_for_its_end(harness: Harness) -> None:
    waiting, other = harness.limiter(), harness.limiter()
    harness.use_up(waiting)
    waits = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 1:
            other.pause(4)
        harness.clock.advance(seconds)

    waiting.enter("work", 10, wait)

    assert sum(waits) == pytest.approx(4, abs=1)


def test_whoever_waits_is_told_to_come_back_when_the_pause_is_too_long(harness: Harness) -> None:
    waiting, other = harness.limiter(), harness.limiter()
    harness.use_up(waiting)

    def wait(seconds: float) -> None:
        other.pause(60)
        harness.clock.advance(seconds)

    with pytest.raises(NotNow) as refusal:
        waiting.enter("work", 10, wait)
    assert refusal.value.retry_after == pytest.approx(60, abs=1)


def test_a_writer_who_is_always_overtaken_waits_a_moment_and_comes_back(harness: Harness) -> None:
    unlucky, client = harness.environment()
    others = harness.limiter()
    client.before = lambda name: others.pause(0) if name == "put_item" else None

    delay = unlucky.ask(SlotRequest("work", "a"), 1)

    assert client.calls["put_item"] == ATTEMPTS
    assert delay == pytest.approx(0.1)


def test_a_write_whose_answer_was_lost_is_known_as_ones_own(harness: Harness) -> None:
    limiter, client = harness.environment()
    limiter.enter("work", 0, harness.clock.advance)
    client.twice = True

    assert harness.enter(limiter, "work", 0) == 0
    assert client.calls["put_item"] == 2


def test_a_grant_that_came_too_late_to_be_used_is_asked_for_once_more(harness: Harness) -> None:
    limiter, client = harness.environment()
    limiter.enter("work", 0, harness.clock.advance)
    before = client.calls["put_item"]
    client.after = lambda name: harness.clock.advance(3.0 if name == "put_item" else 0)

    limiter.enter("work", 0, harness.clock.advance)

    assert client.calls["put_item"] == before + 2


def test_without_the_table_all_but_a_purchase_goes_out(harness: Harness) -> None:
    limiter, client = harness.environment()
    client.fault = NOBODY

    for kind in ("looks", "work", "ends", "callers"):
        assert harness.enter(limiter, kind, 0) == 0
    with pytest.raises(NotNow) as refusal:
        harness.enter(limiter, "work", 0, buying=True)
    assert refusal.value.code == "NOVITA_UNAVAILABLE"


def test_without_the_table_a_process_keeps_the_pause_it_was_asked_for(harness: Harness) -> None:
    limiter, client = harness.environment()
    client.fault = NOBODY

    limiter.pause(5)

    assert harness.enter(limiter, "work", 10) == 5
    limiter.pause(5)
    with pytest.raises(NotNow):
        harness.enter(limiter, "ends", 1)


def test_a_high_limit_takes_many_slots_with_one_write(harness: Harness) -> None:
    limiter, client = harness.environment(10_000)

    for _ in range(1000):
        harness.enter(limiter, "work")
        harness.clock.advance(0.006)

    assert client.calls["put_item"] <= 60


def test_slots_that_were_not_used_in_time_are_lost(harness: Harness) -> None:
    limiter, client = harness.environment(10_000)
    for _ in range(100):
        harness.enter(limiter, "work")
        harness.clock.advance(0.006)
    harness.clock.advance(5)
    before = client.calls["put_item"]

    harness.enter(limiter, "work")

    assert client.calls["put_item"] == before + 1


def test_the_smallest_limit_works(harness: Harness) -> None:
    limiter = harness.limiter(1)

    assert harness.enter(limiter, "work", 0) == 0
    with pytest.raises(NotNow) as refusal:
        harness.enter(limiter, "work", 15)
    assert refusal.value.retry_after == pytest.approx(61, abs=1)
