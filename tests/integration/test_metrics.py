"""What the functions tell of their work: the right numbers, once, under the right names."""

import pytest

from functions.shared.domain.instance.status import Status
from functions.shared.platform.observability import choose_metrics
from tests.integration.conftest import Build, Measured
from tests.integration.harness import Harness
from tests.integration.sweeps import put_bought, running

CREATE = "/gpu/instance/create"


def test_a_create_is_counted_once_from_request_to_ready(harness: Harness, measured: Measured) -> None:
    metrics = measured(harness)
    harness.simulator.settings(bootSeconds=90)

    instance_id = harness.create()
    harness.settle()

    record = harness.record(instance_id)
    assert record.ready_at
    assert metrics.of("InstancesAccepted") == [1]
    assert metrics.of("Purchases") == metrics.of("Purchases", outcome="bought") == [1]
    (took,) = metrics.of("TimeToReady")
    assert took == pytest.approx((record.ready_at - record.created_at).total_seconds(), abs=0.002)
    assert took >= 90


def test_the_same_request_again_is_not_counted_again(harness: Harness, measured: Measured) -> None:
    metrics = measured(harness)
    request = {"name": "twice", "productName": "RTX 4090 24GB", "templateId": "107672"}
    for _ in range(2):
        harness.call("POST", "/api/instances", request, {"idempotency-key": "one"})

    harness.settle()

    assert metrics.of("InstancesAccepted") == [1]


def test_a_later_start_is_no_second_time_to_ready(harness: Harness, measured: Measured) -> None:
    metrics = measured(harness)
    instance_id = harness.create()
    harness.settle()
    harness.call("POST", f"/api/instances/{instance_id}/stop")
    harness.settle()

    harness.call("POST", f"/api/instances/{instance_id}/start", {})
    harness.settle()

    assert harness.record(instance_id).status is Status.READY
    assert len(metrics.of("TimeToReady")) == 1


def test_a_failure_is_counted_by_its_code(harness: Harness, measured: Measured) -> None:
    metrics = measured(harness)
    harness.simulator.settings(balanceEnough=False)

    harness.create()
    harness.settle()

    assert metrics.of("InstancesFailed") == metrics.of("InstancesFailed", code="NOVITA_REJECTED") == [1]
    assert metrics.of("Purchases", outcome="refused") == [1]
    assert metrics.of("TimeToReady") == []


def test_calls_to_novita_are_counted_with_their_time_and_errors(harness: Harness, measured: Measured) -> None:
    metrics = measured(harness)
    harness.simulator.fault("status", CREATE, status=500, reason="UNKNOWN", times=1)

    harness.create()
    harness.settle()

    calls = harness.simulator.calls()
    bought = len(harness.simulator.calls(CREATE))
    assert len(metrics.of("NovitaCalls")) == len(calls) == len(metrics.of("NovitaLatency"))
    assert len(metrics.of("NovitaCalls", circuit="buys")) == bought == 2
    assert all(took > 0 for took in metrics.of("NovitaLatency", circuit="reads"))
    assert metrics.of("NovitaErrors") == metrics.of("NovitaErrors", circuit="buys") == [1]
    assert metrics.of("Purchases", outcome="unclear") == [1]


def test_circuits_are_told_when_they_open_and_when_they_close(build: Build, measured: Measured) -> None:
    harness = build(BREAKER_FAILURE_THRESHOLD="1", BREAKER_CACHE_SECONDS="0")
    metrics = measured(harness)
    harness.simulator.fault("status", CREATE, status=500, reason="UNKNOWN", times=1)
    harness.create()
    harness.settle()

    assert metrics.of("CircuitsOpened", circuit="buys") == [1]
    assert metrics.of("CircuitsClosed", circuit="buys") == [1]
    assert set(metrics.of("CircuitsOpen", circuit="buys")) <= {1}


def test_waits_for_a_slot_are_told_with_their_length(build: Build, measured: Measured) -> None:
    harness = build(NOVITA_RATE_LIMIT="12")
    metrics = measured(harness)
    for _ in range(4):
        harness.create()
    harness.settle()

    assert any(waited > 1000 for waited in metrics.of("LimiterWait"))
    assert metrics.of("LimiterRefusals"), "not all wait so long"


def test_webhook_attempts_are_counted_by_what_became_of_them(build: Build, measured: Measured) -> None:
    harness = build(WEBHOOK_WAITS="1")
    harness.simulator.answer("good", status=200)
    harness.simulator.answer("bad", status=500)
    metrics = measured(harness)
    for box in ("good", "bad"):
        harness.create(name=box, webhookUrl=harness.simulator.inbox_url(box))
    harness.settle()
    harness.run(120)
    harness.sweep()
    harness.deliver()

    assert set(metrics.of("WebhookAttempts", state="delivered")) == {1}
    assert len(metrics.of("WebhookAttempts", state="delivered")) == 3
    assert metrics.of("WebhookAttempts", state="pending")


def test_a_machine_too_many_is_counted_once(harness: Harness, measured: Measured) -> None:
    metrics = measured(harness)
    (instance_id,) = running(harness)
    put_bought(harness, instance_id, purchase=2)

    for _ in range(3):
        harness.sweep()
        harness.settle()

    assert metrics.of("Surplus") == metrics.of("Surplus", action="delete") == [1]


def test_a_sweep_tells_how_things_stand(harness: Harness, measured: Measured) -> None:
    metrics = measured(harness)
    running(harness, 2)
    before = len(metrics.of("Sweeps"))

    harness.sweep()

    assert len(metrics.of("Sweeps")) == before + 1
    assert metrics.of("Machines")[-1] == 2
    assert metrics.of("SweepDuration")[-1] > 0
    for zero in ("Orphans", "Missing", "DeadLettersKept", "OldestOverdue", "CircuitsOpen"):
        assert metrics.of(zero) == [], "nothing to tell costs nothing"


def test_a_sweep_tells_what_it_set_going_again(harness: Harness, measured: Measured) -> None:
    metrics = measured(harness)
    harness.create()
    harness.advance(300)

    harness.sweep()

    assert metrics.of("Overdue", kind="instances") == [1]
    assert metrics.of("OldestOverdue")[-1] == pytest.approx(300, abs=1)
    harness.settle()


def test_a_limit_that_a_sweep_finds_when_it_is_due_is_not_late(harness: Harness, measured: Measured) -> None:
    metrics = measured(harness)
    instance_id = harness.create(limits={"stopAfter": "90m"})
    harness.run(120)
    before = len(metrics.of("OldestOverdue"))
    harness.advance(80 * 60 - 120 + 60)  # its notice is due
    harness.sweep()
    harness.deliver()
    found, soon = harness.history(instance_id), len(metrics.of("OldestOverdue"))

    harness.advance(20 * 60)  # nobody sweeps, and messages are lost
    harness.sweep()

    assert "instance.expiring" in found
    assert soon == before
    assert metrics.of("OldestOverdue")[-1] == pytest.approx(11 * 60, abs=60)
    assert metrics.of("Overdue", kind="instances")[-1] == 1
    harness.settle()


@pytest.mark.parametrize(("which", "told"), [("all", 7), ("alarms", 2), ("off", 0)])
def test_a_quiet_sweep_tells_few_metrics(harness: Harness, measured: Measured, which: str, told: int) -> None:
    """Each costs money while nothing happens."""
    metrics = measured(harness)
    choose_metrics(which)
    harness.sweep()
    harness.sweep()
    choose_metrics("all")

    assert len({(one.metric, one.dimensions) for one in metrics.points}) == told
