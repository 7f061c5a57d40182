"""Stopped for idleness: only if every source says so, and never against a use that was noted in time."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from functions.shared.domain.instance.status import Status
from tests.integration.conftest import Build
from tests.integration.harness import Harness
from tests.integration.wire import Made

MINUTE, HOUR = 60.0, 3600.0
METRICS = "/openapi/v1/metrics/gpu/instance"
GPU_LIMITS = {"idleStopAfter": "30m", "idleGpuBelow": 10}


def _running(harness: Harness, **body: Any) -> str:
    instance_id = harness.create(**body)
    harness.run(2 * MINUTE)
    assert harness.record(instance_id).status in (Status.RUNNING, Status.READY)
    return instance_id


def _get(harness: Harness, instance_id: str) -> Any:
    return harness.call("GET", f"/api/instances/{instance_id}")[1]


def _use(harness: Harness, instance_id: str) -> Any:
    return harness.call("PUT", f"/api/instances/{instance_id}/last-used", {})[1]


def _ready_at(harness: Harness, instance_id: str) -> datetime:
    return datetime.fromisoformat(_get(harness, instance_id)["readyAt"])


def _stopped_at(harness: Harness, instance_id: str) -> datetime | None:
    _, shown = harness.call("GET", f"/api/instances/{instance_id}/events")
    found = [one["timestamp"] for one in shown["events"] if one["type"] == "instance.stopping"]
    return datetime.fromisoformat(found[0]) if found else None


def _asked(harness: Harness) -> int:
    return len(harness.simulator.calls(path=METRICS))


def _busy(harness: Harness, instance_id: str, *percent: float | None) -> None:
    harness.simulator.patch_instance(
        harness.record(instance_id).machine.id or "", gpuUtilization=list(percent)
    )


def test_what_nobody_uses_is_stopped_as_idle_from_ready(harness: Harness) -> None:
    instance_id = _running(harness, limits={"idleStopAfter": "30m"}, healthCheck={})
    shown = _get(harness, instance_id)

    harness.settle()

    stopped, ready = _stopped_at(harness, instance_id), _ready_at(harness, instance_id)
    assert stopped
    assert timedelta() <= stopped - ready - timedelta(minutes=30) <= timedelta(seconds=75)
    assert shown["expiry"]["stopReason"] == "idle"
    assert _get(harness, instance_id)["endedBy"] == "idle"
    assert harness.history(instance_id).count("instance.expiring") == 1
    assert _asked(harness) == 0  # nobody asked for metrics


def test_a_use_moves_the_stop_and_every_view_shows_it(harness: Harness) -> None:
    instance_id = _running(harness, limits={"idleStopAfter": "30m"})
    harness.run(15 * MINUTE)
    used = _use(harness, instance_id)
    used_at = datetime.fromisoformat(used["lastUsedAt"])
    listed = harness.call("GET", "/api/instances")[1]["instances"][0]
    merged = harness.call("GET", "/api/instances/comprehensive")[1]["instances"][0]

    harness.settle()

    expected = used_at + timedelta(minutes=30)
    for view in (used, listed, merged):
        assert datetime.fromisoformat(view["expiry"]["stopAt"]) == expected
    stopped = _stopped_at(harness, instance_id)
    assert stopped
    assert timedelta() <= stopped - expected <= timedelta(seconds=75)


def test_nothing_is_idle_while_it_comes_up_and_a_start_counts_anew(harness: Harness) -> None:
    instance_id = _running(harness, limits={"idleStopAfter": "5m"})
    harness.settle()
    assert _get(harness, instance_id)["endedBy"] == "idle"
    harness.simulator.settings(startSeconds=600)
    harness.call("POST", f"/api/instances/{instance_id}/start", {})
    harness.run(9 * MINUTE)
    coming_up = harness.record(instance_id).status

    harness.run(4 * MINUTE)
    ready = harness.record(instance_id).status
    harness.settle()

    assert (coming_up, ready) == (Status.STARTING, Status.READY)
    assert _get(harness, instance_id)["status"] == "stopped"


def test_a_use_noted_while_the_stop_is_being_decided_wins(harness: Harness) -> None:
    instance_id = _running(harness, limits={"idleStopAfter": "30m"})
    noted: list[str] = []

    def use_meanwhile(made: Made) -> None:
        if made.writes and "instance.stopping" in str(made.params) and not noted:
            noted.append(harness.elsewhere(lambda: _use(harness, instance_id))["lastUsedAt"])

    harness.wire.before = use_meanwhile
    harness.run(40 * MINUTE)
    harness.wire.before = None

    assert noted
    assert harness.record(instance_id).status is Status.RUNNING
    assert "instance.stopping" not in harness.history(instance_id)
    harness.settle()
    stopped = _stopped_at(harness, instance_id)
    assert stopped
    assert stopped >= datetime.fromisoformat(noted[0]) + timedelta(minutes=30)


def test_gpus_are_asked_once_when_time_is_otherwise_up(harness: Harness) -> None:
    instance_id = _running(harness, limits=GPU_LIMITS)
    harness.run(20 * MINUTE)
    _use(harness, instance_id)
    harness.run(20 * MINUTE)
    before = _asked(harness)

    harness.settle()

    assert before == 0
    assert _asked(harness) == 1
    (call,) = harness.simulator.calls(path=METRICS)
    assert int(call["query"]["endTime"]) - int(call["query"]["startTime"]) == 30 * MINUTE
    assert _get(harness, instance_id)["endedBy"] == "idle"


def test_a_busy_gpu_of_four_keeps_it_running_and_it_is_asked_again_later(harness: Harness) -> None:
    instance_id = _running(harness, gpuNum=4, limits=GPU_LIMITS)
    _busy(harness, instance_id, 0, 0, 95, 0)
    harness.run(3 * HOUR)
    asked_while_busy, busy = _asked(harness), harness.record(instance_id).status
    _busy(harness, instance_id, 0, 0, 0, 0)
    idle_from = harness.now()

    harness.settle()

    assert busy is Status.RUNNING
    assert 4 <= asked_while_busy <= 7  # once for each window
    stopped = _stopped_at(harness, instance_id)
    assert stopped
    assert timedelta(minutes=28) <= stopped - idle_from <= timedelta(minutes=33)


def _unreadable(harness: Harness, _: str) -> None:
    harness.simulator.fault("status", path=METRICS, status=500, times=1000)


def _garbage(harness: Harness, _: str) -> None:
    harness.simulator.fault("garbage", path=METRICS, times=1000)


def _refused(harness: Harness, _: str) -> None:
    harness.simulator.fault("status", path=METRICS, status=403, times=1000)


def _late(harness: Harness, _: str) -> None:
    harness.simulator.settings(metricsLagSeconds=900)


def _one_of_four(harness: Harness, instance_id: str) -> None:
    _busy(harness, instance_id, 0, None, None, None)


def _absent(harness: Harness, instance_id: str) -> None:
    _busy(harness, instance_id, None, None, None, None)


@pytest.mark.parametrize("how", [_unreadable, _garbage, _refused, _late, _one_of_four, _absent])
def test_what_metrics_do_not_tell_means_in_use(harness: Harness, how: Any) -> None:
    instance_id = _running(harness, gpuNum=4, limits=GPU_LIMITS)
    how(harness, instance_id)

    harness.run(3 * HOUR)

    assert harness.record(instance_id).status is Status.RUNNING
    assert 3 <= _asked(harness) <= 24  # again and again, and not every poll
    assert harness.history(instance_id).count("instance.expiring") == 1


def test_a_gap_in_the_samples_means_in_use(harness: Harness) -> None:
    instance_id = _running(harness, limits=GPU_LIMITS)
    harness.run(15 * MINUTE)
    _busy(harness, instance_id, None)
    harness.run(5 * MINUTE)
    _busy(harness, instance_id, 0.0)

    harness.run(12 * MINUTE)
    with_gap = harness.record(instance_id).status
    harness.settle()

    assert with_gap is Status.RUNNING
    assert _get(harness, instance_id)["endedBy"] == "idle"  # when a whole window is known


def test_metrics_never_take_more_than_a_tenth_of_the_rate_limit(build: Build) -> None:
    harness = build(NOVITA_RATE_LIMIT="40")
    made = harness.simulator.put_instances(12, status="running", name="gpu")
    for machine_id in made:
        body = {"novitaInstanceId": machine_id, "limits": GPU_LIMITS}
        status, _ = harness.call("POST", "/api/instances/import", body)
        assert status == 201
        harness.advance(8)
    harness.simulator.clear_calls()

    harness.settle()

    times = [call["time"] for call in harness.simulator.calls(path=METRICS)]
    assert len(times) >= len(made)
    assert max(sum(0 <= later - at < 60 for later in times) for at in times) <= 4
    assert {record.status for record in harness.records()} == {Status.STOPPED}
