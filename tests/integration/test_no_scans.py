"""No route scans the table: every one is called, and every call to AWS is watched."""

import re
from typing import Any

import pytest

from functions.api.handler import _app as app
from tests.integration.world import World

CREATE = {"name": "test", "productName": "RTX 4090 24GB", "templateId": "107672"}
# A request for each route, with what it needs to get as far as the table; `{id}` is an instance's.
REQUESTS: dict[tuple[str, str], tuple[str, Any]] = {
    ("GET", "/health"): ("/health?deep=true", None),
    ("POST", "/api/instances"): ("/api/instances", CREATE),
    ("GET", "/api/instances"): ("/api/instances?name=test&status=running&limit=1", None),
    ("GET", "/api/instances/comprehensive"): ("/api/instances/comprehensive?syncLocalState=true", None),
    ("POST", "/api/instances/import"): ("/api/instances/import", {"novitaInstanceId": "nobody"}),
    ("POST", "/api/instances/start"): ("/api/instances/start", {"instanceName": "test"}),
    ("POST", "/api/instances/stop"): ("/api/instances/stop", {"instanceName": "test"}),
    ("POST", "/api/instances/delete"): ("/api/instances/delete", {"instanceName": "other"}),
    ("PUT", "/api/instances/{instance_id}/last-used"): ("/api/instances/{id}/last-used", {}),
    ("POST", "/api/quotes"): ("/api/quotes", CREATE),
    ("POST", "/api/sync"): ("/api/sync", {"dryRun": False}),
    ("GET", "/api/webhooks/deliveries"): ("/api/webhooks/deliveries?instanceId={id}", None),
    ("GET", "/api/webhooks/secret"): ("/api/webhooks/secret?url=https://example.com", None),
    ("GET", "/api/templates/{template_id}"): ("/api/templates/107672", None),
}
MORE = (
    ("GET", "/api/instances", None),
    ("GET", "/api/instances?status=terminated", None),
    ("GET", "/api/instances?name=test", None),
    ("GET", "/api/instances/comprehensive", None),
)


def routes() -> list[tuple[str, str]]:
    paths = app.get_openapi_schema().paths or {}
    methods = ("get", "post", "put", "delete")
    return [
        (method.upper(), path) for path, item in paths.items() for method in methods if getattr(item, method)
    ]


def request(method: str, path: str) -> tuple[str, Any]:
    plain = re.sub(r"\{instance_id\}", "{id}", path)
    plain = re.sub(r"\{\w+_id\}", "unknown", plain) if "{id}" not in plain else plain
    return REQUESTS.get((method, path), (plain, None))


@pytest.fixture
def running(world: World) -> str:
    instance_id = world.create(webhookUrl=world.simulator.inbox_url("box"))
    world.settle()
    world.advance(60)
    return instance_id


def test_no_route_scans_the_table(world: World, running: str) -> None:
    known = routes()
    world.wire.calls.clear()

    for method, path in known:
        before = len(world.wire.calls)
        address, body = request(method, path)
        status, answer = world.call(method, address.replace("{id}", running), body)
        made = [call.name.split()[0] for call in world.wire.calls[before:] if call.handler == "api"]
        assert status < 500, (method, path, answer)
        assert status != 400, (method, path, answer)
        assert "Scan" not in made, (method, path)
    for method, address, body in MORE:
        world.call(method, address, body)

    asked = {call.name.split()[0] for call in world.wire.calls if call.handler == "api"}
    assert len(known) >= 25
    assert {"GetItem", "Query", "TransactWriteItems"} <= asked
    assert not asked & {"Scan", "ExecuteStatement", "BatchExecuteStatement", "ParallelScan"}
    world.settle()


def test_the_watch_would_see_a_scan(world: World) -> None:
    with world.wire.handling("api"):
        world.wiring.table.client.scan(TableName=world.table_name)

    assert "Scan" in {call.name for call in world.wire.calls}
