"""Time limits: when they stop and delete, what they are counted from, who wins against a change."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from functions.shared.domain.instance.status import Status
from tests.integration.conftest import Build
from tests.integration.harness import Harness

MINUTE, HOUR = 60.0, 3600.0


def _get(harness: Harness, instance_id: str) -> Any:
    status, shown = harness.call("GET", f"/api/instances/{instance_id}")
    assert status == 200, shown
    return shown


def _patch(harness: Harness, instance_id: str, **body: Any) -> Any:
    status, shown = harness.call("PATCH", f"/api/instances/{instance_id}", body)
    assert status == 200, shown
    return shown


def _events(harness: Harness, instance_id: str, type_: str) -> list[Any]:
    _, shown = harness.call("GET", f"/api/instances/{instance_id}/events")
    return [event for event in shown["events"] if event["type"] == type_]


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _at(event: Any) -> datetime:
    return _moment(event["timestamp"])


def _first(harness: Harness, instance_id: str, type_: str) -> datetime:
    return _at(_events(harness, instance_id, type_)[0])


def _within_a_minute(actual: datetime, expected: datetime) -> bool:
    return timedelta() <= actual - expected <= timedelta(seconds=75)  # a sweep and its grace


def _running(harness: Harness, **body: Any) -> str:
    instance_id = harness.create(**body)
    harness.run(2 * MINUTE)
    assert harness.record(instance_id).status is Status.RUNNING
    return instance_id


def _set_stock(harness: Harness, stock: int) -> None:
    for product in harness.simulator.products():
        harness.simulator.patch_product(product["id"], stock=stock)


def _hide(harness: Harness, instance_id: str) -> str:
    """Until it is known to be missing."""
    machine_id = harness.record(instance_id).machine.id or ""
    harness.simulator.hide(machine_id)
    harness.run(5 * MINUTE)  # it was seen lately, and a list may lag
    harness.sweep()
    harness.run(10 * MINUTE)
    assert harness.record(instance_id).missing
    return machine_id


def _in(harness: Harness, **delta: float) -> str:
    return (harness.now() + timedelta(**delta)).isoformat()


def test_stop_after_counts_from_running_and_is_told_of_before(harness: Harness) -> None:
    instance_id = _running(harness, limits={"stopAfter": "90m"})
    ran_at = _first(harness, instance_id, "instance.running")
    shown = _get(harness, instance_id)

    harness.run(2 * HOUR)

    assert shown["limits"] == {"stopAfter": "90m"}
    assert shown["expiry"]["stopReason"] == "lifetime"
    assert abs(_moment(shown["expiry"]["stopAt"]) - ran_at - timedelta(minutes=90)) < timedelta(seconds=1)
    (notice,) = _events(harness, instance_id, "instance.expiring")
    assert _within_a_minute(_at(notice), ran_at + timedelta(minutes=80))
    assert notice["data"] == {"action": "stop", "at": shown["expiry"]["stopAt"], "reason": "lifetime"}
    (stopping,) = _events(harness, instance_id, "instance.stopping")
    assert _within_a_minute(_at(stopping), ran_at + timedelta(minutes=90))
    assert stopping["actor"] == "system"
    assert stopping["data"]["endedBy"] == "lifetime"
    after = _get(harness, instance_id)
    assert (after["status"], after["endedBy"]) == ("stopped", "lifetime")
    assert "expiry" not in after
    harness.assert_books_balance()


def test_the_wait_for_stock_counts_for_no_limit(harness: Harness) -> None:
    instance_id = harness.create(limits={"stopAfter": "10m", "deleteAfter": "20m"})
    _set_stock(harness, 0)
    harness.run(40 * MINUTE)
    waiting = harness.record(instance_id).status
    _set_stock(harness, 5)

    harness.run(5 * MINUTE)
    running = harness.record(instance_id)
    harness.run(10 * MINUTE)
    stopped = harness.record(instance_id).status
    harness.settle()

    assert waiting is Status.CREATING
    assert running.status is Status.RUNNING
    assert stopped is Status.STOPPED
    assert harness.record(instance_id).status is Status.TERMINATED
    assert harness.record(instance_id).ended_by == "lifetime"
    harness.assert_books_balance()


def test_delete_after_counts_from_the_first_running_whatever_came_after(harness: Harness) -> None:
    instance_id = _running(harness, limits={"deleteAfter": "3h"})
    ran_at = _first(harness, instance_id, "instance.running")
    harness.call("POST", f"/api/instances/{instance_id}/stop", {})
    harness.run(HOUR)
    harness.call("POST", f"/api/instances/{instance_id}/start", {})
    harness.run(HOUR / 2)
    assert harness.record(instance_id).status is Status.READY

    harness.settle()

    (deleting,) = _events(harness, instance_id, "instance.deleting")
    assert _within_a_minute(_at(deleting), ran_at + timedelta(hours=3))
    assert deleting["data"]["endedBy"] == "lifetime"
    assert _get(harness, instance_id)["status"] == "terminated"
    assert _events(harness, instance_id, "instance.terminated")[0]["data"]["endedBy"] == "lifetime"
    harness.assert_books_balance()


def test_stop_after_counts_anew_for_each_start_and_not_for_a_restart(harness: Harness) -> None:
    instance_id = _running(harness, limits={"stopAfter": "1h"})
    first = _get(harness, instance_id)["expiry"]["stopAt"]
    harness.run(HOUR / 2)
    harness.call("POST", f"/api/instances/{instance_id}/restart", {})
    harness.run(5 * MINUTE)
    restarted = _get(harness, instance_id)
    harness.run(HOUR)
    stopped = _get(harness, instance_id)
    harness.call("POST", f"/api/instances/{instance_id}/start", {})
    coming_up = _get(harness, instance_id)
    harness.run(5 * MINUTE)
    started = _get(harness, instance_id)

    harness.settle()

    assert (restarted["status"], restarted["expiry"]["stopAt"]) == ("ready", first)
    assert (stopped["status"], stopped["endedBy"]) == ("stopped", "lifetime")
    assert "endedBy" not in coming_up
    assert "expiry" not in coming_up
    ran_again = _at(_events(harness, instance_id, "instance.running")[-1])
    assert abs(_moment(started["expiry"]["stopAt"]) - ran_again - timedelta(hours=1)) < timedelta(seconds=1)
    assert _get(harness, instance_id)["status"] == "stopped"
    harness.assert_books_balance()


def test_what_is_stopped_or_exited_for_too_long_is_deleted(harness: Harness) -> None:
    by_us = _running(harness, limits={"deleteAfterStopped": "2h"})
    by_novita = _running(harness, name="other", limits={"deleteAfterStopped": "2h"})
    harness.run(5 * MINUTE)  # its list must not be taken for one from before
    harness.call("POST", f"/api/instances/{by_us}/stop", {})
    machine_id = harness.record(by_novita).machine.id or ""
    harness.simulator.patch_instance(machine_id, status="exited")
    harness.run(5 * MINUTE)
    assert _get(harness, by_us)["endedBy"] == "user"
    assert (_get(harness, by_novita)["status"], _get(harness, by_novita)["endedBy"]) == ("exited", "novita")

    harness.run(3 * HOUR)

    for instance_id, was in ((by_us, "instance.stopped"), (by_novita, "instance.exited")):
        (deleting,) = _events(harness, instance_id, "instance.deleting")
        off = _first(harness, instance_id, was)
        assert _within_a_minute(_at(deleting), off + timedelta(hours=2))
        assert _get(harness, instance_id)["endedBy"] == "stopped_too_long"
    harness.assert_books_balance()


def test_stop_at_and_delete_at_are_times_and_the_earlier_limit_wins(harness: Harness) -> None:
    limits = {"stopAt": _in(harness, hours=1), "stopAfter": "3h", "deleteAt": _in(harness, hours=4)}
    instance_id = _running(harness, limits=limits)

    harness.run(2 * HOUR)
    stopped = _get(harness, instance_id)
    harness.settle()

    (stopping,) = _events(harness, instance_id, "instance.stopping")
    (deleting,) = _events(harness, instance_id, "instance.deleting")
    assert _within_a_minute(_at(stopping), _moment(limits["stopAt"]))
    assert _within_a_minute(_at(deleting), _moment(limits["deleteAt"]))
    assert stopped["expiry"] == {"deleteAt": stopped["limits"]["deleteAt"], "deleteReason": "lifetime"}
    harness.assert_books_balance()


def test_a_stop_at_that_passes_while_it_does_not_run_is_spent(harness: Harness) -> None:
    instance_id = _running(harness, limits={"stopAt": _in(harness, hours=1)})
    harness.call("POST", f"/api/instances/{instance_id}/stop", {})
    harness.run(5 * MINUTE)
    before = _get(harness, instance_id)
    harness.run(HOUR)
    spent = _get(harness, instance_id)
    harness.call("POST", f"/api/instances/{instance_id}/start", {})

    harness.settle()

    assert before["expiry"]["stopAt"] == before["limits"]["stopAt"]
    assert "expiry" not in spent
    assert _get(harness, instance_id)["status"] == "ready"
    assert "expiry" not in _get(harness, instance_id)


def test_a_stop_at_that_passes_while_it_comes_up_stops_it_when_it_is_up(harness: Harness) -> None:
    """At its first boot and at a later one: a machine that nobody else would stop."""
    harness.simulator.settings(bootSeconds=600, startSeconds=600)
    instance_id = harness.create(limits={"stopAt": _in(harness, minutes=5)})
    harness.run(7 * MINUTE)
    first = _get(harness, instance_id)
    harness.run(10 * MINUTE)
    stopped = _get(harness, instance_id)
    again = {"limits": {"stopAt": _in(harness, minutes=5)}}
    harness.call("POST", f"/api/instances/{instance_id}/start", again)
    harness.run(7 * MINUTE)
    second = _get(harness, instance_id)

    harness.settle()

    for coming_up in (first, second):
        assert coming_up["status"] == "starting"
        assert coming_up["expiry"]["stopAt"] == coming_up["limits"]["stopAt"]
    assert (stopped["status"], stopped["endedBy"]) == ("stopped", "lifetime")
    assert (_get(harness, instance_id)["status"], _get(harness, instance_id)["endedBy"]) == (
        "stopped",
        "lifetime",
    )
    assert len(_events(harness, instance_id, "instance.expiring")) == 2
    for ran, stops in zip(
        _events(harness, instance_id, "instance.running"),
        _events(harness, instance_id, "instance.stopping"),
        strict=True,
    ):
        assert _at(stops) - _at(ran) <= timedelta(seconds=5)
    harness.assert_books_balance()


def test_delete_at_acts_while_nothing_has_been_bought(harness: Harness) -> None:
    instance_id = harness.create(limits={"deleteAt": _in(harness, minutes=20)})
    _set_stock(harness, 0)

    harness.settle()

    assert _get(harness, instance_id)["status"] == "terminated"
    assert _get(harness, instance_id)["endedBy"] == "lifetime"
    assert harness.simulator.live() == []


def test_a_kept_machine_that_never_ran_counts_from_bought(build: Build) -> None:
    harness = build(BOOT_MAX_WAIT="300")
    harness.simulator.settings(bootSeconds=100_000)
    instance_id = harness.create(onFailure="keep", limits={"deleteAfter": "1h"})
    harness.run(10 * MINUTE)
    failed = _get(harness, instance_id)
    bought_at = harness.record(instance_id).machine.bought_at
    assert bought_at

    harness.settle()

    assert (failed["status"], failed["endedBy"]) == ("failed", "failure")
    (deleting,) = _events(harness, instance_id, "instance.deleting")
    assert _within_a_minute(_at(deleting), bought_at + timedelta(hours=1))
    harness.assert_books_balance()


def test_an_imported_machine_counts_from_its_import(harness: Harness) -> None:
    made = harness.simulator.put_instance(status="running", ageSeconds=86_400)
    body = {"novitaInstanceId": made["id"], "limits": {"stopAfter": "1h", "deleteAfter": "2h"}}
    status, imported = harness.call("POST", "/api/instances/import", body)
    began = harness.now()

    harness.settle()

    assert status == 201, imported
    assert imported["expiry"].keys() == {"stopAt", "stopReason", "deleteAt", "deleteReason"}
    instance_id = imported["instanceId"]
    assert _within_a_minute(_first(harness, instance_id, "instance.stopping"), began + timedelta(hours=1))
    assert _within_a_minute(_first(harness, instance_id, "instance.deleting"), began + timedelta(hours=2))


def test_a_missing_instance_is_stopped_and_deleted_as_somebody_would(harness: Harness) -> None:
    instance_id = _running(harness, limits={"stopAfter": "2h", "deleteAfter": "4h"})
    machine_id = _hide(harness, instance_id)
    missing = _get(harness, instance_id)
    harness.run(2 * HOUR)
    stopping = _get(harness, instance_id)
    harness.simulator.show(machine_id)
    harness.run(HOUR)
    stopped = _get(harness, instance_id)

    harness.settle()

    assert missing["missingSince"]
    assert (stopping["status"], stopping["endedBy"]) == ("stopping", "lifetime")
    assert stopped["status"] == "stopped"
    assert _get(harness, instance_id)["status"] == "terminated"
    harness.assert_books_balance()


def test_with_every_message_lost_the_sweep_still_ends_it(harness: Harness) -> None:
    instance_id = _running(harness, limits={"stopAfter": "1h", "deleteAfterStopped": "1h"})

    harness.settle(only_sweeps=True)

    assert _get(harness, instance_id)["status"] == "terminated"
    assert [event["data"]["action"] for event in _events(harness, instance_id, "instance.expiring")] == [
        "stop",
        "delete",
    ]
    harness.assert_books_balance()


def test_a_protected_instance_is_stopped_and_not_deleted_until_that_is_taken_away(harness: Harness) -> None:
    instance_id = _running(harness, protected=True, limits={"stopAfter": "1h", "deleteAfter": "2h"})
    status, refused = harness.call("DELETE", f"/api/instances/{instance_id}")
    by_name = harness.call("POST", "/api/instances/delete", {"instanceName": "test"})
    harness.run(5 * HOUR)
    kept = _get(harness, instance_id)

    freed = _patch(harness, instance_id, protected=False)
    harness.settle()

    assert (status, refused["error"]["code"]) == (409, "INSTANCE_PROTECTED")
    assert by_name[1]["error"]["code"] == "INSTANCE_PROTECTED"
    assert (kept["status"], kept["protected"]) == ("stopped", True)
    assert "expiry" not in kept
    assert "protected" not in freed
    assert freed["expiry"]["deleteReason"] == "lifetime"
    assert _get(harness, instance_id)["status"] == "terminated"
    assert [one["data"]["action"] for one in _events(harness, instance_id, "instance.expiring")] == [
        "stop",
        "delete",
    ]


def test_a_change_while_it_runs_moves_the_stop_and_is_told(harness: Harness) -> None:
    instance_id = _running(harness, limits={"stopAfter": "1h"})
    ran_at = _first(harness, instance_id, "instance.running")
    harness.run(50 * MINUTE)

    changed = _patch(harness, instance_id, limits={"stopAfter": "3h"})
    harness.settle()

    assert abs(_moment(changed["expiry"]["stopAt"]) - ran_at - timedelta(hours=3)) < timedelta(seconds=1)
    (updated,) = _events(harness, instance_id, "instance.updated")
    assert updated["data"]["changes"] == {"limits.stopAfter": {"from": "1h", "to": "3h"}}
    assert updated["actor"].startswith("key_")
    (stopping,) = _events(harness, instance_id, "instance.stopping")
    assert _within_a_minute(_at(stopping), ran_at + timedelta(hours=3))
    assert len(_events(harness, instance_id, "instance.expiring")) == 2  # one for each time


def test_limits_can_be_changed_while_it_is_stopped_missing_or_just_restarted(harness: Harness) -> None:
    stopped = _running(harness, name="stopped")
    harness.call("POST", f"/api/instances/{stopped}/stop", {})
    missing = _running(harness, name="missing")
    restarted = _running(harness, name="restarted")
    machine_id = _hide(harness, missing)
    harness.call("POST", f"/api/instances/{restarted}/restart", {})

    _patch(harness, stopped, limits={"deleteAfterStopped": "2h"})
    _patch(harness, missing, limits={"deleteAfter": "2h"})
    _patch(harness, restarted, limits={"deleteAfter": "2h"})
    harness.run(1.5 * HOUR)
    harness.simulator.show(machine_id)
    harness.run(1.5 * HOUR)

    assert _get(harness, stopped)["endedBy"] == "stopped_too_long"
    assert _get(harness, missing)["endedBy"] == "lifetime"
    assert _get(harness, restarted)["endedBy"] == "lifetime"
    for instance_id in (stopped, missing, restarted):
        assert _get(harness, instance_id)["status"] == "terminated"


def test_a_start_takes_limits_and_a_restart_does_not(harness: Harness) -> None:
    instance_id = _running(harness)
    refused = harness.call("POST", f"/api/instances/{instance_id}/restart", {"limits": {"stopAfter": "1h"}})
    harness.call("POST", f"/api/instances/{instance_id}/stop", {})
    harness.run(5 * MINUTE)

    harness.call("POST", f"/api/instances/{instance_id}/start", {"limits": {"stopAfter": "1h"}})
    harness.settle()

    assert refused[0] == 400
    assert _get(harness, instance_id)["endedBy"] == "lifetime"


BAD: list[Any] = [
    ({"stopAfter": "soon"}, "limits.stopAfter"),
    ({"stopAfter": 0}, "limits.stopAfter"),
    ({"stopAfter": True}, "limits.stopAfter"),
    ({"stopAfter": "-1h"}, "limits.stopAfter"),
    ({"deleteAfter": "99999d"}, "limits.deleteAfter"),
    ({"idleStopAfter": "4m"}, "limits.idleStopAfter"),
    ({"stopAt": "2020-01-01T00:00:00Z"}, "limits.stopAt"),
    ({"deleteAt": "2020-01-01T00:00:00+02:00"}, "limits.deleteAt"),
    ({"deleteAt": "2090-01-01T00:00:00"}, "limits.deleteAt"),
    ({"stopAt": 1900000000}, "limits.stopAt"),
    ({"idleGpuBelow": 10}, "limits.idleGpuBelow"),
    ({"idleStopAfter": "1h", "idleGpuBelow": 0}, "limits.idleGpuBelow"),
    ({"idleStopAfter": "1h", "idleGpuBelow": 5e-324}, "limits.idleGpuBelow"),  # the table holds none so small
    ({"stopafter": "1h"}, "limits.stopafter"),
]


def test_a_limit_that_makes_no_sense_is_refused_before_anything_is_bought(harness: Harness) -> None:
    """Times that have passed, times without an offset, no durations at all."""
    create = {"name": "n", "productName": "RTX 4090 24GB", "templateId": "107672"}

    for limits, field in BAD:
        status, answer = harness.call("POST", "/api/instances", {**create, "limits": limits})
        quoted, _ = harness.call("POST", "/api/quotes", {**create, "limits": limits})

        assert (status, quoted) == (400, 400), limits
        assert answer["error"]["validationErrors"][0]["field"].startswith(field)
    assert harness.records() == []


CEILINGS = {
    "MAX_STOP_AFTER": "8h",
    "MAX_LIFETIME": "1d",
    "MAX_IDLE_STOP_AFTER": "2h",
    "MAX_DELETE_AFTER_STOPPED": "12h",
}


@pytest.mark.parametrize(
    "limits",
    [
        {"stopAfter": "9h"},
        {"deleteAfter": "2d"},
        {"idleStopAfter": "3h"},
        {"deleteAfterStopped": "13h"},
        {"stopAt": timedelta(hours=9)},
        {"deleteAt": timedelta(days=2)},
    ],
)
def test_a_ceiling_holds_for_every_way_of_changing_a_limit(build: Build, limits: Any) -> None:
    harness = build(**CEILINGS)
    harness.simulator.settings(bootSeconds=0)
    instance_id = _running(harness)
    asked = {
        name: (harness.now() + value).isoformat() if isinstance(value, timedelta) else value
        for name, value in limits.items()
    }
    body = {"productName": "RTX 4090 24GB", "templateId": "107672", "name": "n", "limits": asked}
    made = harness.simulator.put_instance(status="running")

    answers = [
        harness.call("POST", "/api/instances", body),
        harness.call("POST", "/api/quotes", body),
        harness.call("PATCH", f"/api/instances/{instance_id}", {"limits": asked}),
        harness.call("POST", "/api/instances/import", {"novitaInstanceId": made["id"], "limits": asked}),
    ]
    harness.call("POST", f"/api/instances/{instance_id}/stop", {})
    harness.run(5 * MINUTE)
    answers.append(harness.call("POST", f"/api/instances/{instance_id}/start", {"limits": asked}))
    by_name = {"instanceName": "test", "limits": asked}
    answers.append(harness.call("POST", "/api/instances/start", by_name))

    assert [(status, answer["error"]["code"]) for status, answer in answers] == [
        (422, "LIMIT_NOT_ALLOWED")
    ] * 6
    assert len(harness.simulator.live()) == 2


def test_the_ceiling_of_a_run_that_is_over_refuses_no_time_to_stop_the_next_one(build: Build) -> None:
    harness = build(MAX_STOP_AFTER="8h")
    instance_id = _running(harness)
    harness.call("POST", f"/api/instances/{instance_id}/stop", {})
    harness.run(5 * MINUTE)
    harness.advance(48 * HOUR)

    _patch(harness, instance_id, limits={"stopAt": _in(harness, hours=1)})
    late = {"limits": {"stopAt": _in(harness, hours=9)}}
    status, answer = harness.call("PATCH", f"/api/instances/{instance_id}", late)
    assert (status, answer["error"]["code"]) == (422, "LIMIT_NOT_ALLOWED")
    harness.call("POST", f"/api/instances/{instance_id}/start", {})
    harness.run(HOUR + 10 * MINUTE)

    record = harness.record(instance_id)
    assert (record.status, record.ended_by) == (Status.STOPPED, "lifetime")


def test_defaults_are_shown_and_declined_and_removing_a_limit_leaves_the_ceiling(build: Build) -> None:
    harness = build(DEFAULT_STOP_AFTER="2h", MAX_STOP_AFTER="4h")
    by_default = _running(harness, name="default")
    declined = _running(harness, name="declined", limits={"stopAfter": None})
    removed = _running(harness, name="removed", limits={"stopAfter": "1h"})

    _patch(harness, removed, limits=None)
    harness.settle()

    for instance_id, hours in ((by_default, 2), (declined, 4), (removed, 4)):
        ran_at = _first(harness, instance_id, "instance.running")
        stopped = _first(harness, instance_id, "instance.stopping")
        assert _within_a_minute(stopped, ran_at + timedelta(hours=hours))
    assert _get(harness, by_default)["limits"] == {"stopAfter": "2h"}
    assert "limits" not in _get(harness, declined)


def test_a_quote_and_a_create_show_limits(build: Build) -> None:
    harness = build(DEFAULT_STOP_AFTER="2h")
    body = {"productName": "RTX 4090 24GB", "templateId": "107672", "name": "n"}
    delete_at = _in(harness, days=1)

    _, quote = harness.call("POST", "/api/quotes", {**body, "limits": {"deleteAt": delete_at}})
    _, created = harness.call("POST", "/api/instances", {**body, "limits": {"deleteAt": delete_at}})

    assert quote["limits"]["stopAfter"] == created["limits"]["stopAfter"] == "2h"
    assert quote["expiry"]["stopReason"] == "lifetime"
    assert _moment(quote["expiry"]["deleteAt"]) == _moment(delete_at).replace(
        microsecond=_moment(delete_at).microsecond // 1000 * 1000
    )
    assert created["expiry"]["deleteAt"] == quote["expiry"]["deleteAt"]
    harness.wipe()
