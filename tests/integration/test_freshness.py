"""One instance, read fresh where it matters; and what is said, and how soon, when Novita does not answer."""

import time
from datetime import datetime
from typing import Any

import pytest

from functions.shared.domain.estimate import Booted
from functions.shared.domain.status import Status
from tests.integration.conftest import Build
from tests.integration.world import World

GET = "novita GET /gpu/instance"


def asked(world: World, path: str) -> tuple[Any, list[str]]:
    """The answer, and the calls to Novita that it took."""
    before = len(world.wire.calls)
    status, answer = world.call("GET", path)
    assert status == 200, answer
    return answer, [made.name for made in world.wire.calls[before:] if made.name.startswith("novita")]


@pytest.fixture
def running(world: World) -> str:
    instance_id = world.create()
    world.settle()
    return instance_id


def test_details_younger_than_30_seconds_are_shown_as_they_are(world: World, running: str) -> None:
    world.advance(29)

    answer, calls = asked(world, f"/api/instances/{running}")

    assert calls == []
    assert answer["status"] == "running"
    assert "stale" not in answer


def test_older_details_are_asked_for_once_and_the_record_follows(world: World, running: str) -> None:
    machine_id = world.record(running).machine_id
    world.simulator.patch_instance(str(machine_id), status="exited")
    world.advance(31)

    answer, calls = asked(world, f"/api/instances/{running}")
    again, no_calls = asked(world, f"/api/instances/{running}")

    assert calls == [GET]
    assert no_calls == []
    assert answer["status"] == again["status"] == "exited"
    assert world.record(running).status is Status.EXITED
    assert world.history(running)[-1] == "instance.exited"
    _, history = world.call("GET", f"/api/instances/{running}/events")
    assert history["events"][-1]["actor"] == "system"


def test_what_has_no_machine_is_not_asked_for(world: World) -> None:
    instance_id = world.create()

    world.advance(60)
    _, calls = asked(world, f"/api/instances/{instance_id}")

    assert calls == []
    world.settle()


def test_without_novita_the_last_known_state_is_shown_and_said_to_be_old(world: World, running: str) -> None:
    fresh, _ = asked(world, f"/api/instances/{running}")
    world.advance(40)
    world.simulator.fault("status", path="/gpu/instance", status=503)

    answer, calls = asked(world, f"/api/instances/{running}")

    assert calls
    assert answer["stale"] is True
    assert answer["status"] == "running"
    assert answer["lastSyncedAt"] == fresh["lastSyncedAt"]
    assert answer["portMappings"] == fresh["portMappings"]


def _deleting(world: World) -> str:
    instance_id = world.create()
    world.settle()
    world.call("DELETE", f"/api/instances/{instance_id}")
    return instance_id


def _due(world: World) -> str:
    world.simulator.settings(bootSeconds=600)
    instance_id = world.create()
    world.deliver()
    return instance_id


@pytest.mark.parametrize("prepare", [_deleting, _due])
@pytest.mark.parametrize("silent", [True, False])
def test_what_its_step_looks_after_is_stale_if_it_is_old_and_novita_is_silent(
    world: World, prepare: Any, silent: bool
) -> None:
    instance_id = prepare(world)
    due = world.record(instance_id).next_check_at
    assert due
    world.advance(max(31.0, (due - world.now()).total_seconds() + 1))
    if silent:
        world.wiring.silence.begins()

    answer, calls = asked(world, f"/api/instances/{instance_id}")

    assert calls == []
    assert answer.get("stale", False) is silent
    world.advance(10)
    world.settle()


def test_an_open_circuit_makes_what_its_step_looks_after_stale(build: Build) -> None:
    world = build(BREAKER_FAILURE_THRESHOLD="1", SILENCE_SECONDS="0")
    instance_id = world.create()
    world.settle()
    other = _deleting(world)
    young, _ = asked(world, f"/api/instances/{other}")
    world.advance(40)
    world.simulator.fault("status", path="/gpu/instance", status=503)
    asked(world, f"/api/instances/{instance_id}")

    old, _ = asked(world, f"/api/instances/{other}")

    assert "stale" not in young
    assert old["stale"] is True
    world.simulator.clear_faults()
    world.advance(120)
    world.settle()


