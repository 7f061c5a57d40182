"""The examples of /openapi.json, sent as they are, in the order of a first acquaintance: each succeeds."""

import json
from typing import Any

import pytest

from functions.api.handler import _app as app
from functions.api.openapi import _description
from tests.integration.harness import Harness

DESCRIPTION: dict[str, Any] = json.loads(_description(app))
# One after the other: what an example names has been made by one before.
IN_ORDER = [
    "POST /api/quotes",
    "POST /api/instances",
    "PUT /api/instances/{instance_id}/last-used",
    "POST /api/instances/stop",
    "POST /api/instances/start",
    "POST /api/instances/{instance_id}/restart",
    "POST /api/instances/{instance_id}/stop",
    "POST /api/instances/{instance_id}/start",
    "PATCH /api/instances/{instance_id}",
    "POST /api/instances/delete",
    "POST /api/instances/import",
    "PUT /api/budgets/{budget_name}",
    "POST /api/sync",
    "POST /api/jobs/dead/cleanup",
]


def example(operation: dict[str, Any]) -> Any:
    schema = operation["requestBody"]["content"]["application/json"]["schema"]
    schema = next((one for one in schema.get("anyOf", ()) if "$ref" in one), schema)
    shape = DESCRIPTION["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return shape["examples"][0]


def with_a_body() -> dict[str, dict[str, Any]]:
    return {
        f"{method.upper()} {path}": operation
        for path, operations in DESCRIPTION["paths"].items()
        for method, operation in operations.items()
        if "requestBody" in operation
    }


def test_every_body_has_an_example() -> None:
    assert set(with_a_body()) == set(IN_ORDER)
    assert all(isinstance(example(operation), dict) for operation in with_a_body().values())


def test_each_example_succeeds(harness: Harness) -> None:
    """All but the id of a machine that somebody bought elsewhere is as it is written."""
    theirs = harness.simulator.put_instance(status="running", name="theirs", ports="80/http")["id"]
    instance_id = ""
    for route in IN_ORDER:
        method, _, path = route.partition(" ")
        body = example(with_a_body()[route])
        if "novitaInstanceId" in body:
            body = {**body, "novitaInstanceId": theirs}
        status, answer = harness.call(
            method, path.replace("{instance_id}", instance_id).replace("{budget_name}", "art"), body
        )
        assert status < 300, (route, answer)
        instance_id = instance_id or answer.get("instanceId", "")
        harness.settle()
    harness.assert_books_balance()


@pytest.mark.parametrize("route", ["POST /api/instances", "GET /api/instances"])
def test_what_an_answer_leads_to_is_linked(harness: Harness, route: str) -> None:
    method, _, path = route.partition(" ")
    created = harness.create(webhookUrl=harness.simulator.inbox_url("box"))
    harness.settle()
    answer = {"instanceId": created} if method == "POST" else harness.call("GET", path)[1]
    operations = {
        operation["operationId"]: (verb, where)
        for where, described in DESCRIPTION["paths"].items()
        for verb, operation in described.items()
    }
    responses = DESCRIPTION["paths"][path][method.lower()]["responses"]
    links = next(one["links"] for code, one in responses.items() if code.startswith("2"))

    assert links.keys() >= {"get", "delete", "events", "start", "stop", "restart", "connection", "operations"}
    for name, link in links.items():
        verb, where = operations[link["operationId"]]
        ((parameter, expression),) = link["parameters"].items()
        value: Any = answer
        for part in expression.removeprefix("$response.body#/").split("/"):
            value = value[int(part)] if isinstance(value, list) else value[part]
        assert value == created
        if verb == "get":
            status, _ = harness.call("GET", where.replace(f"{{{parameter}}}", value))
            assert status == 200, name
