"""One request followed by its correlation id through the logs of the deployed functions."""

import json
from collections import defaultdict
from uuid import uuid4

from tests.e2e.service import Json, Service

FUNCTIONS = ("Api", "Create", "Monitor", "Startup", "Announce", "Webhook")


def test_a_create_is_followed_through_every_function_and_whatever_leaves_them(service: Service) -> None:
    correlation_id = f"follow-{uuid4().hex}"
    queue, hook = service.subscribed(), service.simulator.inbox_url("followed")
    body = {"name": "test", "productName": "RTX 4090 24GB", "templateId": "107672"}
    asked = {**body, "webhookUrl": hook, "healthCheck": {}}

    answer = service.call("POST", "/api/instances", asked, headers={"X-Correlation-ID": correlation_id})

    assert answer.headers["X-Correlation-ID"] == correlation_id
    instance_id = answer.json()["instanceId"]
    service.wait_for(instance_id, "ready")
    events = service.events(instance_id)
    assert service.wait(lambda: len(service.simulator.inbox("followed")) == len(events))
    assert service.wait(lambda: set(FUNCTIONS) <= _lines(service, correlation_id).keys())
    lines = _lines(service, correlation_id)
    assert {line["instance_id"] for line in lines["Create"] + lines["Monitor"] + lines["Startup"]} == {
        instance_id
    }
    told: list[Json] = []

    def all_told() -> bool:
        told.extend(map(json.loads, service.received(queue)))
        return len(told) == len(events)

    assert service.wait(all_told)
    received = service.simulator.inbox("followed")
    assert {one["data"]["correlationId"] for one in told} == {correlation_id}
    assert {one["headers"]["x-correlation-id"] for one in received} == {correlation_id}
    bought = service.simulator.calls("/gpu/instance/create")
    looked_up = service.simulator.calls("/products")
    assert {call["headers"]["X-Correlation-ID"] for call in bought + looked_up} == {correlation_id}


def _lines(service: Service, correlation_id: str) -> dict[str, list[Json]]:
    """The lines that carry the id, by function: `Ostler-FunctionsCreateFunction… {…}`."""
    found: dict[str, list[Json]] = defaultdict(list)
    for line in service.log().splitlines():
        name, _, text = line.partition(" ")
        if f'"correlation_id":"{correlation_id}"' in text:
            function = next(
                one
                for one in (*FUNCTIONS, "DeadLetters", "Reconcile")
                if one in name.replace("Functions", "")
            )
            found[function].append(json.loads(text))
    return found
