"""Spot machines that are taken away: the notice, the same machine again, another one in its place."""

from datetime import timedelta
from typing import Any

import pytest

from functions.shared.domain.instance.status import Status
from tests.integration.conftest import Build
from tests.integration.harness import Harness
from tests.integration.reclaims import no_offers, running, shown, taken_away, told


@pytest.mark.parametrize("spot_in_get", [False, True])
def test_a_notice_is_told_once_within_a_sweep(harness: Harness, spot_in_get: bool) -> None:
    harness.simulator.settings(spotInGet=spot_in_get)
    instance_id, machine_id = running(harness)
    harness.simulator.reclaim(machine_id, 3600)
    harness.advance(5)

    for _ in range(4):
        harness.sweep()
        harness.advance(60)
        shown(harness, instance_id)

    (notice,) = told(harness, instance_id, "instance.reclaim_notified")
    assert notice["data"]["spotStatus"] == "notified"
    assert notice["data"]["reclaimTime"] == shown(harness, instance_id)["spot"]["reclaimTime"]
    harness.assert_books_balance()


@pytest.mark.parametrize("fields", [{"spotStatus": "notified"}, {"spotReclaimTime": 2_000_000_000}])
def test_either_field_is_a_notice(harness: Harness, fields: dict[str, Any]) -> None:
    instance_id, machine_id = running(harness)
    harness.advance(130)
    harness.simulator.patch_instance(machine_id, **fields)

    for _ in range(3):
        harness.advance(60)
        harness.sweep()

    assert len(told(harness, instance_id, "instance.reclaim_notified")) == 1


def test_a_notice_is_told_while_the_machine_comes_up(build: Build) -> None:
    harness = build()
    harness.simulator.settings(bootSeconds=600)
    instance_id = harness.create()
    harness.deliver()
    machine_id = harness.record(instance_id).machine.id or ""
    harness.advance(60)
    harness.simulator.patch_instance(machine_id, spotStatus="notified", spotReclaimTime=2_000_000_000)
    harness.advance(5)

    harness.sweep()

    assert len(told(harness, instance_id, "instance.reclaim_notified")) == 1
    harness.settle()
    assert harness.record(instance_id).status is Status.RUNNING
    assert len(told(harness, instance_id, "instance.reclaim_notified")) == 1


def test_without_a_wish_it_stays_exited(harness: Harness) -> None:
    instance_id, machine_id = running(harness)

    taken_away(harness, machine_id, notice=True)
    harness.settle()

    view = shown(harness, instance_id)
    assert (view["status"], view["endedBy"]) == ("exited", "reclaim")
    assert told(harness, instance_id, "recovery.started", "recovery.failed") == []
    harness.assert_books_balance()


@pytest.mark.parametrize("notice", [False, True])
def test_the_same_machine_is_started_again(harness: Harness, notice: bool) -> None:
    instance_id, machine_id = running(harness, onReclaim="restart")

    taken_away(harness, machine_id, notice=notice)
    harness.settle()

    view = shown(harness, instance_id)
    assert (view["status"], view["novitaInstanceId"], view["recoveries"]) == ("running", machine_id, 1)
    assert "recovering" not in view
    assert "endedBy" not in view
    history = [one for one in harness.history(instance_id) if one != "instance.reclaim_notified"]
    assert history[3:] == [
        "instance.exited",
        "recovery.started",
        "instance.starting",
        "instance.running",
        "recovery.completed",
    ]
    assert len(harness.simulator.instances()) == 1
    harness.assert_books_balance()


def test_room_is_waited_for_with_waits_that_grow(harness: Harness) -> None:
    instance_id, machine_id = running(harness, onReclaim="restart")

    taken_away(harness, machine_id, noRoomSeconds=1800)
    harness.run(600)

    view = shown(harness, instance_id)
    assert (view["status"], view["waitingFor"]["code"]) == ("exited", "RESOURCE_CONSTRAINTS")
    assert view["recovering"]["action"] == "restart"
    harness.settle()
    assert shown(harness, instance_id)["status"] == "running"
    starts = harness.simulator.calls("/gpu/instance/start")
    assert len(starts) < 15, "polled"
    harness.assert_books_balance()


