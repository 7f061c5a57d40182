"""Start, stop, restart and delete: what is answered, what Novita is asked, what it comes to."""

import json
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from functions.shared.domain.ids import new_instance_id
from functions.shared.domain.instance.commands import begin_import
from functions.shared.domain.instance.machine import Machine
from functions.shared.domain.instance.record import Action, Operation
from functions.shared.domain.instance.status import Status
from tests.integration.conftest import Build
from tests.integration.crash_points import Interruptions, sides
from tests.integration.harness import Harness
from tests.integration.wire import Made
from tests.unit.builders import changed


def _post(harness: Harness, instance_id: str, what: str, body: Any = None) -> tuple[int, Any]:
    if what == "delete":
        return harness.call("DELETE", f"/api/instances/{instance_id}")
    return harness.call("POST", f"/api/instances/{instance_id}/{what}", body)


def _import(harness: Harness, status: str, **machine: Any) -> str:
    made = harness.simulator.put_instance(status=status, **{"ports": "8188/http", **machine})
    answered, body = harness.call("POST", "/api/instances/import", {"novitaInstanceId": made["id"]})
    assert answered == 201, body
    return str(body["instanceId"])


def _operation(harness: Harness, operation_id: str) -> Any:
    status, shown = harness.call("GET", f"/api/operations/{operation_id}")
    assert status == 200, shown
    return shown


def _phases(operation: Any) -> list[str]:
    assert [phase["at"] for phase in operation["phases"]] == sorted(
        phase["at"] for phase in operation["phases"]
    )
    return [phase["status"] for phase in operation["phases"]]


WITH_MACHINE: dict[str, set[str]] = {
    "start": {"exited", "stopped", "failed"},
    "restart": {"running", "health_checking", "ready"},
    "stop": {"running", "health_checking", "ready", "starting", "migrating", "failed"},
    "delete": set(Status),
}
RESTART = "/gpu/instance/restart"
REFUSAL = {
    "start": "INSTANCE_NOT_STARTABLE",
    "restart": "INSTANCE_NOT_RESTARTABLE",
    "stop": "INSTANCE_NOT_STOPPABLE",
}


def _put(harness: Harness, status: Status, *, machine: bool, starting_again: bool = False) -> str:
    """An instance in this status, as if all that leads there had happened."""
    now = harness.now()
    decision = begin_import(
        instance_id=new_instance_id(now),
        name=f"{status}",
        machine=Machine("m", "m", "running"),
        webhook_url=None,
        actor="test",
        correlation_id="",
        now=now,
        policy=harness.wiring.policy,
    )
    operation = Operation("op_1", Action.START, "monitoring", "test", now) if starting_again else None
    machine_id = "m" if machine else None
    record = changed(decision.record, status=status, machine_id=machine_id, operation=operation)
    return harness.wiring.instances.add(replace(decision, record=record)).id


@pytest.mark.parametrize("what", ["start", "restart", "stop", "delete"])
def test_each_operation_on_each_status_is_taken_or_refused_with_the_status_named(
    harness: Harness, what: str
) -> None:
    for machine in (True, False):
        for status in Status:
            answered, body = _post(harness, _put(harness, status, machine=machine), what)

            case = f"{what} of {status} {'with' if machine else 'without'} machine: {body}"
            # What may be restarted cannot be without a machine.
            possible = machine or what in ("delete", "restart")
            if possible and status in WITH_MACHINE[what]:
                assert answered == 202, case
                assert "operationId" in body or status in ("deleting", "terminated"), case
            else:
                assert (answered, body["error"]["code"]) == (409, REFUSAL[what]), case
                assert status.value in body["error"]["message"], case
                assert body["error"]["details"] == {"status": status}, case
    harness.wipe()


@pytest.mark.parametrize("what", ["start", "restart"])
@pytest.mark.parametrize("status", [Status.STARTING, Status.RUNNING, Status.HEALTH_CHECKING])
def test_what_is_being_started_is_not_started_again(harness: Harness, what: str, status: Status) -> None:
    instance_id = _put(harness, status, machine=True, starting_again=True)

    answered, body = _post(harness, instance_id, what)

    assert (answered, body["error"]["code"]) == (409, "STARTUP_OPERATION_IN_PROGRESS")
    assert f" is {status}:" in body["error"]["message"]
    assert body["error"]["details"] == {"status": status}
    harness.wipe()


