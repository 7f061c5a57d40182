"""Start, stop, restart and delete: what is answered, what Novita is asked, what it comes to."""

from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from functions.shared.domain.commands import begin_import
from functions.shared.domain.ids import new_instance_id
from functions.shared.domain.instance import Action, Operation
from functions.shared.domain.machine import Machine
from functions.shared.domain.status import Status
from tests.integration.conftest import Build
from tests.integration.deaths import Interruptions, sides
from tests.integration.wire import Made
from tests.integration.world import World


def _post(world: World, instance_id: str, what: str, body: Any = None) -> tuple[int, Any]:
    if what == "delete":
        return world.call("DELETE", f"/api/instances/{instance_id}")
    return world.call("POST", f"/api/instances/{instance_id}/{what}", body)


def _import(world: World, status: str, **machine: Any) -> str:
    made = world.simulator.put_instance(status=status, **{"ports": "8188/http", **machine})
    answered, body = world.call("POST", "/api/instances/import", {"novitaInstanceId": made["id"]})
    assert answered == 201, body
    return str(body["instanceId"])


def _operation(world: World, operation_id: str) -> Any:
    status, shown = world.call("GET", f"/api/operations/{operation_id}")
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


def _put(world: World, status: Status, *, machine: bool, starting_again: bool = False) -> str:
    """An instance in this status, as if all that leads there had happened."""
    now = world.now()
    decision = begin_import(
        instance_id=new_instance_id(now),
        name=f"{status}",
        machine=Machine("m", "m", "running"),
        webhook_url=None,
        actor="test",
        correlation_id="",
        now=now,
        policy=world.wiring.policy,
    )
    operation = Operation("op_1", Action.START, "monitoring", "test", now) if starting_again else None
    machine_id = "m" if machine else None
    record = replace(decision.record, status=status, machine_id=machine_id, operation=operation)
    return world.wiring.instances.add(replace(decision, record=record)).id


@pytest.mark.parametrize("what", ["start", "restart", "stop", "delete"])
def test_each_operation_on_each_status_is_taken_or_refused_with_the_status_named(
    world: World, what: str
) -> None:
    for machine in (True, False):
        for status in Status:
            answered, body = _post(world, _put(world, status, machine=machine), what)

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
    world.wipe()


@pytest.mark.parametrize("what", ["start", "restart"])
@pytest.mark.parametrize("status", [Status.STARTING, Status.RUNNING, Status.HEALTH_CHECKING])
def test_what_is_being_started_is_not_started_again(world: World, what: str, status: Status) -> None:
    instance_id = _put(world, status, machine=True, starting_again=True)

    answered, body = _post(world, instance_id, what)

    assert (answered, body["error"]["code"]) == (409, "STARTUP_OPERATION_IN_PROGRESS")
    assert f" is {status}:" in body["error"]["message"]
    assert body["error"]["details"] == {"status": status}
    world.wipe()


def test_an_operation_on_what_is_not_there_is_not_found(world: World) -> None:
    nobody = new_instance_id(world.now())

    answers = [_post(world, nobody, what) for what in ("start", "stop", "restart", "delete")]

    assert [(status, body["error"]["code"]) for status, body in answers] == [(404, "INSTANCE_NOT_FOUND")] * 4


def test_a_start_is_seen_through_all_its_phases_while_it_runs_and_after(world: World) -> None:
    instance_id = _import(world, "exited")
    world.simulator.app(status=502)

    status, accepted = _post(world, instance_id, "start")
    seen = [_phases(_operation(world, accepted["operationId"]))]
    world.deliver()
    seen.append(_phases(_operation(world, accepted["operationId"])))
    world.run(60)
    seen.append(_phases(_operation(world, accepted["operationId"])))
    world.simulator.app(status=200)
    world.settle()

    after = _operation(world, accepted["operationId"])
    _, listed = world.call("GET", f"/api/instances/{instance_id}/operations")
    assert (status, accepted["status"]) == (202, "starting")
    assert seen == [
        ["initiated"],
        ["initiated", "monitoring"],
        ["initiated", "monitoring", "health_checking"],
    ]
    assert _phases(after) == ["initiated", "monitoring", "health_checking", "completed"]
    assert (after["kind"], after["status"], after["attempts"]) == ("start", "completed", 1)
    assert listed["operations"] == [after]
    assert world.record(instance_id).status is Status.READY
    assert world.history(instance_id) == [
        "instance.exited",
        "instance.starting",
        "startup.initiated",
        "instance.running",
        "instance.health_checking",
        "instance.ready",
        "startup.completed",
    ]


