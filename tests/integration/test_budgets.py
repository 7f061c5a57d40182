"""Budgets: what is spent is told at each threshold once a period, and what would be too much is not begun."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from functions.shared.domain.instance.status import Status
from functions.shared.platform.observability import BUDGETS_PASSED
from ops import keys
from tests.integration.conftest import Build, Measured
from tests.integration.harness import Harness
from tests.integration.sweeps import events
from tests.integration.wire import Killed, Made

CREATE = {"name": "test", "productName": "RTX 4090 24GB", "templateId": "107672"}
MIDMONTH = datetime(2031, 5, 14, 3, 0, tzinfo=UTC)
HOUR = 3600.0
RATE = 0.18  # USD an hour of one machine here


@pytest.fixture
def harness(build: Build) -> Harness:
    harness = build()
    harness.begin(MIDMONTH)
    return harness


def put(harness: Harness, name: str = "b", **body: Any) -> Any:
    wanted = {"limitUsd": "1", "period": "day", **body}
    status, answer = harness.call("PUT", f"/api/budgets/{name}", wanted)
    assert status == 200, answer
    return answer


def get(harness: Harness, name: str = "b") -> Any:
    status, answer = harness.call("GET", f"/api/budgets/{name}")
    assert status == 200, answer
    return answer


def pass_time(harness: Harness, hours: float) -> None:
    """With sweeps at its end, as if they had been there all the time."""
    harness.run(hours * HOUR - 300)
    for _ in range(6):
        harness.advance(60)
        harness.sweep()
        harness.deliver()


def running(harness: Harness, **body: Any) -> str:
    instance_id = harness.create(**body)
    harness.settle()
    return instance_id


def told(harness: Harness) -> list[tuple[str, int]]:
    found = events(harness, "budget.threshold")
    return sorted((one["data"]["name"], one["data"]["threshold"]) for one in found)


def refused(harness: Harness, path: str = "/api/instances", body: Any = None, key: str = "") -> Any:
    headers = {"authorization": f"Bearer {key}"} if key else {}
    status, answer = harness.call("POST", path, CREATE if body is None else body, headers)
    assert (status, answer["error"]["code"]) == (422, "BUDGET_EXCEEDED"), answer
    return answer["error"]["details"]


def test_a_budget_is_set_read_changed_and_removed(harness: Harness) -> None:
    made = put(harness, "team.a", scope={"tag": {"name": "team", "value": "a"}}, period="month")

    assert made == {
        "name": "team.a",
        "limitUsd": "1",
        "period": "month",
        "scope": {"tag": {"name": "team", "value": "a"}},
        "thresholds": [50, 80, 100],
        "action": "notify",
        "spentUsd": "0.0000",
        "periodStart": "2031-05-01T00:00:00.000Z",
        "periodEnd": "2031-06-01T00:00:00.000Z",
        "reached": [],
    }
    put(harness, "team.a", limitUsd=2.5, thresholds=[90])
    assert get(harness, "team.a")["limitUsd"] == "2.5"
    assert [one["name"] for one in harness.call("GET", "/api/budgets")[1]["budgets"]] == ["team.a"]
    assert harness.call("DELETE", "/api/budgets/team.a") == (200, {"name": "team.a", "deleted": True})
    assert harness.call("GET", "/api/budgets/team.a")[1]["error"]["code"] == "BUDGET_NOT_FOUND"
    assert harness.call("DELETE", "/api/budgets/team.a")[0] == 404


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("limitUsd", 0), ("limitUsd", "-1"), ("limitUsd", "NaN"), ("limitUsd", True), ("limitUsd", "1e9"),
        ("period", "week"), ("scope", {}), ("scope", {"key": "k", "tag": {"name": "a", "value": "b"}}),
        ("scope", "some"), ("thresholds", [0]), ("thresholds", [50.5]), ("action", "delete"), ("other", 1),
    ],
)  # fmt: skip  # one after the other
def test_a_budget_that_makes_no_sense_is_refused(harness: Harness, field: str, value: Any) -> None:
    body = {"limitUsd": "1", "period": "day", field: value}

    status, answer = harness.call("PUT", "/api/budgets/b", body)

    assert (status, answer["error"]["code"]) == (400, "VALIDATION_ERROR")
    assert harness.call("GET", "/api/budgets")[1] == {"budgets": []}


def test_only_admin_sets_budgets_and_all_readers_see_them(harness: Harness) -> None:
    key = keys.new_key()
    harness.add_key(key, "read", "write")
    theirs: dict[str, str | None] = {"authorization": f"Bearer {key}"}
    put(harness)

    assert harness.call("PUT", "/api/budgets/c", {"limitUsd": 1, "period": "day"}, theirs)[0] == 403
    assert harness.call("DELETE", "/api/budgets/b", None, theirs)[0] == 403
    assert harness.call("GET", "/api/budgets", None, theirs)[0] == 200


def test_each_threshold_is_told_once_a_period_and_a_new_period_starts_clean(harness: Harness) -> None:
    put(harness, limitUsd="1")
    running(harness)

    pass_time(harness, 3)  # 0.54

    assert told(harness) == [("b", 50)]
    assert get(harness)["reached"] == [50]
    pass_time(harness, 3)  # 1.08: two at once
    pass_time(harness, 1)
    assert told(harness) == [("b", 50), ("b", 80), ("b", 100)]
    pass_time(harness, 14.5)  # half an hour past midnight: 0.09 of the new day
    assert harness.now().date() > MIDMONTH.date()
    assert get(harness)["reached"] == []
    assert told(harness) == [("b", 50), ("b", 80), ("b", 100)]
    pass_time(harness, 3.2)
    assert told(harness).count(("b", 50)) == 2, "the new day has its own"


def test_a_months_thresholds_are_told_over_its_days_and_a_new_month_starts_clean(harness: Harness) -> None:
    harness.begin(datetime(2031, 1, 30, 20, 0, tzinfo=UTC))
    put(harness, limitUsd="4", period="month")
    running(harness)

    pass_time(harness, 15)  # 2.70, of two days

    assert told(harness) == [("b", 50)]
    pass_time(harness, 13.5)  # half an hour past midnight
    assert get(harness)["periodStart"] == "2031-02-01T00:00:00.000Z"
    assert get(harness)["reached"] == []
    assert told(harness) == [("b", 50), ("b", 80), ("b", 100)]
    pass_time(harness, 11.5)
    assert told(harness).count(("b", 50)) == 2, "the new month has its own"


@pytest.mark.parametrize("period", ["day", "month"])
def test_what_is_crossed_in_the_last_minutes_of_a_period_is_told_in_the_next_one(
    harness: Harness, measured: Measured, period: str
) -> None:
    metrics = measured(harness)
    harness.begin(datetime(2031, 5, 31, 21, 0, tzinfo=UTC))
    put(harness, limitUsd="0.5", period=period, thresholds=[100])
    running(harness)
    harness.run(2.5 * HOUR)
    harness.sweep()
    assert told(harness) == []

    harness.advance(0.6 * HOUR)  # without a sweep
    for _ in range(6):
        harness.sweep()
        harness.advance(60)

    (event,) = events(harness, "budget.threshold")
    assert event["data"]["periodStart"][:10] == ("2031-05-31" if period == "day" else "2031-05-01")
    assert event["timestamp"] > "2031-06-01"
    assert get(harness)["reached"] == []
    assert metrics.of(BUDGETS_PASSED.name), "for the alarm"


@pytest.mark.parametrize("changed", [False, True])
def test_a_period_that_was_over_when_a_budget_was_set_is_not_told_of(harness: Harness, changed: bool) -> None:
    if changed:
        put(harness, limitUsd="50")
    running(harness)
    pass_time(harness, 21.5)  # half an hour past midnight

    put(harness, limitUsd="1")
    pass_time(harness, 0.2)

    assert told(harness) == []


def test_of_another_scope_or_limit_the_thresholds_are_told_anew(harness: Harness) -> None:
    put(harness, limitUsd="0.1", thresholds=[50])
    running(harness, tags={"team": "a"})
    pass_time(harness, 1)
    assert told(harness) == [("b", 50)]

    put(harness, limitUsd="0.1", thresholds=[50], scope={"tag": {"name": "team", "value": "a"}})
    pass_time(harness, 0.2)
    assert told(harness) == [("b", 50)] * 2
    put(harness, limitUsd="0.11", thresholds=[50], scope={"tag": {"name": "team", "value": "a"}})
    pass_time(harness, 0.2)
    put(harness, limitUsd="0.1", thresholds=[50])
    pass_time(harness, 0.2)

    assert told(harness) == [("b", 50)] * 3


def test_the_same_limit_written_otherwise_is_no_other_one(harness: Harness) -> None:
    put(harness, limitUsd="0.1", thresholds=[50])
    running(harness)
    pass_time(harness, 1)

    for same in ("0.10", 0.1, "0.1000"):
        put(harness, limitUsd=same, thresholds=[50])
        pass_time(harness, 0.1)

    assert told(harness) == [("b", 50)]


def test_crossings_are_noticed_within_five_minutes_with_open_intervals(harness: Harness) -> None:
    put(harness, limitUsd="0.9")
    running(harness)
    harness.run(HOUR * 0.45 / RATE - 120)
    for _ in range(4):
        harness.sweep()
        harness.advance(60)
    assert told(harness) in ([], [("b", 50)])

    for _ in range(5):
        harness.advance(60)
        harness.sweep()

    assert told(harness) == [("b", 50)]


def test_what_has_just_ended_crosses_within_five_minutes_though_nothing_is_left(harness: Harness) -> None:
    harness.simulator.settings(removedVisibleSeconds=600)
    put(harness, limitUsd="0.1", thresholds=[100])
    mine = running(harness)
    harness.run(0.1 / RATE * HOUR - 60)
    harness.sweep()
    assert told(harness) == []
    harness.advance(90)

    ended_at = harness.now()
    harness.call("DELETE", f"/api/instances/{mine}")
    for _ in range(4):
        harness.deliver()
        harness.advance(15)
        harness.deliver_delayed()
    assert harness.record(mine).status is Status.TERMINATED
    while not told(harness):
        harness.advance(30)
        harness.sweep()
        harness.advance(30)

    assert harness.now() - ended_at <= timedelta(minutes=5)


def test_thresholds_are_told_once_though_sweeps_overlap_and_die(harness: Harness) -> None:
    put(harness, limitUsd="0.5")
    running(harness)
    harness.run(4 * HOUR)
    deaths = iter([0, 1, 2, 3, 4, 5])

    def interrupt(made: Made) -> None:
        if made.handler != "sweep" or "budgets" not in made.name:
            return
        turn = next(deaths, None)
        if turn is not None and turn % 2:
            raise Killed
        if turn is not None:
            harness.elsewhere(harness.sweep)

    harness.wire.before = interrupt
    for _ in range(12):
        harness.advance(60)
        harness.sweep()
    harness.wire.before = None
    harness.sweep()

    assert told(harness) == [("b", 50), ("b", 80), ("b", 100)]
    published = events(harness, "budget.threshold")
    assert len({one["id"] for one in published}) == 3


def test_refuse_refuses_creates_and_starts_where_the_first_hour_is_too_much(harness: Harness) -> None:
    put(harness, limitUsd="0.5", action="refuse")
    first, second = running(harness), running(harness, name="second")
    harness.call("POST", f"/api/instances/{second}/stop")
    harness.settle()
    pass_time(harness, 2)  # about 0.37 of 0.5

    details = refused(harness)

    assert (details["budget"], details["limitUsd"], details["neededUsd"]) == ("b", "0.5000", "0.1800")
    assert 0.35 < float(details["spentUsd"]) < 0.45
    refused(harness, f"/api/instances/{second}/start", {})
    assert harness.record(first).status is Status.RUNNING, "what runs goes on"
    assert harness.call("POST", f"/api/instances/{first}/restart", {})[0] == 202
    harness.settle()
    put(harness, limitUsd="5", action="refuse")
    assert harness.call("POST", f"/api/instances/{second}/start", {})[0] == 202
    harness.settle()


def test_refuse_refuses_recoveries_and_the_failure_is_told_when_room_has_been_waited_for(
    harness: Harness,
) -> None:
    mine = running(harness, onReclaim={"action": "restart", "window": "30m"})
    put(harness, limitUsd="0.1", action="refuse")
    harness.simulator.reclaim(harness.record(mine).machine.id or "", notice=False)
    harness.advance(130)
    harness.sweep()
    harness.run(300)

    _, waiting = harness.call("GET", f"/api/instances/{mine}")
    assert (waiting["status"], waiting["waitingFor"]["code"]) == ("exited", "BUDGET_EXCEEDED")
    harness.settle()
    types = [one for one in harness.history(mine) if one.startswith("recovery.")]
    assert types == ["recovery.failed"]
    assert harness.record(mine).status is Status.EXITED
    assert harness.simulator.calls("/gpu/instance/start") == []
    harness.assert_books_balance()


def test_a_budget_that_only_notifies_refuses_nothing(harness: Harness) -> None:
    put(harness, limitUsd="0.01")

    running(harness)
    pass_time(harness, 1)

    assert ("b", 100) in told(harness)
    assert harness.call("POST", "/api/instances", CREATE)[0] == 201
    harness.settle()


def test_a_purchase_is_not_made_beyond_a_budget(harness: Harness) -> None:
    instance_id = harness.create()
    put(harness, limitUsd="0.1", action="refuse")

    harness.run(120)

    _, waiting = harness.call("GET", f"/api/instances/{instance_id}")
    assert (waiting["status"], waiting["waitingFor"]["code"]) == ("creating", "BUDGET_EXCEEDED")
    harness.call("DELETE", "/api/budgets/b")
    harness.settle()
    assert harness.record(instance_id).status is Status.RUNNING


def test_stop_stops_what_runs_in_its_scope_with_notice(harness: Harness) -> None:
    put(harness, limitUsd="0.3", action="stop", scope={"tag": {"name": "team", "value": "a"}})
    mine = running(harness, tags={"team": "a"})
    other = running(harness, name="other", tags={"team": "b"})

    pass_time(harness, 2)

    assert harness.record(mine).status is Status.RUNNING, "first a notice"
    _, shown = harness.call("GET", f"/api/instances/{mine}")
    assert shown["expiry"]["stopReason"] == "budget"
    assert "instance.expiring" in harness.history(mine)
    harness.run(1200)
    harness.settle(rounds=20)
    record = harness.record(mine)
    assert (record.status, record.ended_by) == (Status.STOPPED, "budget")
    assert harness.record(other).status is Status.RUNNING
    refused(harness, f"/api/instances/{mine}/start", {})
    assert harness.history(mine).count("instance.expiring") == 1


def test_sweeps_that_die_at_any_write_stop_everything_once_and_tell_it_once(harness: Harness) -> None:
    put(harness, limitUsd="0.3", action="stop", thresholds=[100])
    mine = [running(harness, name=name) for name in "abc"]
    harness.run(2 * HOUR)
    died: list[str] = []

    def die(made: Made) -> None:
        """After the effect of the first write that nobody has died at yet."""
        which = f"{made.name} {made.about}"
        if made.handler == "sweep" and made.writes and which not in died:
            died.append(which)
            raise Killed

    harness.wire.after = die
    for _ in range(25):
        harness.advance(60)
        harness.sweep()
    harness.wire.after = None
    assert len(died) > 8, died
    harness.run(1200)
    harness.sweep()
    harness.settle()

    for instance_id in mine:
        record, history = harness.record(instance_id), harness.history(instance_id)
        assert (record.status, record.ended_by) == (Status.STOPPED, "budget")
        assert history.count("instance.expiring") == history.count("instance.stopping") == 1
    assert told(harness) == [("b", 100)]


def test_what_is_missing_is_stopped_when_it_is_found(harness: Harness) -> None:
    put(harness, limitUsd="0.3", action="stop")
    mine = running(harness)
    machine_id = harness.record(mine).machine.id or ""
    harness.simulator.hide(machine_id)
    harness.advance(300)
    harness.sweep()

    pass_time(harness, 2)  # it counts on
    harness.run(1500)

    record = harness.record(mine)
    assert record.missing
    assert (record.status, record.ended_by) == (Status.STOPPING, "budget")
    harness.simulator.show(machine_id)
    harness.settle()
    record = harness.record(mine)
    assert (record.status, record.ended_by) == (Status.STOPPED, "budget")


def test_a_stop_is_taken_back_if_the_budget_grows_meanwhile(harness: Harness) -> None:
    put(harness, limitUsd="0.3", action="stop")
    mine = running(harness)
    pass_time(harness, 2)
    assert harness.record(mine).clock.budget_stop_at

    put(harness, limitUsd="30", action="stop")
    harness.sweep()
    harness.run(HOUR)

    assert harness.record(mine).status is Status.RUNNING


def test_what_was_stopped_may_start_in_the_next_period(harness: Harness) -> None:
    put(harness, limitUsd="0.3", action="stop")
    mine = running(harness)
    pass_time(harness, 2)
    harness.run(1200)
    assert harness.record(mine).status is Status.STOPPED
    harness.advance(22 * HOUR)
    harness.sweep()

    assert harness.call("POST", f"/api/instances/{mine}/start", {})[0] == 202
    harness.settle()
    harness.run(HOUR / 2)
    assert harness.record(mine).status is Status.READY


def test_the_budget_of_a_key_counts_what_the_key_has_made(harness: Harness) -> None:
    key = keys.new_key()
    key_id = harness.add_key(key, "read", "write")
    put(harness, limitUsd="0.1", action="refuse", scope={"key": key_id})

    refused(harness, key=key)

    assert harness.call("POST", "/api/instances", CREATE)[0] == 201
    harness.settle()


def test_a_tag_counts_from_when_it_is_set(harness: Harness) -> None:
    put(harness, limitUsd="10", scope={"tag": {"name": "team", "value": "a"}})
    mine = running(harness)
    pass_time(harness, 2)
    assert get(harness)["spentUsd"] == "0.0000"

    status, _ = harness.call("PATCH", f"/api/instances/{mine}", {"tags": {"team": "a"}})
    assert status == 200
    pass_time(harness, 1)

    assert 0.15 < float(get(harness)["spentUsd"]) < 0.21


def test_a_tag_that_is_changed_counts_for_the_one_until_then_and_for_the_other_from_then_on(
    harness: Harness,
) -> None:
    for team, action in (("a", "notify"), ("b", "stop")):
        scope = {"tag": {"name": "team", "value": team}}
        put(harness, team, limitUsd="0.5", thresholds=[100], action=action, scope=scope)
    mine = running(harness, tags={"team": "a"})
    pass_time(harness, 2)

    assert harness.call("PATCH", f"/api/instances/{mine}", {"tags": {"team": "b"}})[0] == 200
    pass_time(harness, 2)
    spent = {team: float(get(harness, team)["spentUsd"]) for team in "ab"}
    assert 0.33 < spent["a"] < 0.39, "its past stays"
    assert 0.33 < spent["b"] < 0.39
    pass_time(harness, 1)
    harness.run(HOUR / 2)

    assert told(harness) == [("b", 100)]
    record = harness.record(mine)
    assert (record.status, record.ended_by) == (Status.STOPPED, "budget")


def test_without_a_budget_a_sweep_writes_nothing_for_one(harness: Harness) -> None:
    running(harness)
    harness.wire.calls.clear()

    for _ in range(6):
        harness.advance(60)
        harness.sweep()

    assert not [made for made in harness.wire.calls if made.writes and "budget" in made.name]