def test_when_the_window_is_over_it_is_exited_and_told(harness: Harness) -> None:
    wish = {"action": "restart", "window": "20m"}
    instance_id, machine_id = running(harness, onReclaim=wish)

    taken_away(harness, machine_id, noRoomSeconds=100_000)
    harness.settle()

    view = shown(harness, instance_id)
    assert view["status"] == "exited"
    assert "recovering" not in view
    assert harness.record(instance_id).next_check_at is None
    (failed,) = told(harness, instance_id, "recovery.failed")
    assert failed["error"]["code"] == "RECOVERY_FAILED"
    harness.assert_books_balance()


def test_no_more_than_so_many_within_a_day(harness: Harness) -> None:
    wish = {"action": "restart", "maxRecoveries": 2}
    instance_id, machine_id = running(harness, onReclaim=wish)

    for _ in range(3):
        taken_away(harness, machine_id)
        harness.settle()

    view = shown(harness, instance_id)
    assert (view["status"], view["recoveries"]) == ("exited", 2)
    assert len(told(harness, instance_id, "recovery.failed")) == 1
    harness.advance(24 * 3600)
    harness.call("POST", f"/api/instances/{instance_id}/start", {})
    harness.settle()
    taken_away(harness, machine_id)
    harness.settle()
    assert shown(harness, instance_id)["recoveries"] == 3


def test_another_machine_takes_its_place(harness: Harness) -> None:
    instance_id, machine_id = running(
        harness, onReclaim="replace", tags={"team": "a"}, webhookUrl=harness.simulator.inbox_url("box")
    )
    before = shown(harness, instance_id)

    taken_away(harness, machine_id, noRoomSeconds=100_000)
    harness.run(300)
    assert shown(harness, instance_id)["status"] == "exited"
    assert harness.simulator.instance(machine_id)["removedAt"] is None
    harness.settle()

    view = shown(harness, instance_id)
    assert view["status"] == "running"
    assert view["novitaInstanceId"] != machine_id
    assert view["recoveries"] == 1
    kept = ("instanceId", "name", "webhookUrl", "tags", "onReclaim", "readyAt", "productName")
    assert [view[name] for name in kept] == [before[name] for name in kept]
    assert harness.history(instance_id)[3:] == [
        "instance.exited",
        "recovery.started",
        "instance.creating",
        "instance.starting",
        "instance.running",
        "recovery.completed",
    ]
    old, new = (harness.simulator.instance(one) for one in (machine_id, view["novitaInstanceId"]))
    assert old["removedAt"] < new["createdAt"], "two at once"
    assert new["name"] == f"{old['name']}-2"
    harness.assert_books_balance()


def test_another_machine_is_what_was_asked_for_and_is_checked_like_the_first(harness: Harness) -> None:
    harness.simulator.put_storage("hk", "CN-HK-01")
    volumes, limits = (
        [{"id": "hk", "mountPath": "/data"}],
        {"stopAfter": "8h", "deleteAt": "2090-01-01T00:00:00Z"},
    )
    instance_id = harness.create(
        onReclaim="replace",
        healthCheck={},
        limits=limits,
        envs=[{"key": "MODE", "value": "own"}],
        networkVolumes=volumes,
        maxPricePerGpuHour=0.2,
        gpuNum=2,
    )
    harness.run(60)
    machine_id = harness.record(instance_id).machine.id or ""
    before = shown(harness, instance_id)

    taken_away(harness, machine_id, noRoomSeconds=100_000)
    harness.run(1200)

    view = shown(harness, instance_id)
    assert view["status"] == "ready"
    assert view["novitaInstanceId"] != machine_id
    for name in ("limits", "expiry", "networkVolumes", "envNames", "gpuNum", "rootfsSize", "pricePerGpuHour"):
        assert view[name] == before[name], name
    assert harness.history(instance_id)[-4:] == [
        "instance.running",
        "instance.health_checking",
        "instance.ready",
        "recovery.completed",
    ]
    first, second = (harness.simulator.instance(one) for one in (machine_id, view["novitaInstanceId"]))
    for asked in (first["create"], second["create"]):
        asked.pop("name")
    assert second["create"] == first["create"]
    harness.assert_books_balance()