def test_a_stop_is_confirmed_by_novita_before_it_is_said(world: World) -> None:
    world.simulator.settings(stopSeconds=100)
    instance_id = _import(world, "running")

    _, accepted = _post(world, instance_id, "stop")
    world.run(90)
    before = (world.record(instance_id).status, _phases(_operation(world, accepted["operationId"])))
    world.settle()

    assert before == (Status.STOPPING, ["initiated", "monitoring"])
    assert world.record(instance_id).status is Status.STOPPED
    assert _phases(_operation(world, accepted["operationId"])) == ["initiated", "monitoring", "completed"]
    assert len(world.simulator.calls("/gpu/instance/stop")) == 1


def test_a_delete_is_seen_through_its_phases(world: World) -> None:
    instance_id = _import(world, "running")

    _, accepted = _post(world, instance_id, "delete")
    world.settle()

    after = _operation(world, accepted["operationId"])
    assert _phases(after) == ["initiated", "monitoring", "completed"]
    assert after["attempts"] == 1


def _start_too(world: World, instance_id: str, answers: list[tuple[int, Any]]) -> None:
    answers.append(_post(world, instance_id, "start"))


def test_two_starts_at_any_same_moment_are_one_start(world: World) -> None:
    recorded = _import(world, "exited")
    world.wire.calls.clear()
    _post(world, recorded, "start")
    found = sides(world.wire.calls)
    meetings = Interruptions(world)
    ids = []

    for point in found:
        ids.append(_import(world, "exited"))
        answers: list[tuple[int, Any]] = []
        meetings.plan("start", point, partial(_start_too, world, ids[-1], answers))
        with world.wire.handling("api", "start"):
            _start_too(world, ids[-1], answers)
        answers.sort(key=lambda answer: answer[0])
        assert [status for status, _ in answers] == [202, 409], point
        assert answers[1][1]["error"]["code"] == "STARTUP_OPERATION_IN_PROGRESS", point
    meetings.end()
    world.settle()

    assert len(found) >= 4
    assert len(world.simulator.calls("/gpu/instance/start")) == len(ids) + 1
    assert {world.record(instance_id).status for instance_id in ids} == {Status.READY}


def test_a_start_refused_for_capacity_leaves_the_machine_startable(world: World) -> None:
    instance_id = _import(world, "exited")
    world.simulator.patch_product("4090.16c62g", stock=0)

    _, accepted = _post(world, instance_id, "start")
    world.settle()
    refused, failed = world.record(instance_id), _operation(world, accepted["operationId"])
    world.simulator.patch_product("4090.16c62g", stock=None)
    again, _ = _post(world, instance_id, "start")
    world.settle()

    assert refused.status is Status.EXITED
    assert refused.at_rest
    assert (failed["status"], failed["error"]["code"]) == ("failed", "RESOURCE_CONSTRAINTS")
    assert again == 202
    assert world.record(instance_id).status is Status.READY
    assert world.simulator.calls("/gpu/instance/delete") == []
    assert world.history(instance_id).count("startup.failed") == 1


def test_a_start_refused_for_good_fails_and_comes_to_rest_and_can_be_tried_again(world: World) -> None:
    instance_id = _import(world, "exited")
    world.simulator.settings(balanceEnough=False)

    _, accepted = _post(world, instance_id, "start")
    world.settle()
    failed = world.record(instance_id)
    world.simulator.settings(balanceEnough=True)
    again, _ = _post(world, instance_id, "start")
    world.settle()

    assert failed.status is Status.FAILED
    assert _operation(world, accepted["operationId"])["error"]["code"] == "NOVITA_REJECTED"
    assert again == 202
    assert world.record(instance_id).status is Status.READY