def test_an_operation_on_what_is_not_there_is_not_found(harness: Harness) -> None:
    nobody = new_instance_id(harness.now())

    answers = [_post(harness, nobody, what) for what in ("start", "stop", "restart", "delete")]

    assert [(status, body["error"]["code"]) for status, body in answers] == [(404, "INSTANCE_NOT_FOUND")] * 4


def test_a_start_is_seen_through_all_its_phases_while_it_runs_and_after(harness: Harness) -> None:
    instance_id = _import(harness, "exited")
    harness.simulator.app(status=502)

    status, accepted = _post(harness, instance_id, "start")
    seen = [_phases(_operation(harness, accepted["operationId"]))]
    harness.deliver()
    seen.append(_phases(_operation(harness, accepted["operationId"])))
    harness.run(60)
    seen.append(_phases(_operation(harness, accepted["operationId"])))
    harness.simulator.app(status=200)
    harness.settle()

    after = _operation(harness, accepted["operationId"])
    _, listed = harness.call("GET", f"/api/instances/{instance_id}/operations")
    assert (status, accepted["status"]) == (202, "starting")
    assert seen == [
        ["initiated"],
        ["initiated", "monitoring"],
        ["initiated", "monitoring", "health_checking"],
    ]
    assert _phases(after) == ["initiated", "monitoring", "health_checking", "completed"]
    assert (after["kind"], after["status"], after["attempts"]) == ("start", "completed", 1)
    assert listed["operations"] == [after]
    assert harness.record(instance_id).status is Status.READY
    assert harness.history(instance_id) == [
        "instance.exited",
        "instance.starting",
        "startup.initiated",
        "instance.running",
        "instance.health_checking",
        "instance.ready",
        "startup.completed",
    ]


def test_a_webhook_given_at_start_is_told_of_that_start_alone_and_the_instances_own_of_everything(
    harness: Harness,
) -> None:
    own, once = (harness.simulator.inbox_url(box) for box in ("own", "once"))
    instance_id = harness.create(webhookUrl=own, healthCheck={})
    harness.settle()
    _post(harness, instance_id, "stop")
    harness.settle()

    _, started = _post(harness, instance_id, "start", {"webhookUrl": once})
    harness.settle()
    _post(harness, instance_id, "stop")
    harness.settle()

    of_start = [json.loads(one["body"]) for one in harness.simulator.inbox("once")]
    assert [one["type"] for one in of_start] == [
        "instance.starting",
        "startup.initiated",
        "instance.running",
        "instance.health_checking",
        "instance.ready",
        "startup.completed",
    ]
    told = [json.loads(one["body"])["type"] for one in harness.simulator.inbox("own")]
    assert told == harness.history(instance_id)
    assert {one["startupOperation"]["operationId"] for one in of_start} == {started["operationId"]}
    assert [one["startupOperation"]["status"] for one in of_start] == [
        "initiated",
        "initiated",
        "monitoring",
        "health_checking",
        "completed",
        "completed",
    ]
    shown = _operation(harness, started["operationId"])
    assert of_start[-1]["startupOperation"]["phases"] == shown["phases"]
    assert shown["webhookUrl"] == once
    assert harness.call("GET", f"/api/instances/{instance_id}")[1]["webhookUrl"] == own


def test_a_stop_is_confirmed_by_novita_before_it_is_said(harness: Harness) -> None:
    harness.simulator.settings(stopSeconds=100)
    instance_id = _import(harness, "running")

    _, accepted = _post(harness, instance_id, "stop")
    harness.run(90)
    before = (harness.record(instance_id).status, _phases(_operation(harness, accepted["operationId"])))
    harness.settle()

    assert before == (Status.STOPPING, ["initiated", "monitoring"])
    assert harness.record(instance_id).status is Status.STOPPED
    assert _phases(_operation(harness, accepted["operationId"])) == ["initiated", "monitoring", "completed"]
    assert len(harness.simulator.calls("/gpu/instance/stop")) == 1


