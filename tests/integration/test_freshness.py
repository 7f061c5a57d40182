"""One instance, read fresh where it matters; and what is said, and how soon, when Novita does not answer."""

import time
from datetime import datetime
from typing import Any

import pytest

from functions.shared.domain.instance.boot_times import BootTime
from functions.shared.domain.instance.status import Status
from tests.integration.conftest import Build
from tests.integration.harness import Harness

GET = "novita GET /gpu/instance"


def asked(harness: Harness, path: str) -> tuple[Any, list[str]]:
    """The answer, and the calls to Novita that it took."""
    before = len(harness.wire.calls)
    status, answer = harness.call("GET", path)
    assert status == 200, answer
    return answer, [made.name for made in harness.wire.calls[before:] if made.name.startswith("novita")]


@pytest.fixture
def running(harness: Harness) -> str:
    instance_id = harness.create()
    harness.settle()
    return instance_id


def test_details_younger_than_30_seconds_are_shown_as_they_are(harness: Harness, running: str) -> None:
    harness.advance(29)

    answer, calls = asked(harness, f"/api/instances/{running}")

    assert calls == []
    assert answer["status"] == "running"
    assert "stale" not in answer


def test_older_details_are_asked_for_once_and_the_record_follows(harness: Harness, running: str) -> None:
    machine_id = harness.record(running).machine.id
    harness.simulator.patch_instance(str(machine_id), status="exited")
    harness.advance(31)

    answer, calls = asked(harness, f"/api/instances/{running}")
    again, no_calls = asked(harness, f"/api/instances/{running}")

    assert calls == [GET]
    assert no_calls == []
    assert answer["status"] == again["status"] == "exited"
    assert harness.record(running).status is Status.EXITED
    assert harness.history(running)[-1] == "instance.exited"
    _, history = harness.call("GET", f"/api/instances/{running}/events")
    assert history["events"][-1]["actor"] == "system"


def test_what_has_no_machine_is_not_asked_for(harness: Harness) -> None:
    instance_id = harness.create()

    harness.advance(60)
    _, calls = asked(harness, f"/api/instances/{instance_id}")

    assert calls == []
    harness.settle()


def test_without_novita_the_last_known_state_is_shown_and_said_to_be_old(
    harness: Harness, running: str
) -> None:
    fresh, _ = asked(harness, f"/api/instances/{running}")
    harness.advance(40)
    harness.simulator.fault("status", path="/gpu/instance", status=503)

    answer, calls = asked(harness, f"/api/instances/{running}")

    assert calls
    assert answer["stale"] is True
    assert answer["status"] == "running"
    assert answer["lastSyncedAt"] == fresh["lastSyncedAt"]
    assert answer["portMappings"] == fresh["portMappings"]


def _deleting(harness: Harness) -> str:
    instance_id = harness.create()
    harness.settle()
    harness.call("DELETE", f"/api/instances/{instance_id}")
    return instance_id


def _due(harness: Harness) -> str:
    harness.simulator.settings(bootSeconds=600)
    instance_id = harness.create()
    harness.deliver()
    return instance_id


@pytest.mark.parametrize("prepare", [_deleting, _due])
@pytest.mark.parametrize("silent", [True, False])
def test_what_its_step_looks_after_is_stale_if_it_is_old_and_novita_does_not_answer(
    harness: Harness, prepare: Any, silent: bool
) -> None:
    instance_id = prepare(harness)
    due = harness.record(instance_id).next_check_at
    assert due
    harness.advance(max(31.0, (due - harness.now()).total_seconds() + 1))
    if silent:
        harness.wiring.recent_outage.note()

    answer, calls = asked(harness, f"/api/instances/{instance_id}")

    assert calls == []
    assert answer.get("stale", False) is silent
    harness.advance(10)
    harness.settle()


def test_an_open_circuit_makes_what_its_step_looks_after_stale(build: Build) -> None:
    harness = build(BREAKER_FAILURE_THRESHOLD="1", SILENCE_SECONDS="0")
    instance_id = harness.create()
    harness.settle()
    other = _deleting(harness)
    young, _ = asked(harness, f"/api/instances/{other}")
    harness.advance(40)
    harness.simulator.fault("status", path="/gpu/instance", status=503)
    asked(harness, f"/api/instances/{instance_id}")

    old, _ = asked(harness, f"/api/instances/{other}")

    assert "stale" not in young
    assert old["stale"] is True
    harness.simulator.clear_faults()
    harness.advance(120)
    harness.settle()


