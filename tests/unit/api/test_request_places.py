"""Where requests go, under which ids and with which key: every wrong one has its own 4xx."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.unit.api.api import Api, create_body

PATHS_OF_ONE = ["", "/events", "/connection", "/operations"]
CHANGES_OF_ONE = [
    ("POST", "/api/instances/x/start"),
    ("POST", "/api/instances/x/stop"),
    ("POST", "/api/instances/x/restart"),
    ("DELETE", "/api/instances/x"),
    ("PUT", "/api/instances/x/last-used"),
]
FIT = re.compile(r"[A-Za-z0-9._-]{1,128}")


@pytest.fixture(autouse=True)
def nothing_breaks_and_nothing_is_stored(api: Api, capfd: pytest.CaptureFixture[str]) -> Iterator[None]:
    before = api.stored()
    yield
    assert api.stored() == before
    logged = "".join(capfd.readouterr())
    assert "Traceback" not in logged
    assert "request failed" not in logged


# Routes and ids


@pytest.mark.parametrize(
    "path",
    [
        "/x",
        "/api",
        "/api/",
        "/api/nothing",
        "/api/instances/",
        "/api/instances//events",
        "/API/instances",
        "/api/v1",
        "/api/instances/a%2Fb",
        "/api/instances/..%2Fhealth",
        "/api/instances/%00",
        "/api/instances/%F0%9F%92%A9",
        "/api/instances/a/b/c",
        "/health/",
        "/docs/x",
        "/api/operations",
        "/api/operations/a%2Fb",
    ],
)
def test_an_unknown_route_is_not_found(api: Api, path: str) -> None:
    answer = api.call("GET", path)

    assert (answer.status, answer.code) == (404, "ROUTE_NOT_FOUND")


@pytest.mark.parametrize("method", ["PATCH", "PUT", "DELETE", "OPTIONS", "TRACE", "BREW", "post "])
def test_a_method_that_a_route_does_not_have_is_not_found(api: Api, method: str) -> None:
    answer = api.call(method, "/api/instances")

    assert (answer.status, answer.code) == (404, "ROUTE_NOT_FOUND")


@pytest.mark.parametrize("path", PATHS_OF_ONE)
@pytest.mark.parametrize("instance_id", ["x", "inst_01ARZ3NDEKTSV4RRFFQ69G5FAV", "key", "%25", "é", "x" * 64])
def test_an_unknown_instance_is_not_found(api: Api, path: str, instance_id: str) -> None:
    answer = api.call("GET", f"/api/instances/{instance_id}{path}")

    assert (answer.status, answer.code) == (404, "INSTANCE_NOT_FOUND")


@pytest.mark.parametrize("length", [65, 100_000])
@pytest.mark.parametrize("path", PATHS_OF_ONE)
def test_a_very_long_id_is_refused(api: Api, path: str, length: int) -> None:
    answer = api.call("GET", f"/api/instances/{'x' * length}{path}")

    assert (answer.status, answer.code) == (400, "VALIDATION_ERROR")
    assert list(answer.fields.values()) == ["INVALID_INSTANCE_ID"]


@pytest.mark.parametrize(
    ("method", "path"),
    CHANGES_OF_ONE,
)
def test_nothing_can_be_done_to_an_unknown_instance(api: Api, method: str, path: str) -> None:
    answer = api.call(method, path)

    assert (answer.status, answer.code) == (404, "INSTANCE_NOT_FOUND")


@pytest.mark.parametrize("name", ["start", "stop", "delete"])
def test_nothing_can_be_done_to_an_unknown_name(api: Api, name: str) -> None:
    answer = api.post({"instanceName": "nobody"}, f"/api/instances/{name}")

    assert (answer.status, answer.code) == (404, "INSTANCE_NOT_FOUND")


def test_an_unknown_operation_is_not_found(api: Api) -> None:
    answer = api.call("GET", "/api/operations/op_X")

    assert (answer.status, answer.code) == (404, "OPERATION_NOT_FOUND")


# Parameters


@pytest.mark.parametrize(
    "limit", ["0", "101", "-1", "abc", "", "1.5", "1e1", "NaN", "9" * 400, "10%2C20", "1&limit=2"]
)
def test_a_bad_limit_is_named(api: Api, limit: str) -> None:
    answer = api.call("GET", f"/api/instances?limit={limit}")

    assert (answer.status, answer.code) == (400, "VALIDATION_ERROR")
    assert answer.fields == {"limit": "INVALID_LIMIT"}


@pytest.mark.parametrize("status", ["bogus", "", "RUNNING", "running,ready", "running&status=ready"])
def test_a_bad_status_is_named(api: Api, status: str) -> None:
    answer = api.call("GET", f"/api/instances?status={status}")

    assert (answer.status, answer.code) == (400, "VALIDATION_ERROR")
    assert answer.fields == {"status": "INVALID_STATUS"}


def test_bad_parameters_are_named_together(api: Api) -> None:
    answer = api.call("GET", f"/api/instances?limit=0&status=bogus&name={'x' * 101}&cursor={'x' * 501}")

    assert (answer.status, answer.code) == (400, "VALIDATION_ERROR")
    assert answer.fields == {
        "limit": "INVALID_LIMIT",
        "status": "INVALID_STATUS",
        "name": "INVALID_INSTANCE_NAME",
        "cursor": "INVALID_CURSOR",
    }


@pytest.mark.parametrize(
    "cursor", ["abc", "%00", "====", "%C3%A9", "aW5zdF8x", "Li4uLi4", "a" * 500, "aW5zdF8xLjAwMA"]
)
def test_a_cursor_that_we_did_not_make_is_refused(api: Api, cursor: str) -> None:
    answer = api.call("GET", f"/api/instances?cursor={cursor}")

    assert (answer.status, answer.code) == (400, "INVALID_CURSOR")


@pytest.mark.parametrize("key", ["", "x" * 256])
@pytest.mark.parametrize(
    "path", ["", "/import", "/start", "/stop", "/delete", "/x/start", "/x/stop", "/x/restart"]
)
def test_a_bad_idempotency_key_is_named(api: Api, path: str, key: str) -> None:
    bodies: dict[str, Any] = {"": create_body(), "/import": {"novitaInstanceId": "x"}}
    by_name = {"instanceName": "x"} if path in ("/start", "/stop", "/delete") else None

    answer = api.post(bodies.get(path, by_name), f"/api/instances{path}", headers={"Idempotency-Key": key})

    assert (answer.status, answer.code) == (400, "VALIDATION_ERROR")
    assert list(answer.fields.values()) == ["INVALID_IDEMPOTENCY_KEY"]


# Ids of the request


@pytest.mark.parametrize("path", ["/health", "/api/instances", "/api/nothing"])
def test_fit_ids_come_back_on_every_answer(api: Api, path: str) -> None:
    answer = api.call("GET", path, headers={"X-Request-ID": "my.id-1_A", "X-Correlation-ID": "x" * 128})

    assert answer.headers["X-Request-ID"] == "my.id-1_A"
    assert answer.headers["X-Correlation-ID"] == "x" * 128


@pytest.mark.parametrize(
    "unfit", ["", " ", "two words", "x" * 129, "a\r\nSet-Cookie: b", "é", "${jndi}", "a/b", "a\n"]
)
def test_unfit_ids_are_replaced(api: Api, unfit: str) -> None:
    answer = api.call("GET", "/api/nothing", headers={"X-Request-ID": unfit, "X-Correlation-ID": unfit})

    assert FIT.fullmatch(answer.headers["X-Request-ID"])
    assert FIT.fullmatch(answer.headers["X-Correlation-ID"])
    assert answer.error["requestId"] == answer.headers["X-Request-ID"]


# HEAD


@pytest.mark.parametrize(
    "path", ["/health", "/docs", "/openapi.json", "/api/instances", "/api/instances/x", "/api/nothing"]
)
def test_head_answers_as_get_does_without_the_body(api: Api, path: str) -> None:
    got, head = api.call("GET", path), api.call("HEAD", path)

    assert (head.status, head.text) == (got.status, "")
    of_each = ("X-Request-ID", "X-Correlation-ID", "Server-Timing")
    assert {**head.headers, **dict.fromkeys(of_each)} == {**got.headers, **dict.fromkeys(of_each)}


def test_head_needs_the_scope_that_get_needs(api: Api) -> None:
    answer = api.call("HEAD", "/api/webhooks/secret?url=https://example.com", scope="write")

    assert (answer.status, answer.text) == (403, "")


def test_head_is_no_way_to_what_only_a_post_does(api: Api) -> None:
    assert api.call("HEAD", "/api/instances/x/start").status == 404


# Keys


WRONG_KEYS = [
    "",
    "Bearer",
    "Bearer ",
    "Bearer x",
    "Basic {key}",
    "{key}",
    "Bearer {key}x",
    "Bearer {key} x",
    "Bearer,{key}",
    "Token {key}",
    f"Bearer ost_{'a' * 43}",
    "Bearer ost_",
    "Bearer \ud800",
    "Bearer é",
    "Bearer " + "x" * 10_000,
]


@pytest.mark.parametrize("presented", WRONG_KEYS)
@pytest.mark.parametrize("path", ["/api/instances", "/api/nothing", "/x", "/health?deep=true"])
def test_a_key_that_is_wrong_or_malformed_is_unauthorized(api: Api, path: str, presented: str) -> None:
    answer = api.call("GET", path, headers={"Authorization": presented.format(key=api.keys["admin"])})

    assert (answer.status, answer.code) == (401, "UNAUTHORIZED")
    assert answer.headers["WWW-Authenticate"] == "Bearer"
    assert api.keys["admin"] not in answer.text


@pytest.mark.parametrize("presented", WRONG_KEYS)
@pytest.mark.parametrize("path", ["/health", "/health?deep=false", "/docs", "/openapi.json"])
def test_where_no_key_is_needed_a_bad_one_does_no_harm(api: Api, path: str, presented: str) -> None:
    answer = api.call("GET", path, headers={"Authorization": presented.format(key=api.keys["admin"])})

    assert answer.status == 200


@pytest.mark.parametrize("path", ["/api/instances", "/api/nothing", "/api/instances/x/connection", "/x"])
def test_without_a_key_nothing_but_health_and_docs_is_open(api: Api, path: str) -> None:
    answer = api.call("GET", path, headers={"Authorization": None})

    assert (answer.status, answer.code) == (401, "UNAUTHORIZED")


@pytest.mark.parametrize("path", ["/health", "/docs", "/openapi.json"])
def test_health_and_docs_need_no_key(api: Api, path: str) -> None:
    answer = api.call("GET", path, headers={"Authorization": None})

    assert answer.status == 200


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/api/instances"), *CHANGES_OF_ONE],
)
def test_a_key_that_may_only_read_changes_nothing(api: Api, method: str, path: str) -> None:
    answer = api.call(method, path, create_body(), scope="read")

    assert (answer.status, answer.code) == (403, "FORBIDDEN")


def test_a_bad_key_is_told_before_a_bad_body(api: Api) -> None:
    answer = api.post(raw="{" * 2_000_000, headers={"Authorization": "Bearer x"})

    assert (answer.status, answer.code) == (401, "UNAUTHORIZED")