def test_a_delete_is_seen_through_its_phases(harness: Harness) -> None:
    instance_id = _import(harness, "running")

    _, accepted = _post(harness, instance_id, "delete")
    harness.settle()

    after = _operation(harness, accepted["operationId"])
    assert _phases(after) == ["initiated", "monitoring", "completed"]
    assert after["attempts"] == 1


def _start_too(harness: Harness, instance_id: str, answers: list[tuple[int, Any]]) -> None:
    answers.append(_post(harness, instance_id, "start"))


def test_two_starts_at_any_same_moment_are_one_start(harness: Harness) -> None:
    recorded = _import(harness, "exited")
    harness.wire.calls.clear()
    _post(harness, recorded, "start")
    found = sides(harness.wire.calls)
    meetings = Interruptions(harness)
    ids = []

    for point in found:
        ids.append(_import(harness, "exited"))
        answers: list[tuple[int, Any]] = []
        harness.advance(
            6
        )  # whether purchases are paused is read anew, as it was when the calls were recorded
        meetings.plan("start", point, partial(_start_too, harness, ids[-1], answers))
        with harness.wire.handling("api", "start"):
            _start_too(harness, ids[-1], answers)
        answers.sort(key=lambda answer: answer[0])
        assert [status for status, _ in answers] == [202, 409], point
        assert answers[1][1]["error"]["code"] == "STARTUP_OPERATION_IN_PROGRESS", point
    meetings.end()
    harness.settle()

    assert len(found) >= 4
    assert len(harness.simulator.calls("/gpu/instance/start")) == len(ids) + 1
    assert {harness.record(instance_id).status for instance_id in ids} == {Status.READY}


def test_a_stopped_instance_whose_start_is_refused_for_room_is_stopped_again(harness: Harness) -> None:
    instance_id = _import(harness, "running")
    _post(harness, instance_id, "stop")
    harness.settle()
    harness.simulator.patch_product("4090.16c62g", stock=0)

    _post(harness, instance_id, "start")
    harness.settle()

    assert harness.record(instance_id).status is Status.STOPPED
    assert harness.history(instance_id)[-2:] == ["instance.stopped", "startup.failed"]


def test_a_start_refused_for_capacity_leaves_the_machine_startable(harness: Harness) -> None:
    instance_id = _import(harness, "exited")
    harness.simulator.patch_product("4090.16c62g", stock=0)

    _, accepted = _post(harness, instance_id, "start")
    harness.settle()
    refused, failed = harness.record(instance_id), _operation(harness, accepted["operationId"])
    harness.simulator.patch_product("4090.16c62g", stock=None)
    again, _ = _post(harness, instance_id, "start")
    harness.settle()

    assert refused.status is Status.EXITED
    assert refused.at_rest
    assert (failed["status"], failed["error"]["code"]) == ("failed", "RESOURCE_CONSTRAINTS")
    assert again == 202
    assert harness.record(instance_id).status is Status.READY
    assert harness.simulator.calls("/gpu/instance/delete") == []
    assert harness.history(instance_id).count("startup.failed") == 1


def test_a_start_refused_for_good_fails_and_comes_to_rest_and_can_be_tried_again(harness: Harness) -> None:
    instance_id = _import(harness, "exited")
    harness.simulator.settings(balanceEnough=False)

    _, accepted = _post(harness, instance_id, "start")
    harness.settle()
    failed = harness.record(instance_id)
    harness.simulator.settings(balanceEnough=True)
    again, _ = _post(harness, instance_id, "start")
    harness.settle()

    assert failed.status is Status.FAILED
    assert _operation(harness, accepted["operationId"])["error"]["code"] == "NOVITA_REJECTED"
    assert again == 202
    assert harness.record(instance_id).status is Status.READY


def test_a_start_that_never_comes_up_fails_and_its_machine_is_stopped(build: Build) -> None:
    harness = build(BOOT_MAX_WAIT="100")
    harness.simulator.settings(startSeconds=5000)
    instance_id = harness.create()
    harness.settle()
    _post(harness, instance_id, "stop")
    harness.settle()

    _post(harness, instance_id, "start")
    harness.run(110)
    failed = harness.record(instance_id)
    machine_id = failed.machine.id or ""
    harness.simulator.patch_instance(machine_id, status="running")
    harness.settle()

    assert (failed.status, failed.error and failed.error.code) == (Status.FAILED, "STARTUP_TIMEOUT")
    assert harness.simulator.instance(machine_id)["status"] == "exited"
    assert harness.simulator.calls("/gpu/instance/delete") == []


