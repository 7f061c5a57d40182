"""Every request on an instance whose machine cannot be found, in every status that has one."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from functions.shared.domain.instance.status import STOPPABLE, Status
from tests.integration.harness import Harness
from tests.integration.sweeps import live, machine_of

HOUR = 3600.0
FOR_LONG = {"maxWaitTimeMs": 1_800_000, "retryAttempts": 0}


def starting(harness: Harness, name: str) -> str:
    harness.simulator.settings(bootSeconds=600)
    return harness.create(name=name)


def running(harness: Harness, name: str) -> str:
    instance_id = harness.create(name=name)
    harness.run(40)
    return instance_id


def health_checking(harness: Harness, name: str) -> str:
    harness.simulator.app(status=502)
    instance_id = harness.create(name=name, healthCheck=FOR_LONG)
    harness.run(60)
    return instance_id


def ready(harness: Harness, name: str) -> str:
    instance_id = harness.create(name=name, healthCheck=FOR_LONG)
    harness.settle()
    return instance_id


def stopping(harness: Harness, name: str) -> str:
    harness.simulator.settings(stopSeconds=600)
    instance_id = running(harness, name)
    harness.call("POST", f"/api/instances/{instance_id}/stop")
    return instance_id


def stopped(harness: Harness, name: str) -> str:
    instance_id = running(harness, name)
    harness.call("POST", f"/api/instances/{instance_id}/stop")
    harness.run(40)
    return instance_id


def starting_again(harness: Harness, name: str) -> str:
    harness.simulator.settings(startSeconds=600)
    instance_id = stopped(harness, name)
    harness.call("POST", f"/api/instances/{instance_id}/start")
    return instance_id


def exited(harness: Harness, name: str) -> str:
    return _seen_as(harness, running(harness, name), "exited")


def migrating(harness: Harness, name: str) -> str:
    return _seen_as(harness, running(harness, name), "migrating")


def failed(harness: Harness, name: str) -> str:
    """And kept: one that is to be given back has been asked to end."""
    harness.simulator.app(status=502)
    instance_id = harness.create(name=name, healthCheck={"maxWaitTimeMs": 30_000}, onFailure="keep")
    harness.settle()
    return instance_id


def _seen_as(harness: Harness, instance_id: str, status: str) -> str:
    harness.advance(300)
    harness.simulator.patch_instance(machine_of(harness, instance_id), status=status)
    harness.sweep()
    harness.advance(5)
    harness.sweep()
    return instance_id


# How each is reached, and what becomes of it by itself when its machine is there again.
STATUSES: dict[Callable[[Harness, str], str], tuple[Status, Status]] = {
    starting: (Status.STARTING, Status.RUNNING),
    starting_again: (Status.STARTING, Status.READY),
    running: (Status.RUNNING, Status.RUNNING),
    health_checking: (Status.HEALTH_CHECKING, Status.READY),
    ready: (Status.READY, Status.READY),
    stopping: (Status.STOPPING, Status.STOPPED),
    stopped: (Status.STOPPED, Status.STOPPED),
    exited: (Status.EXITED, Status.EXITED),
    migrating: (Status.MIGRATING, Status.RUNNING),
    failed: (Status.FAILED, Status.FAILED),
}


def test_every_status_that_has_a_machine_and_was_not_asked_to_end_is_tried() -> None:
    without = {Status.CREATING, Status.DELETING, Status.TERMINATED}

    assert {status for status, _ in STATUSES.values()} == set(Status) - without


def missing(harness: Harness, reach: Callable[[Harness, str], str], *names: str) -> list[str]:
    """Instances in that status, and none of their machines can be found. From when on they are billed that
    are hidden while they come up, nobody can see."""
    harness.costs_within = timedelta(minutes=3)
    made = [reach(harness, name) for name in names]
    while harness.deliver():
        pass
    for one in made:
        assert harness.record(one).status is STATUSES[reach][0]
        harness.simulator.hide(machine_of(harness, one))
    harness.advance(130)
    harness.sweep()
    harness.run(240)
    for one in made:
        assert harness.record(one).missing
        assert harness.record(one).status is STATUSES[reach][0]
    return made


def all_show_up(harness: Harness, machines: list[str]) -> None:
    for machine_id in machines:
        harness.simulator.show(machine_id)
    harness.simulator.app(status=200)
    for machine in harness.simulator.live():
        if machine["status"] == "migrating":
            harness.simulator.patch_instance(machine["id"], status="running")
    harness.run(HOUR)


@pytest.mark.parametrize("reach", STATUSES, ids=lambda reach: reach.__name__)
def test_every_request_on_a_missing_instance_answers_as_promised(
    harness: Harness, reach: Callable[[Harness, str], str]
) -> None:
    status, later = STATUSES[reach]
    kept, stop, delete, release = missing(harness, reach, "kept", "stop", "delete", "release")
    machines = {one: machine_of(harness, one) for one in (kept, stop, delete, release)}
    before = harness.record(kept)

    _reads(harness, kept, status)
    _costs(harness, kept, status)
    _changes(harness, kept, status)
    _refusals(harness, kept, machines[kept])
    assert harness.record(kept).status is status
    stops = _accepts_stop(harness, stop, status)
    _accepts_delete(harness, delete)
    assert harness.call("DELETE", f"/api/instances/{release}?release=true")[0] == 202
    harness.run(300)

    assert harness.record(kept).machine.missing_since == before.machine.missing_since
    assert harness.record(stop).status is (Status.STOPPING if stops else status)
    assert harness.record(delete).status in (Status.DELETING, Status.TERMINATED)  # twice not found: gone
    assert harness.record(release).status is Status.TERMINATED
    all_show_up(harness, [*machines.values()])
    harness.settle()
    assert harness.record(kept).status is later
    assert harness.record(stop).status is (Status.STOPPED if stops else later)
    assert harness.record(delete).status is Status.TERMINATED
    assert live(harness) == {machines[one] for one in (kept, stop, release)}
    for one in (kept, stop):
        history = harness.history(one)
        assert (history.count("instance.missing"), history.count("instance.found")) == (1, 1)
    harness.simulator.patch_instance(machines[release], status="removed")


def _reads(harness: Harness, instance_id: str, status: Status) -> None:
    path = f"/api/instances/{instance_id}"
    lists = (
        "/api/instances",
        "/api/instances?name=kept",
        f"/api/instances?status={status}",
        "/api/instances/comprehensive",
        "/api/instances/comprehensive?syncLocalState=true",
    )
    listed = [harness.call("GET", one)[1]["instances"] for one in lists]
    shown = [harness.call("GET", path)[1], *(_of(found, instance_id) for found in listed)]

    assert {one["status"] for one in shown} == {status}
    assert all("missingSince" in one for one in shown)
    for one in (f"{path}/events", f"{path}/operations", f"/api/webhooks/deliveries?instanceId={instance_id}"):
        assert harness.call("GET", one)[0] == 200
    for operation in harness.call("GET", f"{path}/operations")[1]["operations"]:
        assert harness.call("GET", f"/api/operations/{operation['operationId']}")[0] == 200
    assert harness.call("PUT", f"{path}/last-used", {})[0] == 200
    answered, swept = harness.call("POST", "/api/sync", {"dryRun": True})
    assert (answered, swept["missing"]) == (200, 4)
    assert harness.call("GET", "/api/status")[1]["missing"] == 4


def _costs(harness: Harness, instance_id: str, status: Status) -> None:
    """What may bill is counted on, estimated; what was off costs nothing more."""
    answered, cost = harness.call("GET", f"/api/instances/{instance_id}/cost")
    shown = harness.call("GET", f"/api/instances/{instance_id}")[1]["cost"]
    harness.sweep()
    day = f"{harness.now():%Y-%m-%d}"
    in_all, by_instance = harness.call("GET", f"/api/costs?from={day}&to={day}&groupBy=instance")
    counted_on = status not in (Status.STOPPED, Status.EXITED)

    assert (answered, in_all) == (200, 200)
    assert (cost["perHourUsd"] != "0", cost.get("estimated", False)) == (counted_on, counted_on)
    assert shown["perHourUsd"] == cost["perHourUsd"]
    assert instance_id in {group["key"] for group in by_instance["groups"]}


def _changes(harness: Harness, instance_id: str, status: Status) -> None:
    """All that can be changed of any other; it stays missing, and what was changed is told."""
    path = f"/api/instances/{instance_id}"
    limited = harness.call("PATCH", path, {"limits": {"deleteAfter": "30d"}, "tags": {"team": "a"}})
    free = harness.call("PATCH", path, {"limits": None, "name": "kept", "protected": True})
    deletes = [
        harness.call("DELETE", path),
        harness.call("POST", "/api/instances/delete", {"instanceName": "kept"}),
    ]

    assert (limited[0], free[0]) == (200, 200)
    assert limited[1]["limits"] == {"deleteAfter": "30d"}
    assert (free[1]["tags"], free[1]["protected"], free[1]["status"]) == ({"team": "a"}, True, status)
    assert "missingSince" in free[1]
    assert harness.history(instance_id).count("instance.updated") == 2
    assert {(code, answer["error"]["code"]) for code, answer in deletes} == {(409, "INSTANCE_PROTECTED")}


def _accepts_delete(harness: Harness, instance_id: str) -> None:
    """By its name; from then on nothing of it can be changed."""
    code, answer = harness.call("POST", "/api/instances/delete", {"instanceName": "delete"})
    late, refusal = harness.call("PATCH", f"/api/instances/{instance_id}", {"tags": {"team": "a"}})

    assert (code, answer["instanceId"]) == (202, instance_id)
    assert harness.call("DELETE", f"/api/instances/{instance_id}")[0] == 202
    assert (late, refusal["error"]["code"]) == (409, "INSTANCE_ENDED")


def _refusals(harness: Harness, instance_id: str, machine_id: str) -> None:
    path, by_name = f"/api/instances/{instance_id}", {"instanceName": "kept"}
    refused = [
        harness.call("POST", f"{path}/start"),
        harness.call("POST", f"{path}/restart"),
        harness.call("GET", f"{path}/connection"),
        harness.call("POST", "/api/instances/start", by_name),
    ]

    assert [(code, answer["error"]["code"]) for code, answer in refused] == [(409, "INSTANCE_MISSING")] * 4
    known = harness.call("POST", "/api/instances/import", {"novitaInstanceId": machine_id})
    assert known[0] in (404, 409)


def _accepts_stop(harness: Harness, instance_id: str, status: Status) -> bool:
    """By its id or name; what is off or being stopped is refused as ever."""
    by_id: tuple[str, dict[str, Any] | None] = (f"/api/instances/{instance_id}/stop", None)
    by_name: tuple[str, dict[str, Any] | None] = ("/api/instances/stop", {"instanceName": "stop"})
    first, second = (by_name, by_id) if status is Status.RUNNING else (by_id, by_name)
    if status in STOPPABLE:
        code, answer = harness.call("POST", *first)
        assert (code, answer["instanceId"]) == (202, instance_id)
    for path, body in (first, second):
        code, answer = harness.call("POST", path, body)
        assert (code, answer["error"]["code"]) == (409, "INSTANCE_NOT_STOPPABLE")
    return status in STOPPABLE


def _of(listed: list[dict[str, Any]], instance_id: str) -> dict[str, Any]:
    (found,) = (one for one in listed if one.get("instanceId", one.get("id")) == instance_id)
    return found


@pytest.mark.parametrize(
    ("reach", "becomes"), [(starting, "removed"), (starting_again, "exited")], ids=["create", "start"]
)
def test_the_deadline_of_a_boot_runs_on_and_its_machine_is_given_back_when_it_shows_up(
    harness: Harness, reach: Callable[[Harness, str], str], becomes: str
) -> None:
    (instance_id,) = missing(harness, reach, "late")
    machine_id = machine_of(harness, instance_id)

    harness.run(HOUR)
    record = harness.record(instance_id)
    harness.simulator.show(machine_id)
    for _ in range(10):
        harness.run(60)
        harness.sweep()
    harness.settle()

    assert (record.status, record.error and record.error.code) == (Status.FAILED, "STARTUP_TIMEOUT")
    assert harness.record(instance_id).status is Status.FAILED
    assert harness.simulator.instance(machine_id)["status"] == becomes