def test_a_start_that_never_comes_up_fails_and_its_machine_is_stopped(build: Build) -> None:
    world = build(BOOT_MAX_WAIT="100")
    world.simulator.settings(startSeconds=5000)
    instance_id = world.create()
    world.settle()
    _post(world, instance_id, "stop")
    world.settle()

    _post(world, instance_id, "start")
    world.run(110)
    failed = world.record(instance_id)
    machine_id = failed.machine_id or ""
    world.simulator.patch_instance(machine_id, status="running")
    world.settle()

    assert (failed.status, failed.error and failed.error.code) == (Status.FAILED, "STARTUP_TIMEOUT")
    assert world.simulator.instance(machine_id)["status"] == "exited"
    assert world.simulator.calls("/gpu/instance/delete") == []


def test_a_lagging_list_does_not_turn_a_start_back(world: World) -> None:
    world.simulator.settings(listLagSeconds=50, startSeconds=40)
    instance_id = _import(world, "exited", ageSeconds=600)
    _post(world, instance_id, "start")
    world.deliver()
    statuses = set()

    for _ in range(4):
        world.advance(11)
        world.sweep()
        statuses.add(world.record(instance_id).status)
    world.settle()

    assert statuses == {Status.STARTING}
    assert world.record(instance_id).status is Status.READY
    assert world.history(instance_id).count("instance.exited") == 1


def test_a_lagging_list_does_not_bring_a_stopped_machine_back(world: World) -> None:
    world.simulator.settings(listLagSeconds=8)
    instance_id = _import(world, "running", ageSeconds=600)
    world.run(40)
    _post(world, instance_id, "stop")
    world.deliver()

    world.advance(4)
    world.deliver_now(instance_id)
    stopped = world.record(instance_id).status
    world.sweep()
    after = world.record(instance_id).status
    world.settle()

    assert stopped is Status.STOPPED
    assert after is Status.STOPPED, "the list still shows it running"
    assert world.history(instance_id)[-2:] == ["instance.stopping", "instance.stopped"]


def test_a_lagging_list_does_not_bring_back_what_exited_before_it_was_ready(world: World) -> None:
    world.simulator.settings(bootSeconds=10, listLagSeconds=50)
    world.simulator.app(status=502)
    instance_id = world.create(healthCheck={"retryAttempts": 0})
    world.run(60)
    world.simulator.patch_instance(world.record(instance_id).machine_id or "", status="exited")
    world.advance(31)
    world.deliver_delayed()
    exited = world.record(instance_id).status

    world.sweep()
    world.settle()

    assert exited is Status.EXITED
    assert world.history(instance_id)[-2:] == ["instance.health_checking", "instance.exited"]


def test_a_machine_that_somebody_else_started_is_followed(world: World) -> None:
    instance_id = _import(world, "exited", ageSeconds=600)
    world.run(40)
    world.simulator.patch_instance(world.record(instance_id).machine_id or "", status="running")

    world.advance(20)
    world.sweep()
    world.settle()

    assert world.record(instance_id).status is Status.RUNNING
    assert all(endpoint.address for endpoint in world.record(instance_id).endpoints)


@pytest.mark.parametrize("look", ["get", "sweep"])
@pytest.mark.parametrize("after", [False, True])
def test_what_was_read_before_a_start_does_not_turn_it_back(world: World, look: str, after: bool) -> None:
    instance_id = _import(world, "exited")
    world.run(40)
    path = "novita GET /gpu/instance" if look == "get" else "novita GET /gpu/instances"

    def start(made: Made) -> None:
        if made.name == path:
            world.wire.before = world.wire.after = None
            world.elsewhere(lambda: (_post(world, instance_id, "start"), world.deliver()))

    if after:
        world.wire.after = start
    else:
        world.wire.before = start
    if look == "get":
        world.call("GET", f"/api/instances/{instance_id}")
    else:
        world.sweep()
    status = world.record(instance_id).status
    world.settle()

    assert world.wire.before is world.wire.after is None, "the start came in between"
    assert status is Status.STARTING
    assert world.record(instance_id).status is Status.READY
    assert world.history(instance_id).count("instance.exited") == 1