def test_a_lagging_list_does_not_turn_a_start_back(harness: Harness) -> None:
    harness.simulator.settings(listLagSeconds=50, startSeconds=40)
    instance_id = _import(harness, "exited", ageSeconds=600)
    _post(harness, instance_id, "start")
    harness.deliver()
    statuses = set()

    for _ in range(4):
        harness.advance(11)
        harness.sweep()
        statuses.add(harness.record(instance_id).status)
    harness.settle()

    assert statuses == {Status.STARTING}
    assert harness.record(instance_id).status is Status.READY
    assert harness.history(instance_id).count("instance.exited") == 1


def test_a_lagging_list_does_not_bring_a_stopped_machine_back(harness: Harness) -> None:
    harness.simulator.settings(listLagSeconds=8)
    instance_id = _import(harness, "running", ageSeconds=600)
    harness.run(40)
    _post(harness, instance_id, "stop")
    harness.deliver()

    harness.advance(4)
    harness.deliver_now(instance_id)
    stopped = harness.record(instance_id).status
    harness.sweep()
    after = harness.record(instance_id).status
    harness.settle()

    assert stopped is Status.STOPPED
    assert after is Status.STOPPED, "the list still shows it running"
    assert harness.history(instance_id)[-2:] == ["instance.stopping", "instance.stopped"]


def test_a_lagging_list_does_not_bring_back_what_exited_before_it_was_ready(harness: Harness) -> None:
    harness.simulator.settings(bootSeconds=10, listLagSeconds=50)
    harness.simulator.app(status=502)
    instance_id = harness.create(healthCheck={"retryAttempts": 0})
    harness.run(60)
    harness.simulator.patch_instance(harness.record(instance_id).machine.id or "", status="exited")
    harness.advance(31)
    harness.deliver_delayed()
    exited = harness.record(instance_id).status

    harness.sweep()
    harness.settle()

    assert exited is Status.EXITED
    assert harness.history(instance_id)[-2:] == ["instance.health_checking", "instance.exited"]


def test_a_machine_that_somebody_else_started_is_followed(harness: Harness) -> None:
    instance_id = _import(harness, "exited", ageSeconds=600)
    harness.run(40)
    harness.simulator.patch_instance(harness.record(instance_id).machine.id or "", status="running")

    harness.advance(20)
    harness.sweep()
    harness.settle()

    assert harness.record(instance_id).status is Status.RUNNING
    assert all(endpoint.address for endpoint in harness.record(instance_id).machine.endpoints)


@pytest.mark.parametrize("look", ["get", "sweep"])
@pytest.mark.parametrize("after", [False, True])
def test_what_was_read_before_a_start_does_not_turn_it_back(harness: Harness, look: str, after: bool) -> None:
    instance_id = _import(harness, "exited")
    harness.run(40)
    path = "novita GET /gpu/instance" if look == "get" else "novita GET /gpu/instances"

    def start(made: Made) -> None:
        if made.name == path:
            harness.wire.before = harness.wire.after = None
            harness.elsewhere(lambda: (_post(harness, instance_id, "start"), harness.deliver()))

    if after:
        harness.wire.after = start
    else:
        harness.wire.before = start
    if look == "get":
        harness.call("GET", f"/api/instances/{instance_id}")
    else:
        harness.sweep()
    status = harness.record(instance_id).status
    harness.settle()

    assert harness.wire.before is harness.wire.after is None, "the start came in between"
    assert status is Status.STARTING
    assert harness.record(instance_id).status is Status.READY
    assert harness.history(instance_id).count("instance.exited") == 1


