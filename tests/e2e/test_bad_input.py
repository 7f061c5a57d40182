"""Bad input over HTTP, through gateway and function; tests/unit/api has many more of each kind."""

import json
from collections.abc import Iterator
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.e2e.service import Service

GOOD = {"name": "test", "productName": "RTX 4090 24GB", "templateId": "107672"}
_CACHES = ("key#", "novita-key#", "cache#", "circuit#", "limiter#", "deployment", "cursors")
_COUNTS = "count#"  # looks of a test before come up to half a minute later, and are counted


@pytest.fixture(scope="module", autouse=True)
def nothing_breaks_and_nothing_is_stored(deployed: Service) -> Iterator[None]:
    deployed.clean_slate()
    log_before = len(deployed.log())
    yield
    stored = [item["pk"]["S"] for item in deployed.items()]
    assert [key for key in stored if not key.startswith((*_CACHES, _COUNTS))] == []
    logged = deployed.log()[log_before:]
    for bad in ("Traceback", "request failed", "errorMessage", '"level":"ERROR"'):
        assert bad not in logged


def send(
    service: Service,
    method: str = "POST",
    path: str = "/api/instances",
    body: bytes | str | None = None,
    headers: dict[str, str] | None = None,
) -> tuple[int, dict[str, str], Any]:
    """As it is given: a client library would mend or refuse some of it."""
    place = urlsplit(service.stack.api_url)
    connection = HTTPConnection(place.hostname or "", place.port, timeout=60)
    sent = {"Authorization": f"Bearer {service.stack.api_key}", **(headers or {})}
    connection.request(method, path, body.encode() if isinstance(body, str) else body, sent)
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer.status, {name.lower(): value for name, value in answer.getheaders()}, json.loads(content)


def refused(answer: tuple[int, dict[str, str], Any]) -> tuple[int, str, dict[str, str]]:
    """Status, code and bad fields of an error that has all it should have."""
    status, headers, body = answer
    error = body["error"]
    assert headers["content-type"] == "application/json"
    assert error["requestId"] == headers["x-request-id"]
    assert error["correlationId"] == headers["x-correlation-id"]
    assert {"message", "timestamp", "retryable"} <= error.keys()
    fields = {one["field"]: one["code"] for one in error.get("validationErrors", [])}
    return status, error["code"], fields


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (None, "VALIDATION_ERROR"),
        ("", "VALIDATION_ERROR"),
        ("null", "VALIDATION_ERROR"),
        (json.dumps([GOOD]), "VALIDATION_ERROR"),
        ('"text"', "VALIDATION_ERROR"),
        ("{", "MALFORMED_JSON"),
        ("name=test", "MALFORMED_JSON"),
        ("[" * 100_000 + "]" * 100_000, "MALFORMED_JSON"),
        ('{"a":' * 100_000 + "1" + "}" * 100_000, "MALFORMED_JSON"),
        (json.dumps({**GOOD, "gpuNum": float("nan")}), "MALFORMED_JSON"),
        (json.dumps({**GOOD, "maxPricePerGpuHour": float("inf")}), "MALFORMED_JSON"),
        (b"\xff\xfe\x00", "MALFORMED_JSON"),
        (json.dumps(GOOD).encode("utf-16"), "MALFORMED_JSON"),
        (json.dumps({**GOOD, "name": "\ud800"}), "VALIDATION_ERROR"),
        (json.dumps({**GOOD, "name": "a\u0000b"}), "VALIDATION_ERROR"),
        (json.dumps({**GOOD, "gpuNum": 10**400}), "VALIDATION_ERROR"),
        (json.dumps({**GOOD, "maxPricePerGpuHour": 10**400}), "VALIDATION_ERROR"),
        (json.dumps({**GOOD, "\ud800\u0000": 1}), "VALIDATION_ERROR"),
    ],
)
def test_a_bad_body_is_a_400(deployed: Service, body: bytes | str | None, code: str) -> None:
    status, given, _ = refused(send(deployed, body=body, headers={"Content-Type": "application/json"}))

    assert (status, given) == (400, code)


@pytest.mark.parametrize("size", [1_048_577, 5_000_000])
def test_more_than_a_megabyte_is_a_413(deployed: Service, size: int) -> None:
    status, code, _ = refused(send(deployed, body=b"x" * size))

    assert (status, code) == (413, "PAYLOAD_TOO_LARGE")


