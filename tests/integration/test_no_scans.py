"""No route scans the table: every one is called, and every call to AWS is watched."""

import pytest

from tests.integration.harness import Harness
from tests.integration.routes import request, routes

MORE = (
    ("GET", "/api/instances", None),
    ("GET", "/api/instances?status=terminated", None),
    ("GET", "/api/instances?name=test", None),
    ("GET", "/api/instances/comprehensive", None),
)


@pytest.fixture
def running(harness: Harness) -> str:
    instance_id = harness.create(webhookUrl=harness.simulator.inbox_url("box"))
    harness.settle()
    harness.advance(60)
    return instance_id


def test_no_route_scans_the_table(harness: Harness, running: str) -> None:
    known = routes()
    harness.wire.calls.clear()

    for method, path in known:
        before = len(harness.wire.calls)
        address, body = request(method, path)
        status, answer = harness.call(method, address.replace("{id}", running), body)
        made = [call.name.split()[0] for call in harness.wire.calls[before:] if call.handler == "api"]
        assert status < 500, (method, path, answer)
        assert status != 400, (method, path, answer)
        assert "Scan" not in made, (method, path)
    for method, address, body in MORE:
        harness.call(method, address, body)

    asked = {call.name.split()[0] for call in harness.wire.calls if call.handler == "api"}
    assert len(known) >= 25
    assert {"GetItem", "Query", "TransactWriteItems"} <= asked
    assert not asked & {"Scan", "ExecuteStatement", "BatchExecuteStatement", "ParallelScan"}
    harness.settle()


def test_the_watch_would_see_a_scan(harness: Harness) -> None:
    with harness.wire.handling("api"):
        harness.wiring.table.client.scan(TableName=harness.table_name)

    assert "Scan" in {call.name for call in harness.wire.calls}
    assert harness.wire.rights
    assert harness.wire.rights.missing == {("api", ("dynamodb:Scan", "Table"))}
    harness.wire.rights.missing.clear()