def test_a_look_does_not_delay_what_was_asked_for(world: World) -> None:
    instance_id = _import(world, "running")
    world.run(40)
    _post(world, instance_id, "stop")

    world.call("GET", f"/api/instances/{instance_id}")
    world.sweep()
    world.run(1)

    assert len(world.simulator.calls("/gpu/instance/stop")) == 1
    world.settle()
    assert world.record(instance_id).status is Status.STOPPED


def test_a_stop_while_it_boots_is_carried_out_when_novita_lets_it(world: World) -> None:
    world.simulator.settings(bootSeconds=100)
    instance_id = world.create()
    world.run(40)

    status, _ = _post(world, instance_id, "stop")
    world.settle()

    assert status == 202
    assert world.record(instance_id).status is Status.STOPPED
    assert world.simulator.live()[0]["status"] == "exited"


def test_a_delete_ends_the_start_that_was_under_way(world: World) -> None:
    world.simulator.settings(startSeconds=300)
    instance_id = _import(world, "exited")
    _, started = _post(world, instance_id, "start")
    world.run(31)

    _, deleted = _post(world, instance_id, "delete")
    world.settle()

    first, second = (_operation(world, one["operationId"]) for one in (started, deleted))
    assert (first["status"], first["error"]["code"]) == ("failed", "OPERATION_SUPERSEDED")
    assert second["status"] == "completed"
    assert world.record(instance_id).status is Status.TERMINATED


def test_ready_at_is_not_set_anew_by_a_start(world: World) -> None:
    instance_id = world.create()
    world.settle()
    ready_at = world.record(instance_id).ready_at
    world.advance(timedelta(hours=1).total_seconds())

    _post(world, instance_id, "restart")
    world.settle()

    assert world.record(instance_id).status is Status.READY
    assert world.record(instance_id).ready_at == ready_at


LOST = pytest.mark.parametrize("fault", [{"kind": "disconnect"}, {"kind": "status", "status": 502}])


@LOST
@pytest.mark.parametrize("commit", [True, False], ids=["made", "never made"])
def test_a_restart_whose_answer_is_lost_is_asked_for_once_more(
    world: World, commit: bool, fault: dict[str, Any]
) -> None:
    instance_id = world.create()
    world.settle()
    world.simulator.fault(path=RESTART, commit=commit, times=1, **fault)

    _, restarted = _post(world, instance_id, "restart")
    world.settle()

    assert len(world.simulator.calls(RESTART)) == 2
    assert world.record(instance_id).status is Status.READY
    assert _operation(world, restarted["operationId"])["status"] == "completed"


@LOST
@pytest.mark.parametrize("commit", [True, False], ids=["made", "never made"])
def test_a_restart_that_novita_never_confirms_is_not_said_to_be_done(
    world: World, commit: bool, fault: dict[str, Any]
) -> None:
    instance_id = world.create()
    world.settle()
    world.simulator.fault(path=RESTART, commit=commit, times=9, **fault)

    _, restarted = _post(world, instance_id, "restart")
    world.settle()
    operation = _operation(world, restarted["operationId"])

    assert len(world.simulator.calls(RESTART)) == 2
    assert world.record(instance_id).status is Status.RUNNING
    assert (operation["status"], operation["error"]["code"]) == ("failed", "NOVITA_UNAVAILABLE")


def test_a_restart_that_novita_cannot_have_heard_is_made_again(world: World) -> None:
    instance_id = world.create()
    world.settle()
    world.simulator.fault("status", RESTART, status=429, times=3)

    _post(world, instance_id, "restart")
    world.settle()

    assert len(world.simulator.calls(RESTART)) == 4
    assert world.record(instance_id).status is Status.READY


@pytest.mark.parametrize("body", ["null", '"ok"', "true", "list", "html"])
def test_a_restart_is_made_once_whatever_novita_answers(world: World, body: str) -> None:
    instance_id = world.create()
    world.settle()
    world.simulator.fault("garbage", RESTART, status=200, body=body, commit=True)

    _post(world, instance_id, "restart")
    world.settle()

    assert len(world.simulator.calls(RESTART)) == 1
    assert world.record(instance_id).status is Status.READY
