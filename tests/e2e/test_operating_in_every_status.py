"""Each operation on each of the twelve statuses, on the deployed template: taken, or refused with reason.

The rules are proved without it, in `unit/domain/test_commands.py`, and their answers in
`integration/test_operations.py`; `test_operating.py` has some of them here.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from functions.shared.domain.instance.status import Status
from tests.e2e import courses
from tests.e2e.courses import TCP, Step, take
from tests.e2e.service import Service

AT_ONCE = 4
LEADS_TO = {"start": "starting", "restart": "starting", "stop": "stopping", "delete": "deleting"}
NOT_ABLE = {
    "start": "INSTANCE_NOT_STARTABLE",
    "restart": "INSTANCE_NOT_RESTARTABLE",
    "stop": "INSTANCE_NOT_STOPPABLE",
}
TAKEN: dict[str, set[str]] = {
    "start": {"exited", "stopped", "failed"},
    "restart": {"running", "health_checking", "ready"},
    "stop": {"starting", "running", "health_checking", "ready", "migrating", "failed"},
    "delete": set(Status),
}

Bring = Callable[[Service], str]


def imported(status: str, *steps: Step) -> Bring:
    return lambda service: take(service, service.take_over(status, ports=TCP), *steps)


def being_deleted(service: Service) -> str:
    """For as long as Novita refuses to."""
    instance_id = service.take_over("running", ports=TCP)
    courses.refuse(service, instance_id, "delete")
    return take(service, instance_id, ("delete", "deleting"))


# How an instance gets into each status and stays there. Novita refuses to stop what does not run yet.
HELD: dict[str, Bring] = {
    "starting": imported("pulling"),
    "running": imported("running"),
    "health_checking": courses.checked_create,
    "ready": imported("exited", ("start", "ready")),
    "stopping": imported("pulling", ("stop", "stopping")),
    "stopped": imported("running", ("stop", "stopped")),
    "exited": imported("exited"),
    "migrating": imported("running", ("migrating", "migrating")),
    "failed": courses.refused_start,
    "deleting": being_deleted,
    "terminated": imported("running", ("delete", "terminated")),
}


def refused(service: Service, instance_id: str, status: str, what: str) -> str:
    """The code of the refusal, whose message names the status."""
    answer = service.call("POST", f"/api/instances/{instance_id}/{what}")
    case = f"{what} of {status}: {answer.text}"
    assert answer.status_code == 409, case
    error = answer.json()["error"]
    assert error["message"].startswith(f"{instance_id} is {status}"), case
    assert error["details"]["status"] == status, case
    assert service.instance(instance_id)["status"] == status, case
    return str(error["code"])


def taken(service: Service, instance_id: str, status: str, what: str) -> None:
    path = f"/api/instances/{instance_id}"
    answer = service.call("DELETE", path) if what == "delete" else service.call("POST", f"{path}/{what}")
    case = f"{what} of {status}: {answer.text}"
    already = status in ("deleting", "terminated")
    assert answer.status_code == 202, case
    assert answer.json()["status"] == (status if already else LEADS_TO[what]), case
    assert ("operationId" in answer.json()) or already, case


@pytest.mark.soak
def test_each_operation_on_each_status_is_taken_or_refused_with_the_status_named(service: Service) -> None:
    courses.prepare(service)
    needed = [(what, status) for what in TAKEN for status in HELD if status in TAKEN[what]]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        brought = list(pool.map(lambda case: HELD[case[1]](service), needed))
        nothing_left = pool.submit(courses.refused_create, service, "refused")
    instances = dict(zip(needed, brought, strict=True))

    with service.at_a_standstill("create"), service.at_a_standstill("monitor"):
        instances["delete", "creating"] = service.create()
        # Whatever is refused is tried on the one that is deleted after that.
        codes = {
            (what, status): refused(service, instances["delete", status], status, what)
            for what in NOT_ABLE
            for status in Status
            if status not in TAKEN[what]
        }
        for (what, status), instance_id in instances.items():
            taken(service, instance_id, status, what)
        started = instances["start", "exited"]
        under_way = {what: refused(service, started, "starting", what) for what in ("start", "restart")}
        without_machine = nothing_left.result()
        hopeless = {what: refused(service, without_machine, "failed", what) for what in NOT_ABLE}

    assert len(codes) + len(instances) == 4 * len(Status)
    assert codes == {case: NOT_ABLE[case[0]] for case in codes}
    assert hopeless == NOT_ABLE
    assert under_way == dict.fromkeys(("start", "restart"), "STARTUP_OPERATION_IN_PROGRESS")
    service.simulator.clear_faults()
    for instance_id in instances.values():
        service.call("DELETE", f"/api/instances/{instance_id}")
    for instance_id in instances.values():
        service.wait_for(instance_id, "terminated")
    assert service.simulator.live() == []
