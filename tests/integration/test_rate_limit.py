"""The rate limit at its default, in use: creates beside crowds of readers, bursts, pauses, other clocks."""

from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import count, cycle
from typing import Any

import boto3
import pytest

from bench.environments import Place
from functions.shared.domain.errors import NotNow
from functions.shared.domain.instance.status import Status
from functions.shared.stores.rate_limiter import RateLimiter
from functions.shared.stores.table import TableClock
from local.emulator import Emulator
from ops import keys
from tests.integration.callers import crowding_read
from tests.integration.conftest import Build, Measured
from tests.integration.harness import Harness
from tests.integration.rate import most_in_a_minute
from tests.integration.virtual_workers import VirtualWorkers

LIMIT = "100"  # the default; the harness has a higher one
REQUEST = {"name": "test", "productName": "RTX 4090 24GB", "templateId": "107672"}


def _seconds(harness: Harness, since: datetime) -> float:
    return (harness.now() - since).total_seconds()


def _bought(harness: Harness) -> float:
    """The seconds from POST until its machine is bought, of which none is spent on waiting for a message."""
    began = harness.now()
    status, answer = harness.call("POST", "/api/instances", REQUEST)
    assert status == 201, answer
    harness.deliver_now(answer["instanceId"])
    assert harness.record(answer["instanceId"]).status is Status.STARTING
    return _seconds(harness, began)


class Reader:
    """One key that may only read, and reads what it can as fast as the gateway lets it: 50 times a second."""

    def __init__(self, harness: Harness, instance_id: str) -> None:
        self._harness = harness
        key = keys.new_key()
        harness.add_key(key, "read")
        self._headers = {"authorization": f"Bearer {key}"}
        self._numbers = count()
        self._instance_id = instance_id

    def read(self) -> int:
        """The status it was answered with."""
        method, path, body = crowding_read(next(self._numbers), self._instance_id)
        return self._harness.call(method, path, body, self._headers)[0]

    def read_for(self, seconds: float) -> set[int]:
        """The statuses it was answered with."""
        until, seen = self._harness.now() + timedelta(seconds=seconds), set[int]()
        while self._harness.now() < until:
            seen.add(self._harness.elsewhere(self.read))
            self._harness.advance(0.02)
        return seen


def test_a_create_is_bought_in_its_calm_time_whatever_one_key_reads(build: Build) -> None:
    harness = build(NOVITA_RATE_LIMIT=LIMIT)
    instance_id = harness.create()
    harness.settle()
    harness.advance(400)
    calm = _bought(harness)
    harness.settle()
    harness.run(400)
    reader = Reader(harness, instance_id)

    answers = reader.read_for(4)
    harness.restart()
    crowded = _bought(harness)
    began = harness.now()
    status, shown = harness.call("GET", f"/api/instances/{instance_id}")

    assert answers <= {200, 404, 429}
    assert crowded <= 2 * calm
    assert (status, "stale" in shown) == (200, False)
    assert _seconds(harness, began) < 1
    harness.advance(61)
    harness.settle()
    assert most_in_a_minute(harness) <= 105


def test_a_get_of_what_is_not_fresh_waits_half_a_second_at_most_behind_other_readers(build: Build) -> None:
    harness = build(NOVITA_RATE_LIMIT=LIMIT)
    instance_id = harness.create()
    harness.settle()
    harness.run(400)
    harness.simulator.clear_calls()
    for _ in range(20):
        harness.wiring.limiter.enter("callers", 0, harness.advance)
    harness.advance(58)  # they make room for others two seconds later
    waits = []

    for _ in range(20):
        began = harness.now()
        status, shown = harness.call("GET", f"/api/instances/{instance_id}")
        assert (status, "stale" in shown) == (200, False)
        waits.append(_seconds(harness, began))
        harness.advance(0.2)

    assert max(waits) <= 0.5
    assert len(harness.simulator.calls("/gpu/instance")) == 1


class Timed:
    """What somebody asks for while others do, and how long it took."""

    def __init__(self, harness: Harness) -> None:
        self._harness = harness
        self.gets: list[float] = []
        self.created: dict[str, datetime] = {}

    def get(self, instance_id: str) -> None:
        began = self._harness.now()
        status, shown = self._harness.call("GET", f"/api/instances/{instance_id}")
        self.gets.append(_seconds(self._harness, began))
        assert (status, "stale" in shown) == (200, False)

    def create(self) -> None:
        began = self._harness.now()
        self.created[self._harness.create()] = began

    def bought(self) -> list[float]:
        """From POST on."""
        records = [(self._harness.record(one), began) for one, began in self.created.items()]
        self.created.clear()
        return [(one.machine.bought_at - at).total_seconds() for one, at in records if one.machine.bought_at]


