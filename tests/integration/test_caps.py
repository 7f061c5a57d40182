"""Caps that hold: what is committed is counted in the transaction that commits it; without a cap, nowhere."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from itertools import count
from typing import Any
from uuid import uuid4

import pytest
from botocore.config import Config

from functions.shared.domain.errors import SpendingRefused
from functions.shared.domain.ids import new_instance_id
from functions.shared.domain.instance.commands import begin_create
from functions.shared.domain.instance.record import Spec
from functions.shared.domain.instance.status import Status
from functions.shared.domain.money.caps import DEPLOYMENT, NOTHING, CapLimits, Commitment
from functions.shared.domain.money.caps import micros as to_micros
from functions.shared.stores.caps import Caps
from functions.shared.stores.instances import Instances
from functions.shared.stores.table import Table
from local.emulator import Emulator
from ops import keys
from tests.integration.conftest import Build
from tests.integration.counters import assert_counters_right, in_use
from tests.integration.harness import Harness
from tests.integration.quick_http import send_quickly
from tests.integration.wire import Killed, Made

CREATE = {"name": "test", "productName": "RTX 4090 24GB", "templateId": "107672"}
TEN = "1.8"  # of the machines that cost 0.18 an hour each
MANY = Config(max_pool_connections=50, retries={"total_max_attempts": 1})
PRICE = {"maxPricePerGpuHour": 0.18}


def micros(usd: str) -> int:
    return to_micros(Decimal(usd))


def ask(harness: Harness, key: str = "", **body: Any) -> tuple[int, Any]:
    headers = {"authorization": f"Bearer {key}"} if key else {}
    return harness.call("POST", "/api/instances", {**CREATE, **PRICE, **body}, headers)


def capped_key(harness: Harness, **caps: Any) -> tuple[str, str]:
    key = keys.new_key()
    made = keys.create_key(harness.table, name="capped", scopes=["write"], key=key, **caps)
    return key, made.id


def stopped(harness: Harness, instance_id: str) -> None:
    assert harness.call("POST", f"/api/instances/{instance_id}/stop")[0] == 202
    harness.settle()


def test_creates_beyond_the_deployments_cap_are_refused_with_what_is_in_use(build: Build) -> None:
    harness = build(MAX_HOURLY_USD=TEN)

    answers = [ask(harness, name=f"n{number}") for number in range(12)]

    assert [status for status, _ in answers] == [201] * 10 + [422] * 2
    error = answers[-1][1]["error"]
    assert error["code"] == "CAP_EXCEEDED"
    assert error["details"] == {
        "cap": "maxHourlyUsd",
        "of": "deployment",
        "limitUsd": "1.8000",
        "inUseUsd": "1.8000",
        "neededUsd": "0.1800",
    }
    harness.settle()
    assert_counters_right(harness)


def test_one_that_saw_room_which_is_gone_when_it_is_stored_is_refused(build: Build) -> None:
    harness = build(MAX_HOURLY_USD="0.4")
    others: list[int] = []

    def another(made: Made) -> None:
        if made.name.startswith("TransactWriteItems") and made.handler == "api" and not others:
            others.extend(harness.elsewhere(lambda: [ask(harness, name=name)[0] for name in "ab"]))

    harness.wire.before = another
    status, answer = ask(harness, name="first")
    harness.wire.before = None

    assert (others, status, answer["error"]["code"]) == ([201, 201], 422, "CAP_EXCEEDED")
    assert_counters_right(harness)
    harness.settle()


def test_fifty_creates_at_once_against_a_cap_for_ten_store_exactly_ten(
    build: Build, emulator: Emulator
) -> None:
    """In threads, and the counter is not there yet: the table alone decides."""
    harness = build(MAX_HOURLY_USD=TEN)
    client = send_quickly(emulator.session().client("dynamodb", endpoint_url=emulator.url, config=MANY))
    table, clock, policy = Table(client, harness.table_name), harness.now, harness.wiring.policy
    caps = Caps(table, clock, CapLimits(hourly=micros(TEN)), lambda: instances.fleet_as_it_is())
    instances = Instances(table, lambda: uuid4().hex, caps)

    def create(number: int) -> str:
        begun = begin_create(
            instance_id=new_instance_id(clock()),
            name=f"n{number}",
            spec=Spec("RTX 4090 24GB", "107672", max_price=Decimal("0.18")),
            webhook_url=None,
            actor="test",
            correlation_id="",
            now=clock(),
            policy=policy,
        )
        try:
            instances.add(begun)
        except SpendingRefused as refused:
            return refused.code
        return "stored"

    with ThreadPoolExecutor(50) as pool:
        results = list(pool.map(create, range(50)))

    assert sorted(results) == ["CAP_EXCEEDED"] * 40 + ["stored"] * 10
    assert len(harness.records()) == 10
    assert_counters_right(harness)
    harness.wipe()


def test_a_start_counts_like_a_create(build: Build) -> None:
    harness = build(MAX_HOURLY_USD="0.4")
    first, second = harness.create(**PRICE), harness.create(name="second", **PRICE)
    harness.settle()
    assert ask(harness, name="third")[0] == 422
    stopped(harness, first)
    assert_counters_right(harness)

    third = harness.create(name="third", **PRICE)
    status, answer = harness.call("POST", f"/api/instances/{first}/start", {})

    assert (status, answer["error"]["code"]) == (422, "CAP_EXCEEDED")
    assert harness.record(first).status is Status.STOPPED
    harness.call("DELETE", f"/api/instances/{third}")
    harness.settle()
    assert harness.call("POST", f"/api/instances/{first}/start", {})[0] == 202
    harness.settle()
    assert harness.record(first).status is Status.READY
    assert harness.call("POST", f"/api/instances/{second}/restart", {})[0] == 202, "what runs is counted"
    harness.settle()
    assert_counters_right(harness)


def test_the_caps_of_a_key_are_its_own(build: Build) -> None:
    harness = build()
    key, key_id = capped_key(harness, max_instances=2, max_hourly_usd=Decimal("0.5"))

    mine = [ask(harness, key, name=f"n{number}") for number in range(3)]

    assert [status for status, _ in mine] == [201, 201, 422]
    assert mine[-1][1]["error"]["details"] == {
        "cap": "maxInstances",
        "of": key_id,
        "limit": 2,
        "inUse": 2,
    }
    assert ask(harness)[0] == 201, "another key has no cap"
    harness.settle()
    assert in_use(harness, key_id) == Commitment(2, micros("0.36"))
    stopped(harness, mine[0][1]["instanceId"])
    assert in_use(harness, key_id) == Commitment(2, micros("0.18"))
    assert ask(harness, key)[0] == 422, "a stopped one is an instance still"
    harness.call("DELETE", f"/api/instances/{mine[0][1]['instanceId']}")
    harness.settle()
    assert ask(harness, key, gpuNum=4)[1]["error"]["details"]["cap"] == "maxHourlyUsd"
    assert ask(harness, key, name="again")[0] == 201
    harness.settle()
    assert_counters_right(harness, key_id)


def test_whoever_starts_it_an_instance_counts_for_the_key_that_made_it(build: Build) -> None:
    harness = build()
    key, key_id = capped_key(harness, max_hourly_usd=Decimal("0.2"))
    first = ask(harness, key)[1]["instanceId"]
    harness.settle()
    stopped(harness, first)
    second = ask(harness, key, name="second")[1]["instanceId"]
    harness.settle()

    status, answer = harness.call("POST", f"/api/instances/{first}/start", {})  # by an admin

    assert (status, answer["error"]["details"]["of"]) == (422, key_id)
    assert harness.record(second).status is Status.RUNNING


def test_a_purchase_replaces_what_was_reserved_by_its_offer(build: Build) -> None:
    harness = build(MAX_HOURLY_USD="10")

    harness.create(maxPricePerGpuHour=2, gpuNum=2)

    assert in_use(harness) == Commitment(1, micros("4"))
    harness.settle()
    price = harness.records()[0].machine.price
    assert price
    assert in_use(harness) == Commitment(1, to_micros(price * 2))


def test_without_a_price_limit_the_best_offer_known_counts_and_nothing_where_none_is(build: Build) -> None:
    harness = build(MAX_HOURLY_USD="10")
    harness.create()
    known = in_use(harness)
    assert known.hourly > 0
    harness.settle()
    harness.restart()
    harness.advance(3600)
    harness.simulator.fault("status", path="/products", status=503)

    harness.create(name="unknown")

    assert in_use(harness) == Commitment(2, in_use(harness).hourly)
    assert harness.records()[1].purchases.price is None or harness.records()[0].purchases.price is None
    harness.simulator.clear_faults()
    harness.settle()
    assert_counters_right(harness)


def test_a_purchase_beyond_the_cap_waits_until_there_is_room(build: Build) -> None:
    harness = build(MAX_HOURLY_USD="0.4", PURCHASE_MAX_WAIT="1800")
    first = harness.create(**PRICE)
    harness.settle()
    harness.simulator.fault("status", path="/products", status=503)
    harness.advance(600)
    unpriced = harness.create(name="unpriced", gpuNum=2)  # nobody knows its price yet
    harness.simulator.clear_faults()

    harness.run(120)

    waiting = harness.call("GET", f"/api/instances/{unpriced}")[1]
    assert (waiting["status"], waiting["waitingFor"]["code"]) == ("creating", "CAP_EXCEEDED")
    harness.call("DELETE", f"/api/instances/{first}")
    harness.settle()
    assert harness.record(unpriced).status is Status.RUNNING
    assert_counters_right(harness)


def test_one_that_never_has_room_fails_for_the_cap(build: Build) -> None:
    harness = build(MAX_HOURLY_USD="0.3", PURCHASE_MAX_WAIT="600")
    harness.simulator.fault("status", path="/products", status=503)
    unpriced = harness.create(gpuNum=2)
    harness.simulator.clear_faults()

    harness.settle()

    error = harness.record(unpriced).error
    assert error is not None
    assert error.code == "CAP_EXCEEDED"
    assert in_use(harness) == NOTHING


def taken_away(harness: Harness, instance_id: str, **how: Any) -> None:
    """And a sweep has seen it."""
    machine_id = str(harness.record(instance_id).machine.id)
    harness.simulator.reclaim(machine_id, notice=False, **how)
    harness.advance(130)
    harness.sweep()


def recoveries(harness: Harness, instance_id: str) -> list[str]:
    return [one for one in harness.history(instance_id) if one.startswith("recovery.")]


def test_a_recovery_counts_like_a_create_and_waits_where_there_is_no_room(build: Build) -> None:
    harness = build(MAX_HOURLY_USD="0.2")
    first = harness.create(**PRICE, onReclaim="restart")
    harness.settle()
    taken_away(harness, first, noRoomSeconds=300)
    assert harness.record(first).recovery
    harness.run(30)
    assert in_use(harness) == Commitment(1, micros("0.18")), "it is to run: its room is its own"
    harness.settle()
    assert recoveries(harness, first) == ["recovery.started", "recovery.completed"]

    harness.call("POST", "/api/pause")
    taken_away(harness, first)
    harness.run(60)
    assert in_use(harness) == Commitment(1, 0)
    harness.call("POST", "/api/resume")
    second = harness.create(name="second", **PRICE)
    harness.run(300)

    _, waiting = harness.call("GET", f"/api/instances/{first}")
    assert (waiting["status"], waiting["waitingFor"]["code"]) == ("exited", "CAP_EXCEEDED")
    assert harness.record(second).status is Status.RUNNING
    assert_counters_right(harness)
    harness.call("DELETE", f"/api/instances/{second}")
    harness.settle()
    assert harness.record(first).status is Status.RUNNING
    assert recoveries(harness, first) == ["recovery.started", "recovery.completed"] * 2
    assert_counters_right(harness)
    harness.assert_books_balance()


def test_ten_recoveries_at_once_against_room_for_four_are_four(build: Build) -> None:
    harness = build(MAX_HOURLY_USD=TEN)
    ids = [
        harness.create(name=f"n{number}", **PRICE, onReclaim={"action": "restart", "window": "20m"})
        for number in range(10)
    ]
    harness.settle()
    for instance_id in ids:
        machine_id = str(harness.record(instance_id).machine.id)
        harness.simulator.reclaim(machine_id, notice=False)
    harness.environment["MAX_HOURLY_USD"] = "0.72"
    harness.restart()

    harness.advance(130)
    harness.sweep()
    harness.settle()

    statuses = [harness.record(instance_id).status for instance_id in ids]
    assert statuses.count(Status.RUNNING) == 4
    assert statuses.count(Status.EXITED) == 6
    for instance_id, status in zip(ids, statuses, strict=True):
        told = ["recovery.started", "recovery.completed"] if status is Status.RUNNING else ["recovery.failed"]
        assert recoveries(harness, instance_id) == told
    assert_counters_right(harness)
    harness.assert_books_balance()


def test_what_is_imported_or_started_at_novita_counts_and_is_not_refused(build: Build) -> None:
    harness = build(MAX_HOURLY_USD="0.3")
    first = harness.create(**PRICE)
    harness.settle()
    stopped(harness, first)
    second = harness.create(name="second", **PRICE)
    harness.settle()
    before = in_use(harness)

    machine_id = harness.record(first).machine.id
    harness.simulator.patch_instance(str(machine_id), status="running")
    harness.advance(180)
    harness.sweep()

    assert in_use(harness).hourly > before.hourly, "counted within one pass of the list"
    assert in_use(harness).hourly > micros("0.3")
    assert harness.record(first).status is not Status.STOPPED
    made = harness.simulator.put_instance(name="by-hand", status="running")
    assert harness.call("POST", "/api/instances/import", {"novitaInstanceId": made["id"]})[0] == 201
    assert in_use(harness).instances == 3
    assert ask(harness, name="more")[0] == 422
    harness.settle()
    assert_counters_right(harness)
    assert harness.record(second).status is Status.RUNNING


def test_a_missing_machine_counts_on(build: Build) -> None:
    harness = build(MAX_HOURLY_USD="10")
    instance_id = harness.create(**PRICE)
    harness.settle()
    before = in_use(harness)
    harness.simulator.hide(str(harness.record(instance_id).machine.id))
    harness.advance(300)
    harness.sweep()
    harness.run(900)

    assert harness.record(instance_id).missing
    assert in_use(harness) == before
    harness.run(90000)
    assert harness.record(instance_id).status is Status.TERMINATED
    assert in_use(harness) == NOTHING
    harness.simulator.patch_instance(str(harness.record(instance_id).machine.id), status="removed")


def test_without_a_cap_there_is_no_counter_and_no_write_for_it(harness: Harness) -> None:
    first = harness.create(**PRICE)
    harness.settle()
    stopped(harness, first)
    harness.call("POST", f"/api/instances/{first}/start", {})
    harness.settle()
    harness.sweep()
    harness.call("DELETE", f"/api/instances/{first}")
    harness.settle()

    assert not [item for item in harness.items() if item["pk"]["S"].startswith("cap#")]
    assert not [made for made in harness.wire.calls if "cap#" in str(made.params)]


def test_a_cap_that_is_set_later_counts_what_is_there(build: Build) -> None:
    harness = build()
    harness.create(**PRICE)
    harness.settle()
    harness.environment["MAX_HOURLY_USD"] = "0.3"
    harness.restart()

    assert ask(harness, name="second")[0] == 422
    assert_counters_right(harness)


def die_at(harness: Harness, nth: int, what: Callable[[Made], bool], *, after: bool) -> list[Made]:
    """At the call of that number among those; and where it has died, if it has."""
    numbers, died = count(), list[Made]()

    def die(made: Made) -> None:
        if what(made) and next(numbers) == nth:
            died.append(made)
            raise Killed

    harness.wire.before, harness.wire.after = (None, die) if after else (die, None)
    return died


def counts(made: Made) -> bool:
    return "cap#" in str(made.params)


@pytest.mark.parametrize("after", [pytest.param(False, marks=pytest.mark.soak), True])
def test_a_request_that_dies_at_any_call_that_counts_is_counted_once_when_it_is_repeated(
    build: Build, after: bool
) -> None:
    """By the deployment and by its key, whose counters are not there yet at the first."""
    reached = 0
    for nth in range(20):
        harness = build(MAX_HOURLY_USD="10")
        key, key_id = capped_key(harness, max_instances=5, max_hourly_usd=Decimal(5))
        headers = {"authorization": f"Bearer {key}", "idempotency-key": "once"}
        died = die_at(harness, nth, counts, after=after)
        try:
            status, _ = harness.call("POST", "/api/instances", {**CREATE, **PRICE}, headers)
        except Killed:
            harness.restart()
            harness.wire.before = harness.wire.after = None
            status, _ = harness.call("POST", "/api/instances", {**CREATE, **PRICE}, headers)
        harness.wire.before = harness.wire.after = None

        assert status == 201
        assert in_use(harness) == in_use(harness, key_id) == Commitment(1, micros("0.18")), died
        harness.settle()
        assert_counters_right(harness, DEPLOYMENT, key_id)
        if not died:
            break
        reached += 1
    assert 5 <= reached < 20


@pytest.mark.parametrize("after", [pytest.param(False, marks=pytest.mark.soak), True])
def test_steps_and_sweeps_that_die_where_they_count_leave_no_counter_wrong(build: Build, after: bool) -> None:
    reached = 0
    for nth in range(20):
        harness = build(MAX_HOURLY_USD="10")
        harness.create(**PRICE)
        harness.wiring.table.update(f"cap#{DEPLOYMENT}", "counter", "ADD instancesInUse :n", values={":n": 3})
        died = die_at(
            harness, nth, lambda made: counts(made) and made.writes and made.handler != "api", after=after
        )
        harness.settle()
        harness.sweep()
        for _ in range(6):  # counters are checked in each fifth minute, and put right at the second look
            harness.advance(300 - harness.now().timestamp() % 300 + 1)
            harness.sweep()
        harness.wire.before = harness.wire.after = None

        assert_counters_right(harness)
        assert in_use(harness).instances == 1, died
        if not died:
            break
        reached += 1
    assert 3 <= reached < 20


@pytest.mark.parametrize("wrong", [3, -1])
def test_a_counter_that_is_wrong_is_put_right_by_the_sweep(build: Build, wrong: int) -> None:
    harness = build(MAX_HOURLY_USD="10")
    for number in range(2):
        harness.create(name=f"n{number}", **PRICE)
    harness.settle()
    harness.wiring.table.update(f"cap#{DEPLOYMENT}", "counter", "ADD instancesInUse :n", values={":n": wrong})

    for _ in range(17):
        harness.advance(60)
        harness.sweep()

    assert_counters_right(harness)


def test_a_counter_that_nobody_uses_is_left_alone(build: Build) -> None:
    harness = build(MAX_HOURLY_USD="10")
    instance_id = harness.create(**PRICE)
    harness.settle()
    harness.call("DELETE", f"/api/instances/{instance_id}")
    harness.settle()
    harness.advance(600)
    for _ in range(6):
        harness.advance(60)
        harness.sweep()
    harness.advance(3600)
    harness.wire.calls.clear()

    for _ in range(6):
        harness.advance(60)
        harness.sweep()

    assert not [made for made in harness.wire.calls if made.writes and "cap#" in str(made.params)]
    assert harness.create(**PRICE)
    harness.settle()
    assert_counters_right(harness)