def test_no_machine_above_the_price_cap_takes_its_place(harness: Harness) -> None:
    instance_id, machine_id = running(
        harness, onReclaim={"action": "replace", "window": "30m"}, maxPricePerGpuHour=0.2
    )
    no_offers(harness, spotPrice=21_000)

    taken_away(harness, machine_id, noRoomSeconds=100_000)
    harness.settle()

    assert shown(harness, instance_id)["status"] == "exited"
    assert len(harness.simulator.instances()) == 1
    (failed,) = told(harness, instance_id, "recovery.failed")
    assert failed["error"]["code"] == "RECOVERY_FAILED"
    harness.assert_books_balance()


def test_nothing_is_given_back_without_an_offer_at_hand(harness: Harness) -> None:
    wish = {"action": "replace", "window": "30m"}
    instance_id, machine_id = running(harness, onReclaim=wish)

    no_offers(harness)
    taken_away(harness, machine_id, noRoomSeconds=100_000)
    harness.settle()

    assert shown(harness, instance_id)["status"] == "exited"
    assert len(told(harness, instance_id, "recovery.failed")) == 1
    assert harness.simulator.instance(machine_id)["removedAt"] is None
    harness.assert_books_balance()


def test_where_the_offer_is_gone_after_the_machine_it_has_failed(harness: Harness) -> None:
    wish = {"action": "replace", "window": "30m"}
    instance_id, machine_id = running(harness, onReclaim=wish)

    taken_away(harness, machine_id, noRoomSeconds=100_000)
    harness.run(630)
    assert shown(harness, instance_id)["status"] == "creating"
    no_offers(harness)
    harness.settle()

    view = shown(harness, instance_id)
    assert (view["status"], view["error"]["code"]) == ("failed", "RECOVERY_FAILED")
    assert len(told(harness, instance_id, "recovery.failed")) == 1
    assert harness.simulator.live() == []
    harness.assert_books_balance()


@pytest.mark.parametrize(("cap", "status"), [(None, "running"), (0.3, "exited")])
def test_a_fallback_is_on_demand_and_obeys_the_cap(harness: Harness, cap: float | None, status: str) -> None:
    wish = {"action": "replace", "window": "30m", "fallback": "onDemand"}
    body = {"onReclaim": wish, **({"maxPricePerGpuHour": cap} if cap else {})}
    instance_id, machine_id = running(harness, **body)
    for product in harness.simulator.products():
        harness.simulator.patch_product(product["id"], billingMethods=["onDemand"])

    taken_away(harness, machine_id, noRoomSeconds=100_000)
    harness.settle()

    view = shown(harness, instance_id)
    assert view["status"] == status
    assert view["billingMode"] == ("onDemand" if status == "running" else "spot")
    if status == "running":
        machine = harness.simulator.instance(view["novitaInstanceId"])
        assert machine["billingMode"] == "onDemand"
    harness.assert_books_balance()


@pytest.mark.parametrize("action", ["stop", "delete", "start"])
@pytest.mark.parametrize("after", [200, 630, 700])
def test_what_a_user_asks_for_ends_the_recovery(harness: Harness, action: str, after: float) -> None:
    instance_id, machine_id = running(harness, onReclaim="replace")
    taken_away(harness, machine_id, noRoomSeconds=100_000)
    harness.run(after)
    status = harness.record(instance_id).status

    if action == "delete":
        code, answer = harness.call("DELETE", f"/api/instances/{instance_id}")
    else:
        code, answer = harness.call("POST", f"/api/instances/{instance_id}/{action}", {})
    harness.settle()

    record = harness.record(instance_id)
    if action == "start" and status is Status.CREATING:
        assert (code, answer["error"]["code"]) == (409, "STARTUP_OPERATION_IN_PROGRESS")
        assert record.status is Status.RUNNING
        return
    assert code == 202, answer
    ends = {"delete": Status.TERMINATED, "start": Status.EXITED, "stop": Status.STOPPED}
    replaced = action == "stop" and status is Status.CREATING
    assert record.status is (Status.FAILED if replaced else ends[action])
    assert record.recovery is None
    (failed,) = told(harness, instance_id, "recovery.failed")
    assert failed["error"]["code"] in ("OPERATION_SUPERSEDED", "RECOVERY_FAILED")
    assert len(harness.simulator.live()) == (record.status in (Status.EXITED, Status.STOPPED))
    harness.assert_books_balance()


