"""A create on the deployed template, from the request to the webhook."""

from tests.e2e.service import Service


def test_a_create_becomes_running_and_tells_the_webhook(service: Service) -> None:
    hook = service.simulator.inbox_url("first")

    instance_id = service.create(webhookUrl=hook)

    shown = service.wait_for(instance_id, "running")
    assert service.statuses(instance_id) == ["creating", "starting", "running"]
    assert shown["readyAt"]
    assert all(port["endpoint"] for port in shown["portMappings"])
    assert service.wait(lambda: len(service.simulator.inbox("first")) == 3)