@pytest.mark.parametrize("seconds", [8, pytest.param(240, marks=pytest.mark.soak)])
def test_creates_and_reads_of_others_go_on_as_ever_while_one_key_reads_50_times_a_second(
    build: Build, seconds: int
) -> None:
    harness = build(NOVITA_RATE_LIMIT=LIMIT)
    workers, timed = VirtualWorkers(harness), Timed(harness)
    workers.at(0, timed.create)
    workers.run(60)
    (known,) = timed.created
    timed.created.clear()
    workers.at(0, timed.create)
    workers.run(120)
    (calm,) = timed.bought()
    reader = Reader(harness, known)

    for number in range(50 * seconds):
        workers.at(number / 50, reader.read)
    for second in range(1, seconds, 3):
        workers.at(second, timed.create)
        workers.at(second + 0.5, partial(timed.get, known))
    workers.run(seconds + 5)

    crowded = timed.bought()
    assert len(crowded) == len(range(1, seconds, 3))
    assert max(crowded) <= 2 * calm
    assert max(timed.gets) < 1
    workers.run(120)
    assert most_in_a_minute(harness) <= 105


def test_unknown_names_cost_one_read_of_each_list_however_many_ask(build: Build) -> None:
    harness = build(NOVITA_RATE_LIMIT=LIMIT)

    for number in range(200):
        harness.call("GET", f"/api/products?name=none-{number}")
        harness.advance(0.02)

    assert len(harness.simulator.calls("/products")) == 1


@pytest.mark.parametrize(("seconds_apart", "reads"), [(0, 2), (1, 2), (6, 12)])
def test_ten_creates_of_unknown_products_are_ten_times_not_found(
    build: Build, seconds_apart: float, reads: int
) -> None:
    harness = build(NOVITA_RATE_LIMIT=LIMIT)
    answers = []

    for number in range(10):
        harness.advance(seconds_apart)
        harness.restart()  # another process each time: nothing is known but what the table holds
        status, answer = harness.call("POST", "/api/instances", {**REQUEST, "productName": f"none-{number}"})
        answers.append((status, answer["error"]["code"]))

    assert answers == [(404, "PRODUCT_NOT_FOUND")] * 10
    assert len(harness.simulator.calls("/products")) <= reads  # of spot and on demand, once in ten seconds
    assert len(harness.simulator.calls("/template")) == 1
    assert harness.records() == []


def test_six_creates_and_four_gets_at_once_are_answered_by_novita(build: Build) -> None:
    harness = build(NOVITA_RATE_LIMIT=LIMIT)
    first = [harness.create() for _ in range(4)]
    harness.settle()
    harness.run(400)
    harness.simulator.clear_calls()
    shown = []

    for number in range(6):
        harness.restart()
        harness.create()
        if number < 4:
            harness.restart()
            shown.append(harness.call("GET", f"/api/instances/{first[number]}")[1])

    assert all("stale" not in one for one in shown)
    assert len(harness.simulator.calls("/gpu/instance")) == 4
    harness.settle()
    assert len(harness.simulator.live()) == 10


def _without_slots(harness: Harness) -> None:
    """Novita asks for a pause, so that there are none for a while."""
    harness.wiring.limiter.pause(40)


def test_a_lack_of_slots_is_told_at_post_and_is_not_taken_for_novitas_silence(build: Build) -> None:
    harness = build(NOVITA_RATE_LIMIT=LIMIT)
    _without_slots(harness)

    status, answer = harness.call("POST", "/api/instances", REQUEST)

    assert (status, answer["error"]["code"]) == (429, "RATE_LIMIT_EXCEEDED")
    assert 30 < answer["error"]["retryAfter"] <= 42
    assert harness.records() == []
    harness.advance(answer["error"]["retryAfter"])
    harness.create()
    harness.settle()


def test_a_create_that_the_caches_can_check_needs_no_slot(build: Build) -> None:
    harness = build(NOVITA_RATE_LIMIT=LIMIT)
    harness.create()
    harness.settle()
    _without_slots(harness)

    harness.create()

    harness.advance(45)
    harness.settle()
    assert len(harness.simulator.live()) == 2


