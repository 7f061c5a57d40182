"""/openapi.json: valid OpenAPI 3.1, made from the routes, with what each of them answers."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.unit.api.api import Api

Json = dict[str, Any]

METHODS = {"get", "put", "post", "delete", "options", "head", "patch", "trace"}
TYPES = {"string", "integer", "number", "boolean", "object", "array", "null"}
# Every route that is promised; the two that show all the others are not listed.
ROUTES = {
    "POST /api/instances": 201,
    "GET /api/instances": 200,
    "GET /api/instances/comprehensive": 200,
    "GET /api/instances/{}": 200,
    "PATCH /api/instances/{}": 200,
    "GET /api/instances/{}/events": 200,
    "GET /api/instances/{}/connection": 200,
    "GET /api/instances/{}/cost": 200,
    "GET /api/costs": 200,
    "GET /api/budgets": 200,
    "GET /api/budgets/{}": 200,
    "PUT /api/budgets/{}": 200,
    "DELETE /api/budgets/{}": 200,
    "POST /api/instances/{}/start": 202,
    "POST /api/instances/{}/stop": 202,
    "POST /api/instances/{}/restart": 202,
    "POST /api/instances/start": 202,
    "POST /api/instances/stop": 202,
    "POST /api/instances/delete": 202,
    "DELETE /api/instances/{}": 202,
    "POST /api/instances/import": 201,
    "PUT /api/instances/{}/last-used": 200,
    "GET /api/operations/{}": 200,
    "GET /api/instances/{}/operations": 200,
    "POST /api/quotes": 200,
    "GET /api/products": 200,
    "GET /api/templates/{}": 200,
    "POST /api/sync": 200,
    "GET /api/webhooks/deliveries": 200,
    "POST /api/webhooks/deliveries/{}/replay": 202,
    "GET /api/webhooks/secret": 200,
    "GET /api/jobs/stats": 200,
    "GET /api/jobs/dead": 200,
    "POST /api/jobs/dead/{}/redrive": 202,
    "POST /api/jobs/dead/cleanup": 200,
    "GET /api/circuits": 200,
    "GET /api/me": 200,
    "GET /api/status": 200,
    "POST /api/pause": 200,
    "POST /api/resume": 200,
    "GET /api/cache/stats": 200,
    "POST /api/cache/clear": 200,
    "POST /api/cache/cleanup": 200,
    "GET /health": 200,
}
SUCCESS = re.compile(r"2\d\d")


@pytest.fixture(scope="module")
def description(api: Api) -> Json:
    answer = api.call("GET", "/openapi.json", headers={"Authorization": None})
    assert answer.status == 200
    described: Json = answer.body
    return described


def operations(description: Json) -> Iterator[tuple[str, str, Json]]:
    for path, methods in description["paths"].items():
        for method, operation in methods.items():
            yield method, path, operation


def nodes(value: Any) -> Iterator[Json]:
    if isinstance(value, dict):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from nodes(inner)


def resolved(description: Json, node: Json) -> Json:
    if "$ref" not in node:
        return node
    found: Any = description
    for part in node["$ref"].removeprefix("#/").split("/"):
        found = found[part]
    assert isinstance(found, dict)
    return found


def test_it_has_what_openapi_3_1_asks_for(description: Json) -> None:
    assert re.fullmatch(r"3\.1\.\d", description["openapi"])
    assert description["info"].keys() >= {"title", "version"}
    ids = [operation["operationId"] for _, _, operation in operations(description)]
    assert len(ids) == len(set(ids))
    for method, path, operation in operations(description):
        assert method in METHODS
        assert path.startswith("/")
        assert operation["responses"]
        assert all(SUCCESS.fullmatch(code) or code == "default" for code in operation["responses"])
        assert all("description" in resolved(description, one) for one in operation["responses"].values())


def test_every_reference_leads_somewhere(description: Json) -> None:
    references = [node for node in nodes(description) if "$ref" in node]

    assert references
    assert all(resolved(description, node) for node in references)


def test_schemas_are_json_schema_2020(description: Json) -> None:
    for node in nodes(description["components"]["schemas"]):
        assert "nullable" not in node
        assert not isinstance(node.get("exclusiveMinimum"), bool)
        if isinstance(node.get("type"), str):
            assert node["type"] in TYPES
        if node.get("type") == "array":
            assert "items" in node
        if isinstance(node.get("required"), list):
            assert set(node["required"]) <= node["properties"].keys()


def test_every_place_in_a_path_is_a_parameter_and_no_other(description: Json) -> None:
    for _, path, operation in operations(description):
        declared = [one for one in operation.get("parameters", []) if one["in"] == "path"]
        assert {one["name"] for one in declared} == set(re.findall(r"\{(\w+)\}", path))
        assert all(one["required"] for one in declared)
        assert all("schema" in one for one in operation.get("parameters", []))


def test_every_route_is_listed_with_what_it_answers(description: Json) -> None:
    found = {}
    for method, path, operation in operations(description):
        codes = [code for code in operation["responses"] if SUCCESS.fullmatch(code)]
        found[f"{method.upper()} {re.sub(r'{.*?}', '{}', path)}"] = codes

    assert found == {route: [str(code)] for route, code in ROUTES.items()}


def test_every_success_has_a_schema_with_named_fields(description: Json) -> None:
    for method, path, operation in operations(description):
        success = next(one for code, one in operation["responses"].items() if SUCCESS.fullmatch(code))
        schema = resolved(description, success["content"]["application/json"]["schema"])
        assert schema.get("properties"), f"{method} {path}"


def test_every_error_has_the_envelope(description: Json) -> None:
    for _, _, operation in operations(description):
        content = operation["responses"]["default"]["content"]["application/json"]
        envelope = resolved(description, content["schema"])["properties"]["error"]
        assert set(envelope["required"]) == {
            *("code", "message", "timestamp", "requestId", "correlationId", "retryable")
        }


def test_bodies_show_their_bounds_and_refuse_unknown_fields(description: Json) -> None:
    create = description["paths"]["/api/instances"]["post"]["requestBody"]
    body = resolved(description, create["content"]["application/json"]["schema"])
    body = resolved(description, body["allOf"][0]) if "allOf" in body else body

    assert create["required"] is True
    assert body["additionalProperties"] is False
    assert set(body["required"]) == {"name", "productName", "templateId"}
    assert (body["properties"]["gpuNum"]["minimum"], body["properties"]["gpuNum"]["maximum"]) == (1, 8)


def test_instances_come_first(description: Json) -> None:
    tags = [tag["name"] for tag in description["tags"]]
    used = [operation["tags"] for _, _, operation in operations(description)]

    assert tags[0] == "instances"
    assert {tag for of_one in used for tag in of_one} == set(tags)
    assert next(iter(description["paths"])).startswith("/api/instances")


def test_constraints_are_those_of_the_validation(description: Json) -> None:
    create = description["components"]["schemas"]["CreateBody"]["properties"]
    listed = {one["name"]: one for one in description["paths"]["/api/instances"]["get"]["parameters"]}

    assert re.search(create["name"]["pattern"], "my-gpu 字 🚀")
    for bad in ("", " ", "a\nb", "a\u200bb", "\x7f"):
        assert not re.search(create["name"]["pattern"], bad)
    text, number = create["templateId"]["anyOf"]
    assert re.search(text["pattern"], "107672")
    assert not re.search(text["pattern"], "a b")
    assert number["maximum"] == 10**15
    assert create["tags"]["anyOf"][0]["maxProperties"] == 20
    address = create["webhookUrl"]["anyOf"][0]["pattern"]
    assert re.search(address, "HTTPS://a.example")
    assert not re.search(address, "ftp://a.example")
    assert listed["cursor"]["schema"]["anyOf"][0]["minLength"] == 1


def test_a_key_is_asked_for_everywhere_but_at_health(description: Json) -> None:
    schemes = description["components"]["securitySchemes"]

    assert [scheme["scheme"] for scheme in schemes.values()] == ["bearer"]
    assert description["security"]
    for _, path, operation in operations(description):
        assert operation.get("security", description["security"]) == (
            [] if path == "/health" else [{"key": []}]
        )


def test_the_page_holds_the_description_and_needs_nothing_from_elsewhere(api: Api) -> None:
    answer = api.call("GET", "/docs", headers={"Authorization": None})

    assert answer.status == 200
    assert answer.headers["Content-Type"].startswith("text/html")
    assert "/api/instances/{instance_id}/start" in answer.text
    assert not re.search(r"<(script|link)[^>]+(src|href)=.?https?://", answer.text)


def test_the_page_keeps_no_key_in_the_browser_and_forgets_those_that_it_once_kept(api: Api) -> None:
    page = api.call("GET", "/docs", headers={"Authorization": None}).text

    assert "persistAuthorization: false" in page
    assert page.endswith('<script>localStorage.removeItem("authorized")</script></html>')
