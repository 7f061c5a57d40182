"""No route scans the table: every one is called, and every call to AWS is watched."""

import pytest

from tests.integration.routes import request, routes
from tests.integration.world import World

MORE = (
    ("GET", "/api/instances", None),
    ("GET", "/api/instances?status=terminated", None),
    ("GET", "/api/instances?name=test", None),
    ("GET", "/api/instances/comprehensive", None),
)


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
    assert world.wire.rights
    assert world.wire.rights.missing == {("api", ("dynamodb:Scan", "Table"))}
    world.wire.rights.missing.clear()