def test_whoever_asks_next_does_not_wait_for_novita_again(harness: Harness, running: str) -> None:
    """Not in this process, not in another; and after some seconds Novita is asked once more."""
    harness.advance(40)
    harness.simulator.fault("status", path="/gpu/instance", status=503)
    asked(harness, f"/api/instances/{running}")

    for _ in range(3):
        answer, calls = asked(harness, f"/api/instances/{running}")
        assert (answer["stale"], calls) == (True, [])
        harness.restart()

    harness.simulator.clear_faults()
    harness.advance(6)
    answer, calls = asked(harness, f"/api/instances/{running}")
    assert calls == [GET]
    assert "stale" not in answer


def test_a_novita_that_hangs_is_waited_for_once_and_briefly(build: Build) -> None:
    harness = build(LOOKUP_SECONDS="1.5")
    instance_id = harness.create()
    harness.settle()
    harness.advance(40)
    harness.simulator.fault("timeout", path="/gpu/instance")

    began = time.monotonic()
    first, _ = asked(harness, f"/api/instances/{instance_id}")
    took = time.monotonic() - began
    others = [asked(harness, f"/api/instances/{instance_id}") for _ in range(5)]

    assert first["stale"] is True
    assert 1.2 < took < 6
    assert all(answer["stale"] and not calls for answer, calls in others)
    assert harness.wiring.circuits.states()[0].failures == 0, "those who can wait longer may still ask"


def test_an_open_circuit_is_not_waited_for_at_all(build: Build) -> None:
    harness = build(BREAKER_FAILURE_THRESHOLD="1", SILENCE_SECONDS="0")
    instance_id = harness.create()
    harness.settle()
    harness.advance(40)
    harness.simulator.fault("status", path="/gpu/instance", status=503)
    asked(harness, f"/api/instances/{instance_id}")

    answer, calls = asked(harness, f"/api/instances/{instance_id}")

    assert (answer["stale"], calls) == (True, [])


def test_lists_say_that_they_are_not_kept_up_while_novita_does_not_answer(
    harness: Harness, running: str
) -> None:
    healthy, _ = asked(harness, "/api/instances")
    harness.advance(40)
    harness.simulator.fault("status", path="/gpu/instance", status=503)
    asked(harness, f"/api/instances/{running}")

    listed, calls = asked(harness, "/api/instances")

    assert "stale" not in healthy
    assert (listed["stale"], calls) == (True, [])
    assert [one["instanceId"] for one in listed["instances"]] == [running]
    assert listed["instances"][0]["lastSyncedAt"]


def test_a_caller_that_looks_all_the_time_costs_novita_one_call_in_30_seconds(
    harness: Harness, running: str
) -> None:
    harness.advance(31)
    calls: list[str] = []

    for _ in range(60):
        calls += asked(harness, f"/api/instances/{running}")[1]
        harness.advance(1)

    assert len(calls) == 2


# When it will be ready


def _seconds_until(harness: Harness, stamp: str) -> float:
    return (datetime.fromisoformat(stamp) - harness.now()).total_seconds()


def _expected(harness: Harness) -> float:
    request = {"name": "next", "productName": "RTX 4090 24GB", "templateId": "107672"}
    status, answer = harness.call("POST", "/api/instances", request)
    assert status == 201
    return _seconds_until(harness, answer["estimatedReadyTime"])


def test_ready_is_expected_in_four_minutes_until_boots_have_been_seen(harness: Harness) -> None:
    harness.simulator.settings(bootSeconds=100)

    assert _expected(harness) == pytest.approx(240, abs=1)
    for _ in range(4):
        harness.create()
    harness.settle()

    assert _expected(harness) == pytest.approx(100, abs=20)
    harness.settle()


def test_a_start_is_expected_to_take_as_long_as_starts_took(harness: Harness, running: str) -> None:
    harness.simulator.settings(startSeconds=40)
    known = harness.record(running)
    for _ in range(3):
        harness.wiring.boot_times.learn(
            BootTime("start", str(known.machine.product_id), str(known.machine.region), 40.0)
        )
    expected = []
    for _ in range(2):  # the first is the fourth that was seen
        harness.call("POST", f"/api/instances/{running}/stop")
        harness.settle()
        _, answer = harness.call("POST", f"/api/instances/{running}/start")
        expected.append(_seconds_until(harness, answer["estimatedReadyTime"]))
        harness.settle()

    assert expected == pytest.approx([240, 40], abs=10)