def test_a_look_does_not_delay_what_was_asked_for(harness: Harness) -> None:
    instance_id = _import(harness, "running")
    harness.run(40)
    _post(harness, instance_id, "stop")

    harness.call("GET", f"/api/instances/{instance_id}")
    harness.sweep()
    harness.run(1)

    assert len(harness.simulator.calls("/gpu/instance/stop")) == 1
    harness.settle()
    assert harness.record(instance_id).status is Status.STOPPED


def test_a_stop_while_it_boots_is_carried_out_when_novita_lets_it(harness: Harness) -> None:
    harness.simulator.settings(bootSeconds=100)
    instance_id = harness.create()
    harness.run(40)

    status, _ = _post(harness, instance_id, "stop")
    harness.settle()

    assert status == 202
    assert harness.record(instance_id).status is Status.STOPPED
    assert harness.simulator.live()[0]["status"] == "exited"


def test_a_delete_ends_the_start_that_was_under_way(harness: Harness) -> None:
    harness.simulator.settings(startSeconds=300)
    instance_id = _import(harness, "exited")
    _, started = _post(harness, instance_id, "start")
    harness.run(31)

    _, deleted = _post(harness, instance_id, "delete")
    harness.settle()

    first, second = (_operation(harness, one["operationId"]) for one in (started, deleted))
    assert (first["status"], first["error"]["code"]) == ("failed", "OPERATION_SUPERSEDED")
    assert second["status"] == "completed"
    assert harness.record(instance_id).status is Status.TERMINATED


def test_ready_at_is_not_set_anew_by_a_start(harness: Harness) -> None:
    instance_id = harness.create()
    harness.settle()
    ready_at = harness.record(instance_id).ready_at
    harness.advance(timedelta(hours=1).total_seconds())

    _post(harness, instance_id, "restart")
    harness.settle()

    assert harness.record(instance_id).status is Status.READY
    assert harness.record(instance_id).ready_at == ready_at


LOST = pytest.mark.parametrize("fault", [{"kind": "disconnect"}, {"kind": "status", "status": 502}])


@LOST
@pytest.mark.parametrize("commit", [True, False], ids=["made", "never made"])
def test_a_restart_whose_answer_is_lost_is_asked_for_once_more(
    harness: Harness, commit: bool, fault: dict[str, Any]
) -> None:
    instance_id = harness.create()
    harness.settle()
    harness.simulator.fault(path=RESTART, commit=commit, times=1, **fault)

    _, restarted = _post(harness, instance_id, "restart")
    harness.settle()

    assert len(harness.simulator.calls(RESTART)) == 2
    assert harness.record(instance_id).status is Status.READY
    assert _operation(harness, restarted["operationId"])["status"] == "completed"


@LOST
@pytest.mark.parametrize("commit", [True, False], ids=["made", "never made"])
def test_a_restart_that_novita_never_confirms_is_not_said_to_be_done(
    harness: Harness, commit: bool, fault: dict[str, Any]
) -> None:
    instance_id = harness.create()
    harness.settle()
    harness.simulator.fault(path=RESTART, commit=commit, times=9, **fault)

    _, restarted = _post(harness, instance_id, "restart")
    harness.settle()
    operation = _operation(harness, restarted["operationId"])

    assert len(harness.simulator.calls(RESTART)) == 2
    assert harness.record(instance_id).status is Status.RUNNING
    assert (operation["status"], operation["error"]["code"]) == ("failed", "NOVITA_UNAVAILABLE")


def test_a_restart_that_novita_cannot_have_heard_is_made_again(harness: Harness) -> None:
    instance_id = harness.create()
    harness.settle()
    harness.simulator.fault("status", RESTART, status=429, times=3)

    _post(harness, instance_id, "restart")
    harness.settle()

    assert len(harness.simulator.calls(RESTART)) == 4
    assert harness.record(instance_id).status is Status.READY


@pytest.mark.parametrize("body", ["null", '"ok"', "true", "list", "html"])
def test_a_restart_is_made_once_whatever_novita_answers(harness: Harness, body: str) -> None:
    instance_id = harness.create()
    harness.settle()
    harness.simulator.fault("garbage", RESTART, status=200, body=body, commit=True)

    _post(harness, instance_id, "restart")
    harness.settle()

    assert len(harness.simulator.calls(RESTART)) == 1
    assert harness.record(instance_id).status is Status.READY