def test_what_is_removed_after_its_notice_is_replaced(harness: Harness) -> None:
    harness.costs_within = timedelta(minutes=4)  # nobody looks for so long
    instance_id, machine_id = running(harness, onReclaim="replace")
    harness.advance(130)
    harness.simulator.reclaim(machine_id, 100, removed=True)
    harness.advance(10)
    harness.sweep()
    harness.advance(230)
    harness.sweep()

    harness.settle()

    view = shown(harness, instance_id)
    assert view["status"] == "running"
    assert view["novitaInstanceId"] != machine_id
    types = harness.history(instance_id)
    assert types.count("instance.missing") == 1
    assert types[-1] == "recovery.completed"
    harness.assert_books_balance()


def test_what_is_removed_without_a_notice_is_missing_and_no_more(harness: Harness) -> None:
    harness.costs_within = timedelta(minutes=4)  # nobody looks for so long
    instance_id, machine_id = running(harness, onReclaim="replace")
    harness.advance(130)
    harness.simulator.reclaim(machine_id, notice=False, removed=True)
    harness.advance(130)
    harness.sweep()

    harness.run(3600)

    assert harness.record(instance_id).missing
    assert told(harness, instance_id, "recovery.started") == []
    harness.settle()
    assert harness.record(instance_id).status is Status.TERMINATED


def test_while_paused_no_recovery_begins(harness: Harness) -> None:
    instance_id, machine_id = running(harness, onReclaim="restart")
    harness.call("POST", "/api/pause")

    taken_away(harness, machine_id)
    harness.run(600)

    view = shown(harness, instance_id)
    assert (view["status"], view["waitingFor"]["code"]) == ("exited", "PURCHASES_PAUSED")
    assert told(harness, instance_id, "recovery.started") == []
    assert harness.simulator.calls("/gpu/instance/start") == []
    harness.call("POST", "/api/resume")
    harness.settle()
    assert shown(harness, instance_id)["status"] == "running"
    harness.assert_books_balance()


@pytest.mark.parametrize("given_back", [False, True])
def test_a_pause_takes_nothing_from_the_window_of_a_recovery(harness: Harness, given_back: bool) -> None:
    wish = {"action": "replace", "window": "20m"} if given_back else {"action": "restart", "window": "20m"}
    instance_id, machine_id = running(harness, onReclaim=wish)
    taken_away(harness, machine_id, noRoomSeconds=100_000 if given_back else 300)
    harness.run(630 if given_back else 100)
    status = harness.record(instance_id).status
    assert status is (Status.CREATING if given_back else Status.EXITED)
    harness.call("POST", "/api/pause")

    harness.run(3600)

    view = shown(harness, instance_id)
    assert (view["status"], view["waitingFor"]["code"]) == (status.value, "PURCHASES_PAUSED")
    harness.call("POST", "/api/resume")
    harness.settle()
    view = shown(harness, instance_id)
    assert view["status"] == "running"
    assert (view["novitaInstanceId"] != machine_id) is given_back
    assert told(harness, instance_id, "recovery.failed") == []
    harness.assert_books_balance()


def test_a_pause_takes_nothing_from_the_time_in_which_only_starts_are_tried(harness: Harness) -> None:
    instance_id, machine_id = running(harness, onReclaim="replace")
    taken_away(harness, machine_id, noRoomSeconds=1800)
    harness.run(100)
    harness.call("POST", "/api/pause")
    harness.run(1500)
    harness.call("POST", "/api/resume")

    harness.settle()

    view = shown(harness, instance_id)
    assert (view["status"], view["novitaInstanceId"]) == ("running", machine_id)
    harness.assert_books_balance()


