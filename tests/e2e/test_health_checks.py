"""Whether the application inside answers: from the create or the start until it is ready."""

import json
from datetime import datetime

import pytest

from tests.e2e.service import Json, Service

QUICK = {"timeoutMs": 1000, "retryAttempts": 0, "retryDelayMs": 100}


def results(shown: Json) -> dict[int, tuple[str, str | None]]:
    """Status and category of every port."""
    endpoints = shown["healthCheck"]["endpoints"]
    return {one["port"]: (one["status"], one.get("error", {}).get("category")) for one in endpoints}


def test_an_application_that_listens_late_is_ready_when_it_answers(service: Service) -> None:
    hook = service.simulator.inbox_url("late")
    service.simulator.app(afterSeconds=600)

    instance_id = service.create(healthCheck=QUICK, webhookUrl=hook)

    assert service.wait(lambda: "healthCheck" in service.instance(instance_id))
    waiting = service.instance(instance_id)
    assert waiting["status"] == "health_checking"
    assert results(waiting) == {8188: ("unhealthy", "bad_gateway"), 80: ("unhealthy", "bad_gateway")}
    assert "readyAt" not in waiting
    service.simulator.app(afterSeconds=1)
    shown = service.wait_for(instance_id, "ready")
    assert shown["readyAt"]
    assert shown["healthCheck"]["overall"] == "healthy"
    assert results(shown) == {8188: ("healthy", None), 80: ("healthy", None)}
    assert service.statuses(instance_id) == ["creating", "starting", "running", "health_checking", "ready"]
    assert service.events(instance_id)[-1]["healthCheck"] == shown["healthCheck"]
    assert service.wait(lambda: len(service.simulator.inbox("late")) == 5)
    told = [service.opened(message, hook) for message in service.simulator.inbox("late")]
    assert [one["healthCheck"] for one in told if one["type"] == "instance.ready"] == [shown["healthCheck"]]


def test_a_page_that_says_bad_gateway_is_unhealthy_and_a_redirect_is_an_answer(service: Service) -> None:
    service.simulator.app(port=80, status=200, body="<h1>Bad  Gateway</h1>")

    instance_id = service.create(healthCheck=QUICK)

    assert service.wait(lambda: "healthCheck" in service.instance(instance_id))
    waiting = service.instance(instance_id)
    assert waiting["healthCheck"]["overall"] == "partial"
    assert results(waiting) == {8188: ("healthy", None), 80: ("unhealthy", "bad_gateway")}
    service.simulator.app(port=80, status=302, headers={"location": "/log-in"}, body="welcome")
    service.wait_for(instance_id, "ready")


def test_one_port_and_a_path_can_be_named(service: Service) -> None:
    service.simulator.app(port=8188, status=500)
    on_http = {**QUICK, "targetPort": 80, "path": "/healthz?deep=1"}

    created = service.create(name="http", healthCheck=on_http)
    over_tcp = service.create(name="tcp", healthCheck={**QUICK, "targetPort": 22})

    shown = service.wait_for(created, "ready")
    assert results(shown) == {80: ("healthy", None)}
    assert shown["healthCheck"]["endpoints"][0]["endpoint"].endswith("/80/healthz?deep=1")
    assert results(service.wait_for(over_tcp, "ready")) == {22: ("healthy", None)}
    restarted = {"targetPort": 80, "healthCheckConfig": QUICK}
    service.operate(created, "restart", restarted)
    assert results(service.wait_for(created, "ready")) == {80: ("healthy", None)}


def test_ten_slow_endpoints_are_asked_at_once_and_nobody_who_looks_disturbs_them(service: Service) -> None:
    ports = list(range(8000, 8010))
    service.simulator.put_template("200", name="ten ports", ports=[{"type": "http", "ports": ports}])
    service.simulator.app(delayMs=2500)

    instance_id = service.create(templateId="200", healthCheck={**QUICK, "timeoutMs": 10_000})

    shown = service.wait_for(instance_id, "ready")  # it looks far more often than an answer takes
    assert results(shown) == dict.fromkeys(ports, ("healthy", None))
    assert all(one["responseTime"] >= 2500 for one in shown["healthCheck"]["endpoints"])
    assert service.simulator.app_stats()["maxOpen"] == 10
    assert service.simulator.app_stats()["total"] == 10


def test_without_http_endpoints_a_start_is_ready_at_once(service: Service) -> None:
    instance_id = service.take_over("exited", ports="22/tcp")

    service.operate(instance_id, "start")

    shown = service.wait_for(instance_id, "ready")
    assert "healthCheck" not in shown
    assert service.statuses(instance_id) == ["exited", "starting", "running", "ready"]


@pytest.mark.soak
def test_a_check_that_outlives_the_function_is_continued_by_later_messages(service: Service) -> None:
    life = 20
    service.simulator.app(afterSeconds=life + 5)
    # A message for each round: all eleven of them take minutes.
    patient = {"timeoutMs": 1000, "retryAttempts": 10, "retryDelayMs": 3000}
    instance_id = service.take_over("exited")

    with service.short_lived("Startup", life):  # whose beginning and end stop the processes there are
        before = len(service.log())
        operation_id = service.operate(instance_id, "start", {"healthCheckConfig": patient})
        service.wait_for(instance_id, "ready", seconds=90)
        logged = [line for line in service.log()[before:].splitlines() if "StartupFunction" in line]

    operation = service.operation(operation_id)
    at = {phase["status"]: datetime.fromisoformat(phase["at"]) for phase in operation["phases"]}
    checked_for = (at["completed"] - at["health_checking"]).total_seconds()
    assert (operation["status"], operation["attempts"]) == ("completed", 1)
    assert checked_for > life, "longer than one invocation may take"
    assert len(rounds(service, instance_id)) >= 3
    assert set(rounds(service, instance_id)[:-1]) == {"unhealthy"}
    assert rounds(service, instance_id)[-1] == "healthy"
    assert not [line for line in logged if " failed: " in line], "a function ran out of its time"


def rounds(service: Service, instance_id: str) -> list[str]:
    """What each invocation that asked the application found: one does so once."""
    lines = [line for line in service.log().splitlines() if '"application asked"' in line]
    said = [json.loads(line[line.index("{") :]) for line in lines if instance_id in line]
    return [one["overall"] for one in said]
