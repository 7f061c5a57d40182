"""Start, stop, restart and delete on the deployed template, by id and by name, and how they are followed."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial

from tests.e2e.service import Json, Service

ENDED = ("completed", "failed")
NOT_ABLE = {
    "start": "INSTANCE_NOT_STARTABLE",
    "stop": "INSTANCE_NOT_STOPPABLE",
    "restart": "INSTANCE_NOT_RESTARTABLE",
}
REFUSED_BY = {
    "running": ["start"],
    "ready": ["start"],
    "stopped": ["stop", "restart"],
    "terminated": ["start", "stop", "restart"],
}


def finished(service: Service, operation_id: str) -> Json:
    assert service.wait(lambda: service.operation(operation_id)["status"] in ENDED)
    return service.operation(operation_id)


def phases(operation: Json) -> list[str]:
    return [phase["status"] for phase in operation["phases"]]


def refusals(service: Service, instance_id: str) -> dict[str, str]:
    """What cannot be done to it now, each refused with a reason that names its status."""
    status = service.instance(instance_id)["status"]
    found = {}
    for what in REFUSED_BY[status]:
        answer = service.call("POST", f"/api/instances/{instance_id}/{what}")
        error = answer.json()["error"]
        assert answer.status_code == 409
        assert error["details"]["status"] == status
        assert f" is {status}" in error["message"]
        found[what] = error["code"]
    return found


def test_an_instance_goes_through_every_operation_by_its_id(service: Service) -> None:
    instance_id = service.create()
    service.wait_for(instance_id, "running")

    done = {}
    for what, status in (
        ("stop", "stopped"),
        ("start", "ready"),
        ("restart", "ready"),
        ("delete", "terminated"),
    ):
        operation_id = service.operate(instance_id, what)
        begun = service.operation(operation_id)
        assert (begun["kind"], begun["instanceId"], begun["actor"]) == (what, instance_id, "key_local")
        assert service.instance(instance_id)["operationId"] == operation_id
        done[what] = finished(service, operation_id)
        assert service.instance(instance_id)["status"] == status
        assert refusals(service, instance_id) == {name: NOT_ABLE[name] for name in REFUSED_BY[status]}

    came_up = ["initiated", "monitoring", "health_checking", "completed"]
    assert {what: one["status"] for what, one in done.items()} == dict.fromkeys(done, "completed")
    assert phases(done["start"]) == phases(done["restart"]) == came_up
    assert phases(done["stop"]) == ["initiated", "monitoring", "completed"]
    times = [phase["at"] for one in done.values() for phase in one["phases"]]
    assert times == sorted(times)
    assert service.statuses(instance_id) == [
        *("creating", "starting", "running", "stopping", "stopped"),
        *("starting", "running", "health_checking", "ready"),
        *("starting", "running", "health_checking", "ready"),
        *("deleting", "terminated"),
    ]
    types = [event["type"] for event in service.events(instance_id) if event["type"].startswith("startup.")]
    assert types == ["startup.initiated", "startup.completed"] * 2
    assert {what: len(service.simulator.calls(f"/gpu/instance/{what}")) for what in done} == dict.fromkeys(
        done, 1
    )
    listed = service.get(f"/api/instances/{instance_id}/operations")["operations"]
    assert [one["kind"] for one in listed] == ["delete", "restart", "start", "stop"]
    assert [one["operationId"] for one in listed] == [done[one["kind"]]["operationId"] for one in listed]
    again = service.call("DELETE", f"/api/instances/{instance_id}")
    assert (again.status_code, again.json()["status"]) == (202, "terminated")
    assert service.simulator.live() == []


def test_an_instance_can_be_operated_by_its_name_while_only_one_has_it(service: Service) -> None:
    service.simulator.put_instance(name="worker", status="running")
    first = service.take_over(name="worker")

    stopped = service.call("POST", "/api/instances/stop", {"instanceName": "worker"})
    service.wait_for(first, "stopped")
    started = service.call("POST", "/api/instances/start", {"instanceName": "worker", "targetPort": 80})
    service.wait_for(first, "ready")
    second = service.create(name="worker")
    ambiguous = service.call("POST", "/api/instances/stop", {"instanceName": "worker"})
    service.operate(second, "delete")
    service.wait_for(second, "terminated")
    deleted = service.call("POST", "/api/instances/delete", {"instanceName": "worker"})
    service.wait_for(first, "terminated")
    nobody = service.call("POST", "/api/instances/delete", {"instanceName": "worker"})

    assert [answer.status_code for answer in (stopped, started, deleted)] == [202, 202, 202]
    assert {answer.json()["instanceId"] for answer in (stopped, started, deleted)} == {first}
    assert ambiguous.status_code == 409
    assert ambiguous.json()["error"]["code"] == "AMBIGUOUS_INSTANCE_NAME"
    assert set(ambiguous.json()["error"]["details"]["instanceIds"]) == {first, second}
    assert (nobody.status_code, nobody.json()["error"]["code"]) == (404, "INSTANCE_NOT_FOUND")


def test_of_two_starts_at_the_same_moment_one_is_taken(service: Service) -> None:
    ids = [service.take_over("exited", ports="22/tcp") for _ in range(4)]

    with service.at_a_standstill("monitor"), ThreadPoolExecutor(2) as pool:
        for instance_id in ids:
            path = f"/api/instances/{instance_id}/start"
            calls = [pool.submit(service.call, "POST", path) for _ in range(2)]
            answers = [call.result() for call in calls]
            refused = [answer.json()["error"] for answer in answers if answer.status_code == 409]
            assert sorted(answer.status_code for answer in answers) == [202, 409]
            assert [error["code"] for error in refused] == ["STARTUP_OPERATION_IN_PROGRESS"]
            assert refused[0]["message"].startswith(f"{instance_id} is starting")

    for instance_id in ids:
        service.wait_for(instance_id, "ready")
    assert len(service.simulator.calls("/gpu/instance/start")) == len(ids)


def test_a_start_without_capacity_fails_and_leaves_the_instance_startable(service: Service) -> None:
    instance_id = service.take_over("exited")
    service.simulator.fault(
        "status", "/gpu/instance/start", status=400, reason="INSUFFICIENT_RESOURCE", times=1
    )

    failed = finished(service, service.operate(instance_id, "start"))

    assert (failed["status"], failed["error"]["code"]) == ("failed", "RESOURCE_CONSTRAINTS")
    assert service.instance(instance_id)["status"] == "exited"
    assert finished(service, service.operate(instance_id, "start"))["status"] == "completed"
    assert service.instance(instance_id)["status"] == "ready"


def test_a_machine_that_novita_stops_by_itself_is_shown_as_exited_and_starts_again(service: Service) -> None:
    instance_id = service.create()
    shown = service.wait_for(instance_id, "running")

    service.simulator.reclaim(shown["novitaInstanceId"])

    service.wait_for(instance_id, "exited")
    service.operate(instance_id, "start")
    service.wait_for(instance_id, "ready")
    assert service.statuses(instance_id)[3:] == ["exited", "starting", "running", "health_checking", "ready"]


def test_a_delete_during_the_create_leaves_no_machine(service: Service) -> None:
    novita = service.simulator
    novita.settings(listLagSeconds=1, bootSeconds=5, removedVisibleSeconds=0)
    novita.fault("slow", "/gpu/instance/create", match_body="slow-answer", delayMs=1500)
    novita.fault("status", "/gpu/instance/create", match_body="lost-answer", status=502, commit=True)
    novita.fault("status", "/gpu/instance/create", match_body="not-made", status=502)
    novita.fault("slow", "/gpu/instance/create", match_body="too-late", delayMs=4000)  # past our time-out
    names = ("slow-answer", "lost-answer", "not-made", "too-late", "booting")

    def asked(times: int) -> bool:
        return len(novita.calls("/gpu/instance/create")) == times

    ids = []
    for number, name in enumerate(names, start=1):
        ids.append(service.create(name=name))
        assert service.wait(partial(asked, number))

        service.operate(ids[-1], "delete")  # before its purchase would be made again

    for instance_id in ids:
        service.wait_for(instance_id, "terminated")
        assert service.statuses(instance_id)[-2:] == ["deleting", "terminated"]
    assert novita.live() == []
    assert len(novita.instances()) == 4
