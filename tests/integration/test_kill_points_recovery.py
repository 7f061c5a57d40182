"""Functions killed, or met by a user's stop or delete, at every call of a recovery: one machine in the end or
none, never two, and how it ended told once."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from typing import Any

import pytest

from functions.api.use_cases import create_instance
from functions.shared.domain.ids import read_mark
from functions.shared.domain.instance.status import Status
from tests.integration.conftest import Build
from tests.integration.crash_points import (
    AROUND,
    FORGETFUL,
    Crashes,
    Interruptions,
    Point,
    is_one,
    lives,
    points,
    sides,
)
from tests.integration.harness import Harness
from tests.integration.wire import Made

WISHES = {
    "restart": {"action": "restart"},
    "replace": {"action": "replace", "replaceAfter": "1m"},
}


@pytest.fixture
def harness(build: Build, monkeypatch: pytest.MonkeyPatch) -> Harness:
    # One look-up after the other, so that every run makes the same calls in the same order.
    monkeypatch.setattr(create_instance, "ThreadPoolExecutor", lambda _: ThreadPoolExecutor(1))
    made = build(**FORGETFUL)
    made.announcing = False
    made.cold = lambda _: True
    return made


def running(harness: Harness, action: str, count: int) -> list[str]:
    ids = [harness.create(name=f"i{number}", onReclaim=WISHES[action]) for number in range(count)]
    harness.settle(schedule=False)
    return ids


def taken_away(harness: Harness, action: str, ids: list[str]) -> None:
    for instance_id in ids:
        machine_id = harness.record(instance_id).machine.id or ""
        no_room = 100_000 if action == "replace" else 45
        harness.simulator.reclaim(machine_id, notice=False, noRoomSeconds=no_room)
    harness.advance(130)
    harness.sweep()
    harness.settle(2000, schedule=False)


def recorded(harness: Harness, action: str) -> list[Made]:
    ids = running(harness, action, 1)
    harness.wire.calls.clear()
    taken_away(harness, action, ids)
    return [call for call in harness.wire.calls if call.handler in ("create", "monitor")]


def worth_it(made: list[Made]) -> list[Point]:
    return [point for point in points(made) if not is_one(point.call, AROUND)]


@pytest.mark.parametrize("action", WISHES)
def test_whoever_dies_while_it_is_brought_back_is_followed_by_another(harness: Harness, action: str) -> None:
    planned = lives(worth_it(recorded(harness, action)))
    ids = running(harness, action, len(planned))
    crashes = Crashes(harness)
    for instance_id, some in zip(ids, planned, strict=True):
        crashes.plan(instance_id, some)

    taken_away(harness, action, ids)

    crashes.end()
    calls = {point.call for some in planned for point in some}
    wanted = {"restart": "start", "replace": "delete"}
    assert f"novita POST /gpu/instance/{wanted[action]}" in calls
    for instance_id, some in zip(ids, planned, strict=True):
        types = [one for one in harness.history(instance_id) if one.startswith("recovery.")]
        assert types == ["recovery.started", "recovery.completed"], some
        assert harness.record(instance_id).status is Status.RUNNING, some
    harness.assert_books_balance()


ENDS = {"stop": ("POST", "/stop"), "delete": ("DELETE", "")}
# Stopped when its machine was given back already, it has none to stop.
ENDED = {"stop": (Status.STOPPED, Status.FAILED), "delete": (Status.TERMINATED,)}


@pytest.mark.parametrize("action", WISHES)
@pytest.mark.parametrize(
    "asked",
    [["stop", "delete"], *(pytest.param([one], marks=pytest.mark.soak) for one in ENDS)],
    ids=" and ".join,
)
def test_what_a_user_ends_at_any_call_of_a_recovery_ends(
    harness: Harness, action: str, asked: list[str]
) -> None:
    """At one call the one, at the next one the other; each at both sides of every call in the long form."""
    made = recorded(harness, action)
    found = sides(made) if len(asked) == 1 else worth_it(made)
    ids = running(harness, action, len(found))
    meetings, ends = Interruptions(harness), {}
    for number, (instance_id, point) in enumerate(zip(ids, found, strict=True)):
        ends[instance_id] = asked[number % len(asked)]
        meetings.plan(instance_id, point, partial(end, harness, instance_id, ends[instance_id]))

    taken_away(harness, action, ids)

    meetings.end()
    machines = machines_of(harness)
    for instance_id, point in zip(ids, found, strict=True):
        record, own = harness.record(instance_id), machines[instance_id]
        assert record.status in ENDED[ends[instance_id]], point
        for one, another in pairwise(own):
            assert one["removedAt"], point
            assert one["removedAt"] < another["createdAt"], point
        left = [one["status"] for one in own if one["removedAt"] is None]
        assert left == ["exited"] * (record.status is Status.STOPPED), point
        assert harness.history(instance_id).count("recovery.failed") <= 1, point
    harness.assert_books_balance()


def end(harness: Harness, instance_id: str, asked: str) -> None:
    method, way = ENDS[asked]
    status, answer = harness.call(method, f"/api/instances/{instance_id}{way}")
    assert status == 202, answer


def machines_of(harness: Harness) -> dict[str, list[Any]]:
    """Of each instance, those that ever were, the first one first."""
    found: dict[str, list[Any]] = {}
    for one in sorted(harness.simulator.instances(), key=lambda one: str(one["createdAt"])):
        mark = read_mark(one["name"], harness.wiring.deployment.id())
        found.setdefault(mark.instance_id if mark else "", []).append(one)
    return found