def test_a_short_lack_of_slots_is_waited_for_at_post(build: Build) -> None:
    harness = build(NOVITA_RATE_LIMIT=LIMIT)
    for _ in range(6):  # so that the process knows the table's time well
        harness.wiring.limiter.enter("ends", 0, harness.advance)
        harness.advance(1.13)
    harness.wiring.limiter.pause(0.5)

    harness.create()

    harness.settle()


def test_a_lack_of_slots_does_not_make_an_instance_stale(build: Build) -> None:
    harness = build(NOVITA_RATE_LIMIT=LIMIT)
    instance_id = harness.create()
    harness.settle()
    harness.advance(60)
    _without_slots(harness)

    status, shown = harness.call("GET", f"/api/instances/{instance_id}")
    harness.wiring.recent_outage.note()
    _, during_an_outage = harness.call("GET", f"/api/instances/{instance_id}")

    assert (status, shown["status"]) == (200, "running")
    assert "stale" not in shown
    assert during_an_outage["stale"] is True


@pytest.mark.parametrize("limited", ["/gpu/instance", "/gpu/instance/delete"])
def test_a_long_retry_after_does_not_keep_a_delete_from_being_tried(build: Build, limited: str) -> None:
    harness = build(NOVITA_RATE_LIMIT=LIMIT)
    instance_id, other = harness.create(), harness.create()
    harness.settle()
    harness.advance(60)
    harness.simulator.fault("status", limited, status=429, retryAfter=3600, times=1)
    if limited == "/gpu/instance":
        harness.call("GET", f"/api/instances/{other}")  # which is told to come back in an hour
    asked_at = harness.now().timestamp()

    harness.call("DELETE", f"/api/instances/{instance_id}")
    harness.run(75)

    tried = [call["time"] - asked_at for call in harness.simulator.calls("/gpu/instance/delete")]
    assert tried[0] <= 60
    assert len(tried) == (1 if limited == "/gpu/instance" else 2)
    assert max(tried) <= 75
    harness.run(3700)
    harness.settle()
    assert harness.record(instance_id).status is Status.TERMINATED


@pytest.mark.parametrize("skews", [(0,), (-30, 30, 0)])
def test_environments_whose_clocks_differ_refuse_nobody_and_stay_below_the_limit(
    build: Build, measured: Measured, skews: tuple[int, ...]
) -> None:
    harness = build(NOVITA_RATE_LIMIT=LIMIT)
    metrics = measured(harness)
    off = cycle(timedelta(seconds=each) for each in skews)
    harness.skew = lambda: next(off)
    harness.cold = lambda _: True  # each invocation is another environment
    for _ in range(40):
        harness.create()
    began = harness.now()

    while any(record.status is Status.CREATING for record in harness.records()):
        harness.run(10)
        assert _seconds(harness, began) < 200

    assert metrics.of("LimiterRefusals") == []
    assert most_in_a_minute(harness) <= 105
    assert {record.status for record in harness.records()} <= {Status.STARTING, Status.RUNNING}
    harness.skew = timedelta
    harness.restart()
    harness.advance(60)
    harness.settle()


def test_the_tables_own_answers_tell_the_time(emulator_over_http: Emulator) -> None:
    """Against the emulator's real dates: this process's clock is half a minute ahead and nobody notices."""
    fleet = Place(emulator_over_http.url).fleet(2)
    limiters = []
    for environment, skew in zip(fleet.environments, (30, -30), strict=True):
        clock = TableClock(lambda skew=skew: datetime.now(UTC) + timedelta(seconds=skew))  # type: ignore[misc]  # bound now
        inner: Any = environment.limiter
        limiters.append((RateLimiter(inner._client, inner._table, 100, clock), clock))

    for limiter, clock in limiters * 5:
        limiter.enter("callers", 0, lambda _: None)
        known, now = clock.now(), datetime.now(UTC).timestamp() * 1000
        assert known.earliest <= now + 1
        assert known.latest >= now - 50
    for limiter, _ in limiters * 5:
        limiter.enter("callers", 0, lambda _: None)
    for limiter, _ in limiters:
        with pytest.raises(NotNow) as refusal:
            limiter.enter("callers", 0, lambda _: None)
        assert 50 < (refusal.value.retry_after or 0) < 64


def test_boto_hands_out_the_date_of_every_answer(emulator_over_http: Emulator) -> None:
    client = boto3.client(
        "dynamodb",
        endpoint_url=emulator_over_http.url,
        region_name="us-east-1",
        aws_access_key_id="-",
        aws_secret_access_key="-",
    )

    assert client.list_tables()["ResponseMetadata"]["HTTPHeaders"]["date"]