def test_whoever_asks_next_does_not_wait_for_novita_again(world: World, running: str) -> None:
    """Not in this process, not in another; and after some seconds Novita is asked once more."""
    world.advance(40)
    world.simulator.fault("status", path="/gpu/instance", status=503)
    asked(world, f"/api/instances/{running}")

    for _ in range(3):
        answer, calls = asked(world, f"/api/instances/{running}")
        assert (answer["stale"], calls) == (True, [])
        world.restart()

    world.simulator.clear_faults()
    world.advance(6)
    answer, calls = asked(world, f"/api/instances/{running}")
    assert calls == [GET]
    assert "stale" not in answer


def test_a_novita_that_hangs_is_waited_for_once_and_briefly(build: Build) -> None:
    world = build(LOOKUP_SECONDS="1.5")
    instance_id = world.create()
    world.settle()
    world.advance(40)
    world.simulator.fault("timeout", path="/gpu/instance")

    began = time.monotonic()
    first, _ = asked(world, f"/api/instances/{instance_id}")
    took = time.monotonic() - began
    others = [asked(world, f"/api/instances/{instance_id}") for _ in range(5)]

    assert first["stale"] is True
    assert 1.2 < took < 6
    assert all(answer["stale"] and not calls for answer, calls in others)
    assert world.wiring.circuits.states()[0].failures == 0, "those who can wait longer may still ask"


def test_an_open_circuit_is_not_waited_for_at_all(build: Build) -> None:
    world = build(BREAKER_FAILURE_THRESHOLD="1", SILENCE_SECONDS="0")
    instance_id = world.create()
    world.settle()
    world.advance(40)
    world.simulator.fault("status", path="/gpu/instance", status=503)
    asked(world, f"/api/instances/{instance_id}")

    answer, calls = asked(world, f"/api/instances/{instance_id}")

    assert (answer["stale"], calls) == (True, [])


def test_lists_say_that_they_are_not_kept_up_while_novita_does_not_answer(world: World, running: str) -> None:
    healthy, _ = asked(world, "/api/instances")
    world.advance(40)
    world.simulator.fault("status", path="/gpu/instance", status=503)
    asked(world, f"/api/instances/{running}")

    listed, calls = asked(world, "/api/instances")

    assert "stale" not in healthy
    assert (listed["stale"], calls) == (True, [])
    assert [one["instanceId"] for one in listed["instances"]] == [running]
    assert listed["instances"][0]["lastSyncedAt"]


def test_a_caller_that_looks_all_the_time_costs_novita_one_call_in_30_seconds(
    world: World, running: str
) -> None:
    world.advance(31)
    calls: list[str] = []

    for _ in range(60):
        calls += asked(world, f"/api/instances/{running}")[1]
        world.advance(1)

    assert len(calls) == 2


# When it will be ready


def _seconds_until(world: World, stamp: str) -> float:
    return (datetime.fromisoformat(stamp) - world.now()).total_seconds()


def _expected(world: World) -> float:
    request = {"name": "next", "productName": "RTX 4090 24GB", "templateId": "107672"}
    status, answer = world.call("POST", "/api/instances", request)
    assert status == 201
    return _seconds_until(world, answer["estimatedReadyTime"])


def test_ready_is_expected_in_four_minutes_until_boots_have_been_seen(world: World) -> None:
    world.simulator.settings(bootSeconds=100)

    assert _expected(world) == pytest.approx(240, abs=1)
    for _ in range(4):
        world.create()
    world.settle()

    assert _expected(world) == pytest.approx(100, abs=20)
    world.settle()


def test_a_start_is_expected_to_take_as_long_as_starts_took(world: World, running: str) -> None:
    world.simulator.settings(startSeconds=40)
    known = world.record(running)
    for _ in range(3):
        world.wiring.boots.learn(Booted("start", str(known.product_id), str(known.region), 40.0))
    expected = []
    for _ in range(2):  # the first is the fourth that was seen
        world.call("POST", f"/api/instances/{running}/stop")
        world.settle()
        _, answer = world.call("POST", f"/api/instances/{running}/start")
        expected.append(_seconds_until(world, answer["estimatedReadyTime"]))
        world.settle()

    assert expected == pytest.approx([240, 40], abs=10)
