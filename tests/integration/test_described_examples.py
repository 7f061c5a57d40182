"""The examples of /openapi.json, sent as they are, in the order of a first acquaintance: each succeeds."""

import json
from typing import Any

import pytest

from functions.api.handler import _app as app
from functions.api.openapi import _description
from tests.integration.conftest import Build
from tests.integration.dead_letters import failed_create
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
            method, path.replace("{instance_id}", instance_id).replace("{budget_name}", "research"), body
        )
        assert status < 300, (route, answer)
        instance_id = instance_id or answer.get("instanceId", "")
        harness.settle()
    harness.assert_books_balance()


def example_of(parameter: dict[str, Any]) -> Any:
    """Unless it is an id, which only an answer has."""
    shape = parameter["schema"]
    shapes = [shape, *shape.get("anyOf", [])]
    found = next((one["examples"][0] for one in shapes if one.get("examples")), None)
    return None if str(found).startswith(("inst_", "op_", "dlv_")) else found


def exemplary_reads() -> dict[str, tuple[str, dict[str, str]]]:
    """Addresses of what can be read, and the fields of their queries that have an example."""
    found = {}
    for path, methods in DESCRIPTION["paths"].items():
        parameters = methods.get("get", {}).get("parameters", [])
        given = {one["name"]: example_of(one) for one in parameters if example_of(one) is not None}
        needed = {one["name"] for one in parameters if one.get("required")}
        if given and needed <= given.keys():
            asked = {name: value for name, value in given.items() if f"{{{name}}}" not in path}
            found[path] = (path.format(**given), asked)
    return found


def test_each_example_of_what_is_read_finds_something(harness: Harness) -> None:
    """Of what the examples of bodies have made."""
    for route in ("POST /api/instances", "PUT /api/budgets/{budget_name}"):
        method, _, path = route.partition(" ")
        status, answer = harness.call(
            method, path.format(budget_name="research"), example(with_a_body()[route])
        )
        assert status < 300, answer
    harness.settle()
    reads = exemplary_reads()

    assert reads.keys() == {
        "/api/instances",
        "/api/products",
        "/api/templates/{template_id}",
        "/api/budgets/{budget_name}",
        "/api/costs",
        "/api/webhooks/secret",
    }
    assert reads["/api/instances"][1].keys() == {"name", "tag", "owner"}
    for path, asked in reads.values():
        for query in [{}, *({name: value} for name, value in asked.items()), asked]:
            if path != "/api/webhooks/secret" or query:
                text = "&".join(f"{name}={value}" for name, value in query.items())
                status, answer = harness.call("GET", f"{path}?{text}")
                assert status == 200, answer
                assert answer.get("instances", answer.get("products", answer)), (path, query)


def operations() -> dict[str, tuple[str, str]]:
    """Method and path, by the id of the operation."""
    return {
        operation["operationId"]: (method.upper(), path)
        for path, described in DESCRIPTION["paths"].items()
        for method, operation in described.items()
    }


def linked() -> dict[str, dict[str, Any]]:
    """What the success of each operation leads to."""
    found = {
        f"{method} {path}": one.get("links")
        for method, path in operations().values()
        for code, one in DESCRIPTION["paths"][path][method.lower()]["responses"].items()
        if code.startswith("2")
    }
    return {route: links for route, links in found.items() if links}


def answer_of(harness: Harness, route: str) -> Any:
    """With something in it, where it is a list."""
    method, _, path = route.partition(" ")
    if path == "/api/jobs/dead":
        failed_create(harness)
        return harness.call(method, path)[1]
    instance_id = harness.create(name="linked", webhookUrl=harness.simulator.inbox_url("box"))
    harness.settle()
    if path.endswith("/start"):
        harness.call("POST", f"/api/instances/{instance_id}/stop")
        harness.settle()
    theirs = harness.simulator.put_instance(status="running", name="theirs", ports="80/http")["id"]
    bodies = {
        "/api/instances": example(with_a_body()["POST /api/instances"]),
        "/api/instances/import": {"novitaInstanceId": theirs},
        **{f"/api/instances/{what}": {"instanceName": "linked"} for what in ("start", "stop", "delete")},
    }
    place = path.replace("{instance_id}", instance_id)
    if path == "/api/webhooks/deliveries":
        place += f"?instanceId={instance_id}"
    status, answer = harness.call(method, place, bodies.get(path) if method == "POST" else None)
    assert status < 300, answer
    harness.settle()
    return answer


@pytest.mark.parametrize("route", linked())
def test_what_an_answer_leads_to_is_there(build: Build, route: str) -> None:
    harness = build(RETRY_BASE_SECONDS="0")
    answer = answer_of(harness, route)

    for name, link in linked()[route].items():
        method, path = operations()[link["operationId"]]
        ((parameter, expression),) = link["parameters"].items()
        value: Any = answer
        for part in expression.removeprefix("$response.body#/").split("/"):
            value = value[int(part)] if isinstance(value, list) else value[part]
        assert f"{{{parameter}}}" in path
        if method == "GET":
            assert harness.call("GET", path.replace(f"{{{parameter}}}", value))[0] == 200, name


def test_from_an_instance_everything_that_can_be_done_with_it_is_linked() -> None:
    wanted = {place for place in operations().values() if "{instance_id}" in place[1]}

    for route in ("POST /api/instances", "POST /api/instances/import", "GET /api/instances"):
        assert {operations()[link["operationId"]] for link in linked()[route].values()} == wanted
    for route in ("start", "restart", "stop"):
        (link,) = linked()[f"POST /api/instances/{{instance_id}}/{route}"].values()
        assert operations()[link["operationId"]] == ("GET", "/api/operations/{operation_id}")
