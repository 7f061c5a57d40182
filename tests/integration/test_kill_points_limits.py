"""Limits, killed and overtaken at every call: nothing is lost, ended twice, or ended though extended."""

from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from functions.shared.domain.instance.status import Status
from tests.integration.conftest import Build
from tests.integration.crash_points import AROUND, FORGETFUL, Interruptions, Point, is_one, lives, sides
from tests.integration.harness import Harness
from tests.integration.test_kill_points import CREATE, Flow, _create, _died_everywhere, _recorded

MINUTE = 60.0
STOPPED = ("instance.expiring", "instance.stopping", "instance.stopped")
DELETED = ("instance.expiring", "instance.deleting", "instance.terminated")


@pytest.fixture
def harness(build: Build) -> Harness:
    made = build(**FORGETFUL)
    made.announcing = False
    return made


@pytest.mark.parametrize(
    "limits",
    [
        {"stopAfter": "20m", "deleteAfterStopped": "20m"},
        {"idleStopAfter": "20m", "idleGpuBelow": 10, "deleteAfterStopped": "20m"},
    ],
    ids=["lifetime", "idle"],
)
def test_a_function_that_dies_while_a_limit_acts_ends_everything_once(harness: Harness, limits: Any) -> None:
    harness.wiring.deployment.id()
    flow = Flow(Status.TERMINATED, (*CREATE.history, *STOPPED, *DELETED), partial(_create, limits=limits))
    _, all_of_it = _recorded(harness, flow, "recorded", "recorded")
    found = [one for one in all_of_it if one.handler == "monitor" and not is_one(one.call, AROUND)]

    _died_everywhere(harness, flow, [f"i{number}" for number in range(len(lives(found)))], found)

    assert harness.simulator.live() == []


@dataclass(frozen=True)
class Change:
    """What somebody does while a limit is about to act."""

    method: str
    path: str
    body: Any


EXTEND = Change("PATCH", "", {"limits": {"stopAfter": "10h", "idleStopAfter": None}})
USE = Change("PUT", "/last-used", {})
STOP = Change("POST", "/stop", {})
EXTEND_LIFE = Change("PATCH", "", {"limits": {"deleteAfter": "10h"}})
PROTECT = Change("PATCH", "", {"protected": True})


@pytest.mark.parametrize(
    ("limits", "change"),
    [
        ({"stopAfter": "20m"}, EXTEND),
        ({"stopAfter": "20m"}, STOP),
        ({"idleStopAfter": "20m"}, EXTEND),
        ({"idleStopAfter": "20m"}, USE),
        ({"deleteAfter": "20m"}, EXTEND_LIFE),
        pytest.param({"deleteAfter": "20m"}, PROTECT, marks=pytest.mark.soak),
    ],
    ids=["extended", "stopped", "no longer idle-limited", "used", "life extended", "protected"],
)
def test_of_a_limit_and_a_change_one_wins_and_the_record_says_which(
    harness: Harness, limits: Any, change: Change
) -> None:
    harness.wiring.deployment.id()
    recorded = harness.create(name="recorded", limits=limits)
    harness.run(15 * MINUTE)
    harness.wire.calls.clear()
    harness.run(15 * MINUTE)  # the limit acts
    stopped = [call for call in harness.wire.calls if call.handler == "monitor" and call.about == recorded]
    found = sides(stopped)
    deletes = change in (EXTEND_LIFE, PROTECT)
    assert harness.record(recorded).status is (Status.TERMINATED if deletes else Status.STOPPED)

    ids = {harness.create(name=f"i{number}", limits=limits): point for number, point in enumerate(found)}
    harness.run(15 * MINUTE)
    interruptions, answers = Interruptions(harness), dict[str, tuple[int, Any]]()

    def intervene(instance_id: str) -> None:
        path = f"/api/instances/{instance_id}{change.path}"
        answers[instance_id] = harness.call(change.method, path, change.body)

    for instance_id, point in ids.items():
        interruptions.plan(instance_id, point, partial(intervene, instance_id))
    harness.run(20 * MINUTE)
    interruptions.end()

    judged = _deleted_or_not if deletes else _outcome
    outcomes = {judged(harness, instance_id, change, answers, point) for instance_id, point in ids.items()}
    assert len(outcomes) == 2  # each of them has won somewhere
    harness.settle()
    harness.assert_books_balance()


def _outcome(
    harness: Harness, instance_id: str, change: Change, answers: dict[str, tuple[int, Any]], point: Point
) -> str:
    status, answer = answers[instance_id]
    record, history = harness.record(instance_id), harness.history(instance_id)
    stops = _stops(harness, record.machine.id)
    assert history.count("instance.stopping") <= 1, point
    if change is STOP:
        by = "user" if status == 202 else "limit"
        assert (record.status, record.ended_by) == (
            Status.STOPPED,
            "user" if by == "user" else "lifetime",
        ), point
        assert stops >= 1
        return by
    assert status == 200, (point, answer)
    if record.status is Status.RUNNING:
        assert (stops, record.ended_by) == (0, None), point
        assert answer["status"] == "running", point
        return "change"
    assert record.status is Status.STOPPED, point
    assert record.ended_by in ("lifetime", "idle"), point
    if change is EXTEND:  # and it said so
        assert answer["status"] in ("stopping", "stopped"), point
    return "limit"


def _deleted_or_not(
    harness: Harness, instance_id: str, _: Change, answers: dict[str, tuple[int, Any]], point: Point
) -> str:
    status, answer = answers[instance_id]
    record, history = harness.record(instance_id), harness.history(instance_id)
    if status == 200:
        assert (record.status, record.ended_by) == (Status.RUNNING, None), point
        assert "instance.deleting" not in history, point
        live = harness.simulator.instance(record.machine.id or "")
        assert live["actions"] == [], point
        return "change"
    assert (status, answer["error"]["code"]) == (409, "INSTANCE_ENDED"), point
    assert (record.status, record.ended_by) == (Status.TERMINATED, "lifetime"), point
    assert history.count("instance.deleting") == 1, point
    return "limit"


def _stops(harness: Harness, machine_id: str | None) -> int:
    calls = harness.simulator.calls(path="/gpu/instance/stop")
    return sum(call["body"]["instanceId"] == machine_id for call in calls)


def test_limits_that_are_far_away_cost_no_messages_and_early_messages_no_writes(harness: Harness) -> None:
    instance_id = harness.create(limits={"stopAfter": "10h"})
    harness.run(5 * MINUTE)
    before = harness.record(instance_id)
    harness.wire.calls.clear()

    harness.deliver_now(instance_id)
    harness.run(9 * 60 * MINUTE)

    assert harness.record(instance_id) == before
    assert before.next_check_at
    assert before.next_check_at > harness.now() + timedelta(minutes=30)
    about = [call for call in harness.wire.calls if call.handler == "monitor" and call.writes]
    assert [call.name for call in about if "count/" not in call.name] == []
