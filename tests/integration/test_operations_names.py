"""Operations by name, machines that are imported, last use, and how to get in."""

import json
from datetime import timedelta
from typing import Any

import pytest

from functions.shared.domain.ids import timestamp
from functions.shared.domain.instance.status import Status
from tests.integration.harness import Harness
from tests.integration.logs import everything_logged
from tests.integration.stored_records import as_text


def _import(harness: Harness, status: str = "running", **more: Any) -> tuple[int, Any]:
    machine = harness.simulator.put_instance(name="stranger", status=status, ports="8188/http")
    return harness.call("POST", "/api/instances/import", {"novitaInstanceId": machine["id"], **more})


def _named(harness: Harness, what: str, name: str) -> tuple[int, Any]:
    return harness.call("POST", f"/api/instances/{what}", {"instanceName": name})


def test_an_instance_is_stopped_started_and_deleted_by_its_name(harness: Harness) -> None:
    _, imported = _import(harness, name="trainer")
    statuses = []

    for what in ("stop", "start", "delete"):
        status, accepted = _named(harness, what, "trainer")
        assert (status, accepted["instanceId"]) == (202, imported["instanceId"])
        harness.settle()
        statuses.append(harness.record(imported["instanceId"]).status)

    assert statuses == [Status.STOPPED, Status.READY, Status.TERMINATED]


@pytest.mark.parametrize("what", ["start", "stop", "delete"])
def test_a_name_that_two_have_is_refused_with_their_ids(harness: Harness, what: str) -> None:
    ids = {_import(harness, "exited", name="twin")[1]["instanceId"] for _ in range(2)}

    status, body = _named(harness, what, "twin")

    assert (status, body["error"]["code"]) == (409, "AMBIGUOUS_INSTANCE_NAME")
    assert set(body["error"]["details"]["instanceIds"]) == ids


def test_a_name_means_the_one_that_is_not_terminated(harness: Harness) -> None:
    _, first = _import(harness, name="again")
    harness.call("DELETE", f"/api/instances/{first['instanceId']}")
    harness.settle()
    nobody, _ = _named(harness, "stop", "again")
    _, second = _import(harness, name="again")

    status, accepted = _named(harness, "stop", "again")
    harness.settle()

    assert nobody == 404
    assert (status, accepted["instanceId"]) == (202, second["instanceId"])
    assert harness.record(first["instanceId"]).status is Status.TERMINATED


def test_a_name_means_the_one_that_may_have_a_machine(harness: Harness) -> None:
    """What failed without ever getting one is nothing that could be started, stopped or deleted by name."""
    failed = [_failed(harness, "again") for _ in range(2)]
    nobody = [_named(harness, what, "again")[0] for what in ("start", "stop", "delete")]
    _, live = _import(harness, name="again")

    status, accepted = _named(harness, "stop", "again")
    harness.settle()

    assert nobody == [404, 404, 404]
    assert (status, accepted["instanceId"]) == (202, live["instanceId"])
    assert {harness.record(one).status for one in failed} == {Status.FAILED}


def test_a_name_also_means_one_that_failed_and_kept_its_machine(harness: Harness) -> None:
    harness.simulator.settings(bootSeconds=100_000)
    kept = harness.create(name="kept", onFailure="keep", maxWaitTime=60_000)
    harness.settle()
    assert harness.record(kept).status is Status.FAILED

    status, accepted = _named(harness, "delete", "kept")
    harness.settle()

    assert (status, accepted["instanceId"]) == (202, kept)
    assert harness.record(kept).status is Status.TERMINATED


def _failed(harness: Harness, name: str) -> str:
    """Refused for good, so that it never had a machine."""
    harness.simulator.fault("status", "/gpu/instance/create", status=400, reason="INVALID_PARAMS", times=1)
    instance_id = harness.create(name=name)
    harness.settle()
    record = harness.record(instance_id)
    assert (record.status, record.machine.id) == (Status.FAILED, None)
    return instance_id


@pytest.mark.parametrize(
    ("theirs", "ours"), [("running", "running"), ("exited", "exited"), ("pulling", "starting")]
)
def test_an_imported_machine_is_looked_after_from_then_on(harness: Harness, theirs: str, ours: str) -> None:
    status, shown = _import(harness, theirs)
    harness.simulator.patch_instance(shown["novitaInstanceId"], status="running")

    harness.advance(60)
    harness.sweep()
    harness.settle()
    deleted, _ = harness.call("DELETE", f"/api/instances/{shown['instanceId']}")
    harness.settle()

    assert (status, shown["status"]) == (201, ours)
    assert "instance.running" in harness.history(shown["instanceId"])
    assert deleted == 202
    assert harness.simulator.live() == []


def test_an_imported_machines_disk_is_what_novita_says_or_not_shown(harness: Harness) -> None:
    sizes = []
    for said in (80, None):
        machine = harness.simulator.put_instance(name=f"disk-{said}", status="running", rootfsSize=80)
        if said is None:
            silent = {"id": machine["id"], "name": "silent", "status": "running"}
            harness.simulator.fault("garbage", path="/gpu/instance", body=json.dumps(silent), times=1)
        status, shown = harness.call("POST", "/api/instances/import", {"novitaInstanceId": machine["id"]})
        assert status == 201, shown
        sizes.append(shown.get("rootfsSize"))
    _, merged = harness.call("GET", "/api/instances/comprehensive")

    assert sizes == [80, None]
    assert {one["name"]: one.get("rootfsSize") for one in merged["instances"]} == {
        "disk-80": 80,
        "silent": None,
    }


