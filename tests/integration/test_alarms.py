"""Each alarm on what the functions measure is made to fire, and ends when its cause does."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pytest

from functions.shared.domain.ids import new_instance_id
from functions.shared.domain.instance.status import Status
from tests.integration import dead_letters
from tests.integration.alarms import Alarm, Metrics, synthesised
from tests.integration.conftest import Build, Measured
from tests.integration.harness import Harness
from tests.integration.sweeps import listing, put, running
from tests.integration.wire import Made

CREATE = "/gpu/instance/create"
MINUTE = 60.0


@pytest.fixture(scope="session")
def alarms() -> dict[str, Alarm]:
    return synthesised(ours=True)


@dataclass
class OnCall:
    """A harness with somebody on call, from now on."""

    harness: Harness
    alarms: dict[str, Alarm]
    metrics: Metrics
    since: datetime

    def raised(self) -> set[str]:
        return {name for name in self.alarms if self.history(name)[-1:] == [True]}

    def history(self, name: str) -> list[bool]:
        return self.alarms[name].history(self.metrics.points, self.since, self.harness.now())

    def minutes(self, count: int, then: Callable[[], object] = lambda: None) -> None:
        """A sweep each minute, as the schedule has it."""
        for _ in range(count):
            self.harness.sweep()
            then()
            self.harness.advance(MINUTE)


Watch = Callable[[Harness], OnCall]


@pytest.fixture
def watch(alarms: dict[str, Alarm], measured: Measured) -> Watch:
    return lambda harness: OnCall(harness, alarms, measured(harness), harness.now())


def test_every_alarm_on_our_own_metrics_is_made_to_fire_here(alarms: dict[str, Alarm]) -> None:
    assert alarms.keys() == {
        "DeadLetters",
        "DeadLettersNotStored",
        "CircuitOpen",
        "Orphans",
        "Missing",
        "CleanupStuck",
        "RecoveryFailed",
        "DeletionsHeld",
        "ReconcilerSilent",
        "NotCompared",
        "StepsLate",
        "EventsLate",
        "AccountRefused",
        "BalanceLow",
        "BudgetPassed",
        "BillDiffers",
        "ServerErrors",
    }


def test_nothing_is_raised_while_all_goes_well(harness: Harness, watch: Watch) -> None:
    on_call = watch(harness)

    harness.create()
    on_call.minutes(16, harness.deliver)
    harness.settle()

    assert [name for name in on_call.alarms if any(on_call.history(name))] == []


def test_a_dead_letter_raises_an_alarm(build: Build, watch: Watch) -> None:
    harness = build(MAX_RETRY_ATTEMPTS="0", RETRY_BASE_SECONDS="0")
    on_call = watch(harness)

    dead_letters.failed_create(harness)
    on_call.minutes(5)

    assert any(on_call.history("DeadLetters"))
    on_call.minutes(16)
    assert "DeadLetters" not in on_call.raised(), "told once; the record stays"
    assert on_call.metrics.of("DeadLettersKept")[-1] == 1


def test_a_dead_letter_that_nobody_takes_raises_an_alarm(harness: Harness, watch: Watch) -> None:
    on_call = watch(harness)
    harness.give_up("create", "x")

    on_call.minutes(10)
    assert "DeadLettersNotStored" not in on_call.raised(), "not yet too long"
    on_call.minutes(5)

    assert "DeadLettersNotStored" in on_call.raised()
    harness.handle_dead_letters()
    on_call.minutes(15)
    assert "DeadLettersNotStored" not in on_call.raised()


def test_a_dead_letter_that_keeps_failing_raises_an_alarm_though_it_is_never_seen_waiting(
    harness: Harness, watch: Watch
) -> None:
    on_call = watch(harness)
    harness.give_up("create", "x")

    def take_and_fail() -> None:
        """Lambda takes it as soon as it is there, and it stays hidden long after the function has failed."""
        taken = harness.sqs.receive_message(QueueUrl=harness.dead_letter_queue, VisibilityTimeout=180)
        for message in taken.get("Messages", []):
            received = harness.as_received("create-dead", message["Body"])
            assert not dead_letters.handle_dead_letters(harness, received)

    def fail(made: Made) -> None:
        if made.handler == "dead_letters":
            raise RuntimeError

    harness.wire.before = fail
    take_and_fail()

    on_call.minutes(15, take_and_fail)

    assert "DeadLettersNotStored" in on_call.raised()


def test_a_circuit_that_stays_open_raises_an_alarm(build: Build, watch: Watch) -> None:
    harness = build(BREAKER_FAILURE_THRESHOLD="3", BREAKER_CACHE_SECONDS="0")
    on_call = watch(harness)
    harness.simulator.fault("status", status=503)

    on_call.minutes(5)
    assert "CircuitOpen" not in on_call.raised(), "not yet too long"
    on_call.minutes(12)

    assert "CircuitOpen" in on_call.raised()
    harness.simulator.clear_faults()
    on_call.minutes(15)
    assert "CircuitOpen" not in on_call.raised()


def test_an_open_circuit_that_nobody_asks_raises_none(build: Build, watch: Watch) -> None:
    harness = build(BREAKER_FAILURE_THRESHOLD="1", BREAKER_CACHE_SECONDS="0")
    on_call = watch(harness)
    harness.simulator.fault("status", CREATE, status=503)
    instance_id = harness.create()
    dead_letters.deliver_all(harness)
    harness.call("DELETE", f"/api/instances/{instance_id}")
    harness.settle()

    on_call.minutes(20)

    _, answer = harness.call("GET", "/api/circuits")
    assert {one["name"]: one["state"] for one in answer["circuits"]}["buys"] == "OPEN"
    assert not any(on_call.history("CircuitOpen"))


def test_an_orphan_raises_an_alarm_until_it_is_gone(harness: Harness, watch: Watch) -> None:
    on_call = watch(harness)
    orphan = put(harness, new_instance_id(harness.now()))

    on_call.minutes(6)

    assert "Orphans" in on_call.raised()
    harness.simulator.fault("status", status=503)
    on_call.minutes(11)
    assert "Orphans" in on_call.raised(), "that Novita does not tell is no proof that it is gone"
    harness.simulator.clear_faults()
    harness.simulator.patch_instance(orphan, status="removed")
    on_call.minutes(22)
    assert "Orphans" not in on_call.raised()


def carry_on(harness: Harness) -> None:
    harness.deliver_delayed()
    while harness.deliver():
        pass


def test_a_machine_that_is_missing_raises_an_alarm_until_it_is_found(harness: Harness, watch: Watch) -> None:
    running(harness, 2)
    on_call = watch(harness)
    harness.simulator.fault(
        "status", path="/gpu/instance", method="GET", status=400, reason="RESOURCE_NOT_FOUND"
    )

    with listing(harness, []):
        on_call.minutes(16, lambda: carry_on(harness))
        assert "Missing" in on_call.raised()
        assert "NotCompared" not in on_call.raised(), "the list is right, as far as anybody knows"

    on_call.minutes(22, lambda: carry_on(harness))
    assert "Missing" not in on_call.raised()


def test_a_machine_that_novita_will_not_delete_raises_an_alarm(harness: Harness, watch: Watch) -> None:
    (instance_id,) = running(harness)
    on_call = watch(harness)
    harness.simulator.fault("status", "/gpu/instance/delete", status=400, reason="REQUEST")
    harness.call("DELETE", f"/api/instances/{instance_id}")

    on_call.minutes(30, lambda: carry_on(harness))

    assert "CleanupStuck" in on_call.raised()
    harness.simulator.clear_faults()
    harness.settle()


def test_a_machine_that_cannot_be_brought_back_raises_an_alarm(harness: Harness, watch: Watch) -> None:
    instance_id = harness.create(onReclaim={"action": "restart", "window": "5m"})
    harness.run(60)
    on_call = watch(harness)
    harness.simulator.reclaim(harness.record(instance_id).machine.id or "", noRoomSeconds=10_000)
    harness.advance(130)

    def deliver() -> None:
        harness.deliver()
        harness.deliver_delayed()

    on_call.minutes(14, deliver)

    assert any(on_call.history("RecoveryFailed"))
    assert harness.record(instance_id).status is Status.EXITED


def test_orphans_that_are_too_many_to_be_deleted_raise_an_alarm(build: Build, watch: Watch) -> None:
    harness = build(ORPHAN_POLICY="delete", ORPHAN_AGE="0")
    on_call = watch(harness)
    orphans = [put(harness, new_instance_id(harness.now() + timedelta(seconds=n))) for n in range(4)]

    on_call.minutes(6)

    assert "DeletionsHeld" in on_call.raised()
    for orphan in orphans:
        harness.simulator.patch_instance(orphan, status="removed")


def test_a_reconciler_that_does_nothing_raises_an_alarm(harness: Harness, watch: Watch) -> None:
    on_call = watch(harness)
    on_call.minutes(6)
    assert "ReconcilerSilent" not in on_call.raised()

    harness.advance(7 * MINUTE)  # of which CloudWatch is sure after five

    assert "ReconcilerSilent" in on_call.raised()
    on_call.minutes(1)
    assert "ReconcilerSilent" not in on_call.raised()


def test_a_sweep_that_fails_is_a_silent_one(harness: Harness, watch: Watch) -> None:
    on_call = watch(harness)

    def fail(_: Made) -> None:
        raise RuntimeError

    harness.wire.before = fail
    for _ in range(6):
        with pytest.raises(RuntimeError):
            harness.sweep()
        harness.advance(MINUTE)
    harness.wire.before = None

    assert "ReconcilerSilent" in on_call.raised()


UNREADABLE = {
    "refused": {"status": 400},
    "too many calls": {"status": 429},
    "no slot": {"status": 429, "retryAfter": 3600, "times": 1},
    "an outage": {"status": 503},
    "nothing found": {"status": 400, "reason": "RESOURCE_NOT_FOUND"},
}


@pytest.mark.parametrize("fault", UNREADABLE.values(), ids=UNREADABLE.keys())
def test_a_list_that_cannot_be_read_raises_an_alarm(
    harness: Harness, watch: Watch, fault: dict[str, Any]
) -> None:
    running(harness)
    on_call = watch(harness)
    on_call.minutes(15)
    assert not any(on_call.history("NotCompared"))
    harness.simulator.fault("status", "/gpu/instances", **fault)

    on_call.minutes(15)
    raised_in_time = "NotCompared" in on_call.raised()
    on_call.minutes(15)

    assert raised_in_time
    assert "NotCompared" in on_call.raised()
    assert "ReconcilerSilent" not in on_call.raised(), "the rest of the sweep goes on"
    harness.simulator.clear_faults()
    harness.sweep()
    harness.settle()


def test_one_comparison_ends_it(harness: Harness, watch: Watch) -> None:
    on_call = watch(harness)
    harness.simulator.fault("status", "/gpu/instances", status=400)
    on_call.minutes(15)
    assert "NotCompared" in on_call.raised()

    harness.simulator.clear_faults()
    on_call.minutes(5)

    assert "NotCompared" not in on_call.raised()


def test_steps_that_nobody_takes_raise_an_alarm(harness: Harness, watch: Watch) -> None:
    on_call = watch(harness)
    harness.create()

    on_call.minutes(15)
    assert "StepsLate" not in on_call.raised()
    on_call.minutes(15)

    assert "StepsLate" in on_call.raised()
    on_call.minutes(20, harness.deliver)
    assert "StepsLate" not in on_call.raised()
    harness.settle()


def test_events_that_cannot_be_told_raise_an_alarm(harness: Harness, watch: Watch) -> None:
    on_call = watch(harness)
    harness.sns.delete_topic(TopicArn=harness.topic)
    harness.create()
    harness.announce()

    on_call.minutes(10, harness.announce)
    assert "EventsLate" not in on_call.raised(), "not yet too long"
    on_call.minutes(10, harness.announce)

    assert "EventsLate" in on_call.raised()
    harness.sns.create_topic(Name=harness.topic.rpartition(":")[2])
    on_call.minutes(20, harness.announce)
    assert "EventsLate" not in on_call.raised()
    harness.settle()


def test_a_key_that_novita_refuses_raises_an_alarm(harness: Harness, watch: Watch) -> None:
    on_call = watch(harness)
    harness.simulator.fault("status", status=401, reason="INVALID_API_KEY")

    on_call.minutes(5)

    assert "AccountRefused" in on_call.raised()
    assert on_call.metrics.of("AccountRefusals", because="key")


def test_a_key_that_shows_no_machine_of_ours_raises_an_alarm(harness: Harness, watch: Watch) -> None:
    running(harness)
    harness.simulator.settings(accounts={"another-key": "another"})
    harness.put_secret("novita", "another-key")
    harness.restart()
    on_call = watch(harness)

    on_call.minutes(10, lambda: harness.run(30))

    assert "AccountRefused" in on_call.raised()
    assert on_call.metrics.of("AccountRefusals", because="unproven")
    harness.put_secret("novita", "novita-key")
    harness.restart()
    on_call.minutes(20)
    assert "AccountRefused" not in on_call.raised()
    harness.settle()


def test_an_account_without_money_raises_an_alarm(harness: Harness, watch: Watch) -> None:
    on_call = watch(harness)
    harness.simulator.settings(balanceEnough=False)
    harness.create()

    dead_letters.deliver_all(harness)
    on_call.minutes(5)

    assert on_call.metrics.of("AccountRefusals", because="money") == [1]
    assert any(on_call.history("AccountRefused"))
    harness.settle()


def test_money_that_does_not_last_a_day_raises_an_alarm(harness: Harness, watch: Watch) -> None:
    harness.create(gpuNum=4)
    harness.settle()
    on_call = watch(harness)
    harness.simulator.settings(balance=100_000)  # 10 USD, and a day is 17.28

    on_call.minutes(16)
    assert "BalanceLow" in on_call.raised()

    harness.simulator.settings(balance=1_000_000)
    on_call.minutes(45)

    assert "BalanceLow" not in on_call.raised()


def test_a_budget_that_is_spent_raises_an_alarm(harness: Harness, watch: Watch) -> None:
    harness.create(gpuNum=4)
    harness.settle()
    body = {"limitUsd": "0.2", "period": "month"}
    assert harness.call("PUT", "/api/budgets/small", body)[0] == 200
    harness.advance(3600)
    on_call = watch(harness)

    on_call.minutes(16)
    assert "BudgetPassed" in on_call.raised()

    assert harness.call("PUT", "/api/budgets/small", {**body, "limitUsd": "20"})[0] == 200
    on_call.minutes(46)

    assert "BudgetPassed" not in on_call.raised()


def test_a_bill_that_differs_raises_an_alarm(harness: Harness, watch: Watch) -> None:
    harness.simulator.settings(billFactor=2)
    harness.create(gpuNum=4)
    harness.settle()
    harness.advance(36 * 3600)
    on_call = watch(harness)

    on_call.minutes(61)
    assert any(on_call.history("BillDiffers"))

    on_call.minutes(60)
    harness.advance(2 * 3600)

    assert "BillDiffers" not in on_call.raised(), "told once a day"


def test_an_answer_of_500_raises_an_alarm_and_one_of_503_does_not(harness: Harness, watch: Watch) -> None:
    on_call = watch(harness)
    harness.simulator.fault("status", status=503)
    quote = {"productName": "RTX 4090 24GB", "templateId": "107672", "name": "x"}
    assert harness.call("POST", "/api/quotes", quote)[0] in (502, 503, 504)
    harness.simulator.clear_faults()
    on_call.minutes(5)
    assert "ServerErrors" not in on_call.raised()

    def fail(_: Made) -> None:
        raise RuntimeError

    harness.wire.before = fail
    status, _ = harness.call("GET", "/api/instances")
    harness.wire.before = None
    on_call.minutes(5)

    assert status == 500
    assert any(on_call.history("ServerErrors"))
