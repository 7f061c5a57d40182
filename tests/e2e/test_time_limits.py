"""Every kind of time limit on the deployed template. They pass side by side, in seconds."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from functions.shared.domain.messages import StepMessage
from functions.shared.stores.table import Table
from tests.e2e.service import Json, Service
from tests.integration.stored_records import rewrite

LATE_SECONDS = 30.0  # late by no more than half a minute, on a busy machine too: no sweep takes part


def test_every_limit_ends_or_stops_its_instance_in_time(service: Service) -> None:
    service.simulator.settings(removedVisibleSeconds=0)
    _warm_up(service)
    stop_after = service.create(name="stop-after", limits={"stopAfter": 6, "deleteAfterStopped": 4})
    service.wait_for(stop_after, "running", "stopping", "stopped")
    delete_after = _take_over(service, "delete-after", limits={"deleteAfter": "6s"})
    soon = datetime.now(UTC) + timedelta(seconds=12)
    stop_at = _take_over(service, "stop-at", limits={"stopAt": soon.isoformat()})
    delete_at = _take_over(service, "delete-at", limits={"deleteAt": soon.isoformat()})
    kept = _take_over(service, "kept", limits={"deleteAfter": "1h"})
    changes = {"protected": True, "limits": {"deleteAfter": "3s"}}
    assert service.call("PATCH", f"/api/instances/{kept}", changes).status_code == 200
    extended = _take_over(service, "extended", limits={"stopAfter": "10s"})
    answer = service.call("PATCH", f"/api/instances/{extended}", {"limits": {"stopAfter": "1h"}})
    assert answer.status_code == 200, answer.text
    refused = service.call("DELETE", f"/api/instances/{kept}")
    before = service.instance(stop_at)

    service.wait_for(stop_at, "stopped")
    for ended in (stop_after, delete_after, delete_at):
        service.wait_for(ended, "terminated")

    assert before["expiry"] == {"stopAt": before["limits"]["stopAt"], "stopReason": "lifetime"}
    ran = _at(service, stop_after, "instance.running")
    _assert_in_time(service, stop_after, "stopping", ran + timedelta(seconds=6), "lifetime")
    stopped = _at(service, stop_after, "instance.stopped")
    _assert_in_time(service, stop_after, "deleting", stopped + timedelta(seconds=4), "stopped_too_long")
    ran = _at(service, delete_after, "instance.running")
    _assert_in_time(service, delete_after, "deleting", ran + timedelta(seconds=6), "lifetime")
    _assert_in_time(service, stop_at, "stopping", soon, "lifetime")
    _assert_in_time(service, delete_at, "deleting", soon, "lifetime")
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "INSTANCE_PROTECTED")
    assert service.instance(kept)["status"] == "running"
    assert service.instance(extended)["status"] == "running"
    assert "instance.stopping" not in [event["type"] for event in service.events(extended)]

    freed = service.call("PATCH", f"/api/instances/{kept}", {"protected": False})
    assert freed.json()["expiry"]["deleteReason"] == "lifetime"
    service.wait_for(kept, "terminated")


def test_a_limit_can_be_changed_while_it_is_stopped_and_after_a_restart(service: Service) -> None:
    service.simulator.settings(removedVisibleSeconds=0)
    off = _take_over(service, "off", limits={"deleteAfterStopped": "1h"})
    restarted = _take_over(service, "restarted", limits={"stopAfter": "1h"})
    ran = _at(service, restarted, "instance.running")
    service.operate(off, "stop")
    service.operate(restarted, "restart")
    service.wait_for(off, "stopped")
    service.wait_for(restarted, "running", "ready")

    stopped = _at(service, off, "instance.stopped")
    seconds = int((datetime.now(UTC) - ran).total_seconds()) + 5
    changes = {off: {"deleteAfterStopped": seconds}, restarted: {"stopAfter": seconds}}
    for instance_id, limits in changes.items():
        answer = service.call("PATCH", f"/api/instances/{instance_id}", {"limits": limits})
        assert answer.status_code == 200, answer.text

    service.wait_for(restarted, "stopped")
    service.wait_for(off, "terminated")
    _assert_in_time(service, restarted, "stopping", ran + timedelta(seconds=seconds), "lifetime")
    _assert_in_time(service, off, "deleting", stopped + timedelta(seconds=seconds), "stopped_too_long")


def test_what_is_idle_is_stopped_and_what_its_gpus_say_is_heard(service: Service) -> None:
    limits = {"idleStopAfter": "5m"}
    by_gpu = {**limits, "idleGpuBelow": 10}
    unused = _take_over(service, "unused", limits=limits)
    used = _take_over(service, "used", limits=limits)
    idle = _take_over(service, "idle", limits=by_gpu)
    unread = _take_over(service, "unread", limits=by_gpu)
    machine_id = service.instance(unread)["novitaInstanceId"]
    service.simulator.patch_instance(machine_id, gpuUtilization=[None])
    everyone = (unused, used, idle, unread)
    for instance_id in everyone:
        assert service.wait(lambda: "instance.expiring" in _types(service, instance_id))  # noqa: B023

    service.call("PUT", f"/api/instances/{used}/last-used", {})
    for instance_id in everyone:
        _run_for_long(service, instance_id)

    for instance_id in (unused, idle):
        service.wait_for(instance_id, "stopped")
        assert _event(service, instance_id, "instance.stopping")["data"]["endedBy"] == "idle"
    assert service.wait(lambda: machine_id in _asked(service))
    for instance_id in (used, unread):
        assert service.wait(lambda: _goes_on(service.instance(instance_id)))  # noqa: B023
        assert "instance.stopping" not in _types(service, instance_id)


def _warm_up(service: Service) -> None:
    """A purchase has 15 s here, of which a cold start on a busy machine may take most."""
    nobodys = StepMessage("inst_00000000000000000000000000", "token", "warm-up").as_json()
    service.sqs.send_message(QueueUrl=service.stack.outputs["CreateQueueUrl"], MessageBody=nobodys)
    assert service.wait(lambda: "message out of date" in service.log())


def _take_over(service: Service, name: str, **body: Any) -> str:
    made = service.simulator.put_instance(name=name, status="running", ports="80/http", ageSeconds=900)
    answer = service.call("POST", "/api/instances/import", {"novitaInstanceId": made["id"], **body})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["instanceId"])


def _run_for_long(service: Service, instance_id: str) -> None:
    """As if it had been imported ten minutes ago: the shortest idle time is five. A change makes it due."""
    then = datetime.now(UTC) - timedelta(minutes=10)
    table = Table(service.dynamodb, service.stack.table_name)
    rewrite(
        table, instance_id, lambda record: replace(record, clock=replace(record.clock, running_since=then))
    )
    answer = service.call("PATCH", f"/api/instances/{instance_id}", {"tags": {"since": "long"}})
    assert answer.status_code == 200, answer.text


def _goes_on(shown: Json) -> bool:
    """It was decided that it is in use: its time has moved."""
    stop_at = datetime.fromisoformat(shown["expiry"]["stopAt"])
    return shown["status"] == "running" and stop_at > datetime.now(UTC) + timedelta(minutes=4)


def _asked(service: Service) -> set[str]:
    calls = service.simulator.calls(path="/openapi/v1/metrics/gpu/instance")
    return {call["query"]["instanceId"] for call in calls}


def _types(service: Service, instance_id: str) -> list[str]:
    return [event["type"] for event in service.events(instance_id)]


def _event(service: Service, instance_id: str, type_: str) -> Json:
    (found,) = [event for event in service.events(instance_id) if event["type"] == type_]
    return found


def _at(service: Service, instance_id: str, type_: str) -> datetime:
    return datetime.fromisoformat(_event(service, instance_id, type_)["timestamp"])


def _assert_in_time(service: Service, instance_id: str, status: str, due: datetime, by: str) -> None:
    """Once, with a notice before it, at its time."""
    event = _event(service, instance_id, f"instance.{status}")
    late = (datetime.fromisoformat(event["timestamp"]) - due).total_seconds()
    assert -0.1 <= late <= LATE_SECONDS
    assert (event["actor"], event["data"]["endedBy"]) == ("system", by)
    action = "stop" if status == "stopping" else "delete"
    notices = [one for one in service.events(instance_id) if one["type"] == "instance.expiring"]
    assert [one["data"]["action"] for one in notices].count(action) == 1
