"""Courses that instances take on the deployed template: what somebody does, and the status that follows."""

from typing import Any

from tests.e2e.service import Service

QUICK = {"timeoutMs": 1000, "retryAttempts": 0, "retryDelayMs": 100}
SILENT_PORT = 9000
SILENT = f"{SILENT_PORT}/http"  # the application behind it answers 502 until somebody changes that
TCP = "22/tcp"  # nothing to check: a start is ready at once
_SILENT_TEMPLATE = "300"
_CHECKED = ("start", "restart")
_OPERATIONS = (*_CHECKED, "stop", "delete")

Step = tuple[str, str]  # an operation, or a word for what becomes of the machine; the status that follows


def prepare(service: Service) -> None:
    ports = [{"type": "http", "ports": [SILENT_PORT]}]
    service.simulator.put_template(_SILENT_TEMPLATE, name="silent", ports=ports)
    service.simulator.app(port=SILENT_PORT, status=502)
    service.simulator.settings(spotInGet=True)  # so that a look by id tells a reclaim from a stop


def checked_create(service: Service, **body: Any) -> str:
    """A new instance whose application is being asked, and does not answer."""
    instance_id = service.create(templateId=_SILENT_TEMPLATE, healthCheck=QUICK, **body)
    service.wait_for(instance_id, "health_checking")
    return instance_id


def refused_create(service: Service, name: str) -> str:
    """One that failed and has no machine, since Novita refused the purchase for good."""
    novita = service.simulator
    novita.fault("status", "/gpu/instance/create", match_body=name, status=400, reason="NO", times=1)
    instance_id = service.create(name=name)
    service.wait_for(instance_id, "failed")
    return instance_id


def refused_start(service: Service) -> str:
    """One that failed and has its machine still."""
    instance_id = service.take_over("exited", ports=TCP)
    refuse(service, instance_id, "start", times=1)
    take(service, instance_id, ("start", "failed"))
    return instance_id


def refuse(service: Service, instance_id: str, what: str, reason: str = "NO", **more: Any) -> None:
    """Novita says no to this, for good."""
    machine_id = service.instance(instance_id)["novitaInstanceId"]
    path = f"/gpu/instance/{what}"
    service.simulator.fault("status", path, match_body=machine_id, status=400, reason=reason, **more)


def take(service: Service, instance_id: str, *steps: Step) -> str:
    """Each step once the one before has led to its status."""
    for what, status in steps:
        if what in _OPERATIONS:
            body = {"healthCheckConfig": QUICK} if what in _CHECKED else None
            service.operate(instance_id, what, body)
        else:
            _happen(service, instance_id, what)
        service.wait_for(instance_id, status)
    return instance_id


def _happen(service: Service, instance_id: str, what: str) -> None:
    machine_id = service.instance(instance_id)["novitaInstanceId"]
    if what == "reclaimed":
        service.simulator.reclaim(machine_id)
    else:
        service.simulator.patch_instance(machine_id, status=what)
