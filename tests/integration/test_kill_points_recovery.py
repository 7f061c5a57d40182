"""Functions killed at every call of a recovery: exactly one machine in the end, and its end told once."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from functions.api.use_cases import create_instance
from functions.shared.domain.instance.status import Status
from tests.integration.conftest import Build
from tests.integration.crash_points import AROUND, FORGETFUL, Crashes, Point, is_one, lives, points
from tests.integration.harness import Harness

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


def recorded(harness: Harness, action: str) -> list[Point]:
    ids = running(harness, action, 1)
    harness.wire.calls.clear()
    taken_away(harness, action, ids)
    made = [call for call in harness.wire.calls if call.handler in ("create", "monitor")]
    return [point for point in points(made) if not is_one(point.call, AROUND)]


@pytest.mark.parametrize("action", ["restart", pytest.param("replace", marks=pytest.mark.soak)])
def test_whoever_dies_while_it_is_brought_back_is_followed_by_another(harness: Harness, action: str) -> None:
    planned = lives(recorded(harness, action))
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