def test_a_machine_that_is_started_by_hand_meanwhile_is_back(harness: Harness) -> None:
    instance_id, machine_id = running(harness, onReclaim="restart")
    taken_away(harness, machine_id, noRoomSeconds=100_000)
    harness.run(100)

    harness.simulator.patch_instance(machine_id, status="running")
    harness.settle()

    view = shown(harness, instance_id)
    assert (view["status"], view["recoveries"]) == ("running", 1)
    harness.assert_books_balance()


def test_a_limit_that_passes_meanwhile_ends_the_recovery(harness: Harness) -> None:
    instance_id, machine_id = running(harness, onReclaim="restart", limits={"stopAfter": "20m"})
    taken_away(harness, machine_id, noRoomSeconds=3000)

    harness.settle()

    view = shown(harness, instance_id)
    assert (view["status"], view["endedBy"]) == ("stopped", "lifetime")
    harness.assert_books_balance()


def test_a_recovery_moves_no_limit(harness: Harness) -> None:
    instance_id, machine_id = running(harness, onReclaim="restart", limits={"stopAfter": "8h"})
    before = shown(harness, instance_id)["expiry"]

    taken_away(harness, machine_id)
    harness.run(300)

    view = shown(harness, instance_id)
    assert view["status"] == "running"
    assert view["expiry"] == before


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ({"billingMode": "onDemand", "onReclaim": "restart"}, "Only spot"),
        ({"onReclaim": {"action": "restart", "fallback": "onDemand"}}, "fallback"),
        ({"onReclaim": {"action": "replace", "window": "5m"}}, "shorter"),
        ({"onReclaim": "migrate"}, "Input should be"),
        ({"onReclaim": {"action": "restart", "window": "2d"}}, "at most a day"),
    ],
)
def test_what_makes_no_sense_is_refused(harness: Harness, body: dict[str, Any], why: str) -> None:
    request = {"name": "test", "productName": "RTX 4090 24GB", "templateId": "107672", **body}

    status, answer = harness.call("POST", "/api/instances", request)

    assert (status, answer["error"]["code"]) == (400, "VALIDATION_ERROR")
    (wrong,) = answer["error"]["validationErrors"]
    assert wrong["code"] == "INVALID_ON_RECLAIM"
    assert why in wrong["message"]


def test_the_answer_says_that_replace_loses_the_disk(harness: Harness) -> None:
    request = {"name": "test", "productName": "RTX 4090 24GB", "templateId": "107672"}

    messages = [
        harness.call("POST", "/api/instances", {**request, "onReclaim": word})[1]["message"]
        for word in ("restart", "replace")
    ]

    assert ["disk" in message for message in messages] == [False, True]
    harness.settle()


def test_a_patch_changes_what_happens_next_time(harness: Harness) -> None:
    instance_id, machine_id = running(harness)
    path = f"/api/instances/{instance_id}"

    assert harness.call("PATCH", path, {"onReclaim": "restart"})[1]["onReclaim"]["action"] == "restart"
    taken_away(harness, machine_id, noRoomSeconds=100_000)
    harness.run(100)
    assert "recovering" in shown(harness, instance_id)
    _, view = harness.call("PATCH", path, {"onReclaim": None})

    assert "onReclaim" not in view
    assert "recovering" not in view
    harness.settle()
    assert shown(harness, instance_id)["status"] == "exited"


def test_an_imported_machine_is_restarted_and_never_replaced(harness: Harness) -> None:
    machine_id = harness.simulator.put_instance(name="theirs", billingMode="spot", ageSeconds=600)["id"]
    body = {"novitaInstanceId": machine_id}

    status, answer = harness.call("POST", "/api/instances/import", {**body, "onReclaim": "replace"})
    assert (status, answer["error"]["code"]) == (400, "VALIDATION_ERROR")
    status, answer = harness.call("POST", "/api/instances/import", {**body, "onReclaim": "restart"})
    assert status == 201, answer
    taken_away(harness, machine_id)
    harness.settle()

    assert shown(harness, answer["instanceId"])["status"] == "running"
    status, answer = harness.call("PATCH", f"/api/instances/{answer['instanceId']}", {"onReclaim": "replace"})
    assert (status, answer["error"]["code"]) == (400, "VALIDATION_ERROR")