def test_a_machine_that_novita_does_not_have_cannot_be_imported(harness: Harness) -> None:
    status, body = harness.call("POST", "/api/instances/import", {"novitaInstanceId": "0123456789abcdef"})

    assert (status, body["error"]["code"]) == (404, "INSTANCE_NOT_FOUND")
    assert harness.records() == []


def test_a_machine_is_imported_once(harness: Harness) -> None:
    _, first = _import(harness)

    status, body = harness.call(
        "POST", "/api/instances/import", {"novitaInstanceId": first["novitaInstanceId"]}
    )

    assert (status, body["error"]["code"]) == (409, "INSTANCE_ALREADY_MANAGED")
    assert body["error"]["details"]["instanceId"] == first["instanceId"]
    assert len(harness.records()) == 1


def test_a_machine_with_our_mark_is_its_own_instances_and_not_imported(harness: Harness) -> None:
    instance_id = harness.create()
    harness.settle()

    status, body = harness.call(
        "POST", "/api/instances/import", {"novitaInstanceId": harness.record(instance_id).machine.id}
    )

    assert (status, body["error"]["code"]) == (409, "INSTANCE_ALREADY_MANAGED")
    assert body["error"]["details"]["instanceId"] == instance_id


def test_an_outage_at_an_import_is_not_taken_for_absence(harness: Harness) -> None:
    harness.simulator.fault("status", status=503)

    status, body = _import(harness)

    assert (status, body["error"]["code"], body["error"]["retryable"]) == (503, "NOVITA_UNAVAILABLE", True)
    assert harness.records() == []


def test_last_use_is_noted_and_disturbs_nothing_that_is_under_way(harness: Harness) -> None:
    harness.simulator.settings(bootSeconds=60)
    instance_id = harness.create()
    harness.run(31)

    path = f"/api/instances/{instance_id}/last-used"
    first, given = harness.call("PUT", path, {"lastUsedAt": "2026-01-02T03:04:05Z"})
    second, shown = harness.call("PUT", path)
    third, late = harness.call("PUT", path, {"lastUsedAt": "2026-01-02T03:04:05Z"})
    harness.settle()

    assert (first, second, third) == (200, 200, 200)
    assert given["lastUsedAt"] == "2026-01-02T03:04:05.000Z"
    assert shown["lastUsedAt"].startswith(str(harness.record(instance_id).created_at.date()))
    assert late["lastUsedAt"] == shown["lastUsedAt"]
    assert harness.record(instance_id).status is Status.RUNNING
    assert harness.history(instance_id) == ["instance.creating", "instance.starting", "instance.running"]


def test_last_use_is_shown_wherever_the_instance_is(harness: Harness) -> None:
    instance_id = harness.create()
    harness.settle()
    comprehensive = "/api/instances/comprehensive"
    _, before = harness.call("GET", comprehensive)  # cached from now on

    harness.call("PUT", f"/api/instances/{instance_id}/last-used", {"lastUsedAt": "2026-01-02T03:04:05Z"})

    assert "lastUsedAt" not in before["instances"][0]
    _, one = harness.call("GET", f"/api/instances/{instance_id}")
    shown = [one] + [
        harness.call("GET", path)[1]["instances"][0] for path in ("/api/instances", comprehensive)
    ]
    assert {one["lastUsedAt"] for one in shown} == {"2026-01-02T03:04:05.000Z"}


def test_how_to_get_in_is_asked_of_novita_and_kept_nowhere(harness: Harness) -> None:
    _, shown = _import(harness)
    path = f"/api/instances/{shown['instanceId']}/connection"

    with everything_logged() as logged:
        status, connection = harness.call("GET", path)
        harness.call("GET", f"/api/instances/{shown['instanceId']}")
        harness.sweep()
    password = connection["ssh"]["password"]
    said = as_text([call.params for call in harness.wire.calls])

    assert status == 200
    assert len(password) == 16
    assert connection["ssh"]["command"].startswith("ssh ")
    assert connection["webTerminal"]["password"] == password
    assert connection["logs"].keys() == {"system", "instance"}
    assert password not in as_text(harness.items()) + said + logged.getvalue()
    assert len(harness.simulator.calls("/gpu/instance")) == 2, "once to import it, once to get in"


def test_there_is_no_way_into_an_instance_without_a_machine(harness: Harness) -> None:
    instance_id = harness.create()

    waiting, first = harness.call("GET", f"/api/instances/{instance_id}/connection")
    harness.call("DELETE", f"/api/instances/{instance_id}")
    harness.settle()
    gone, second = harness.call("GET", f"/api/instances/{instance_id}/connection")

    assert (waiting, gone) == (409, 409)
    assert first["error"]["code"] == second["error"]["code"] == "INSTANCE_HAS_NO_MACHINE"


def test_a_use_that_is_still_to_come_is_refused_and_a_fast_clock_forgiven(harness: Harness) -> None:
    _, imported = _import(harness)
    path = f"/api/instances/{imported['instanceId']}/last-used"

    def use(seconds: float) -> tuple[int, Any]:
        return harness.call(
            "PUT", path, {"lastUsedAt": timestamp(harness.now() + timedelta(seconds=seconds))}
        )

    refused, answer = use(60)
    noted, shown = use(3)

    assert (refused, answer["error"]["validationErrors"][0]["field"]) == (400, "lastUsedAt")
    assert noted == 200
    assert shown["lastUsedAt"] <= timestamp(harness.now())
