"""Deadlines: of the purchase, of the boot, and of the application inside. They pass side by side here, since
the shortest time that a health check may be given is half a minute."""

import pytest

from tests.e2e.service import Json, Service

CREATE = "/gpu/instance/create"
CHECK = {"timeoutMs": 1000, "retryAttempts": 0, "retryDelayMs": 100, "maxWaitTimeMs": 30_000}


def test_a_boot_that_takes_too_long_fails_and_its_machine_is_given_back(service: Service) -> None:
    service.simulator.settings(removedVisibleSeconds=0, bootSeconds=600)
    hook = service.simulator.inbox_url("late")

    late = service.create(name="late", maxWaitTime=2000, webhookUrl=hook)

    assert service.wait_for(late, "failed")["error"]["code"] == "STARTUP_TIMEOUT"
    assert service.statuses(late) == ["creating", "starting", "failed"]
    assert service.wait(lambda: len(told(service, hook)) == 3)  # in whichever order
    assert told(service, hook)["instance.failed"]["error"]["code"] == "STARTUP_TIMEOUT"
    assert service.wait(lambda: not service.simulator.live())
    assert service.wait(lambda: "cleanup" not in service.instance(late))


@pytest.mark.soak
def test_every_deadline_fails_its_instance_with_its_own_code_and_no_machine_goes_on_costing(
    service: Service,
) -> None:
    novita = service.simulator
    novita.settings(removedVisibleSeconds=0)
    novita.app(port=80, status=503)
    novita.fault("status", CREATE, match_body="sold-out", status=400, reason="INSUFFICIENT_RESOURCE")
    restarted = service.create(name="restarted")
    service.wait_for(restarted, "running")
    unhealthy = service.create(name="unhealthy", healthCheck=CHECK)
    operation_id = service.operate(restarted, "restart", {"healthCheckConfig": CHECK})
    for instance_id in (unhealthy, restarted):
        service.wait_for(instance_id, "health_checking")
    novita.settings(bootSeconds=600)
    hook = novita.inbox_url("late")
    late = service.create(name="late", maxWaitTime=2000, webhookUrl=hook)
    sold_out = service.create(name="sold-out")

    shown = {id_: service.wait_for(id_, "failed") for id_ in (late, sold_out, unhealthy, restarted)}

    assert {id_: one["error"]["code"] for id_, one in shown.items()} == {
        late: "STARTUP_TIMEOUT",
        sold_out: "NO_OPTIMAL_PRODUCT_ANY_REGION",
        unhealthy: "HEALTH_CHECK_FAILED",
        restarted: "HEALTH_CHECK_FAILED",
    }
    assert service.statuses(sold_out) == ["creating", "failed"]
    assert service.statuses(late) == ["creating", "starting", "failed"]
    for instance_id in (unhealthy, restarted):
        assert categories(service.instance(instance_id)) == {8188: None, 80: "service_unavailable"}
        assert service.events(instance_id)[-2 if instance_id == restarted else -1]["healthCheck"]
    assert [event["type"] for event in service.events(restarted)][-2:] == [
        "instance.failed",
        "startup.failed",
    ]
    operation = service.operation(operation_id)
    assert (operation["status"], operation["error"]["code"]) == ("failed", "HEALTH_CHECK_FAILED")
    assert service.wait(lambda: len(told(service, hook)) == 3)  # in whichever order
    assert told(service, hook)["instance.failed"]["error"]["code"] == "STARTUP_TIMEOUT"
    # What never was ready is deleted; what had been is only stopped.
    left = [(service.instance(restarted)["novitaInstanceId"], "exited")]
    assert service.wait(lambda: [(machine["id"], machine["status"]) for machine in novita.live()] == left)
    assert service.wait(lambda: not any("cleanup" in service.instance(instance_id) for instance_id in shown))


def told(service: Service, hook: str) -> dict[str, Json]:
    opened = [service.opened(message, hook) for message in service.simulator.inbox(hook.rpartition("/")[2])]
    return {event["type"]: event for event in opened}


def categories(shown: Json) -> dict[int, str | None]:
    endpoints = shown["healthCheck"]["endpoints"]
    return {one["port"]: one.get("error", {}).get("category") for one in endpoints}