def test_every_bad_field_is_named_at_once(deployed: Service) -> None:
    bad = {"name": "", "gpuNum": "1", "tags": {"k": 1}, "webhookUrl": "http://10.0.0.1/", "x": 1}

    answer = refused(send(deployed, body=json.dumps({**GOOD, **bad})))

    assert answer == (
        400,
        "VALIDATION_ERROR",
        {
            "name": "INVALID_INSTANCE_NAME",
            "gpuNum": "INVALID_GPU_NUM",
            "tags.k": "INVALID_TAGS",
            "webhookUrl": "INVALID_WEBHOOK_URL",
            "x": "UNKNOWN_FIELD",
        },
    )


@pytest.mark.parametrize(
    "content_type",
    [
        "application/x-www-form-urlencoded",
        "text/plain",
        "multipart/form-data",
        "application/octet-stream",
        "nonsense",
    ],
)
def test_a_body_is_json_whatever_it_is_called(deployed: Service, content_type: str) -> None:
    body = json.dumps({**GOOD, "gpuNum": 0})

    answer = refused(send(deployed, body=body, headers={"Content-Type": content_type}))

    assert answer == (400, "VALIDATION_ERROR", {"gpuNum": "INVALID_GPU_NUM"})


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/api/nothing", 404, "ROUTE_NOT_FOUND"),
        ("GET", "/nothing", 404, "ROUTE_NOT_FOUND"),
        ("PATCH", "/api/instances", 404, "ROUTE_NOT_FOUND"),
        ("PUT", "/api/instances/x", 404, "ROUTE_NOT_FOUND"),
        ("GET", "/api/instances/a%2Fb", 404, "ROUTE_NOT_FOUND"),
        ("GET", "/api/instances/..%2f..%2fhealth", 404, "ROUTE_NOT_FOUND"),
        ("GET", "/api/instances/%00", 404, "ROUTE_NOT_FOUND"),
        ("GET", "/api/instances/%FF%ED%A0%80", 404, "ROUTE_NOT_FOUND"),
        ("GET", "/api/instances/inst_X", 404, "INSTANCE_NOT_FOUND"),
        ("GET", "/api/instances/inst_%C3%A9", 404, "INSTANCE_NOT_FOUND"),
        ("DELETE", "/api/instances/inst_X", 404, "INSTANCE_NOT_FOUND"),
        ("POST", "/api/instances/inst_X/start", 404, "INSTANCE_NOT_FOUND"),
        ("GET", f"/api/instances/{'x' * 5000}", 400, "VALIDATION_ERROR"),
        ("GET", "/api/operations/op_X", 404, "OPERATION_NOT_FOUND"),
        ("GET", "/api/templates/999", 404, "TEMPLATE_NOT_FOUND"),
        ("GET", "/api/instances?cursor=nonsense", 400, "INVALID_CURSOR"),
        ("GET", "/api/instances?limit=0&status=bogus", 400, "VALIDATION_ERROR"),
        ("GET", "/api/instances?limit=1&limit=2", 400, "VALIDATION_ERROR"),
    ],
)
def test_a_wrong_place_has_its_own_answer(
    deployed: Service, method: str, path: str, status: int, code: str
) -> None:
    assert refused(send(deployed, method, path))[:2] == (status, code)


@pytest.mark.parametrize(
    "presented",
    ["", "Bearer", "Bearer x", "Basic dXNlcjpwdw==", "Bearer ost_" + "a" * 43, "Bearer " + "x" * 5000],
)
def test_a_wrong_key_is_a_401(deployed: Service, presented: str) -> None:
    answer = send(deployed, body=json.dumps(GOOD), headers={"Authorization": presented})

    assert refused(answer)[:2] == (401, "UNAUTHORIZED")
    assert answer[1]["www-authenticate"] == "Bearer"


@pytest.mark.parametrize("key", ["", "x" * 256])
def test_a_bad_idempotency_key_is_named(deployed: Service, key: str) -> None:
    status, code, fields = refused(send(deployed, body=json.dumps(GOOD), headers={"Idempotency-Key": key}))

    assert (status, code) == (400, "VALIDATION_ERROR")
    assert list(fields.values()) == ["INVALID_IDEMPOTENCY_KEY"]


def test_ids_come_back_where_they_are_fit_and_are_replaced_where_not(deployed: Service) -> None:
    fit = {"X-Request-ID": "my-request.1", "X-Correlation-ID": "my_trace"}
    unfit = {"X-Request-ID": "two words", "X-Correlation-ID": "x" * 129}

    _, kept, _ = send(deployed, "GET", "/api/nothing", headers=fit)
    _, replaced, _ = send(deployed, "GET", "/api/nothing", headers=unfit)

    assert (kept["x-request-id"], kept["x-correlation-id"]) == ("my-request.1", "my_trace")
    assert replaced["x-request-id"] not in ("", "two words")
    assert replaced["x-correlation-id"] not in ("", "x" * 129)
