"""Every route with every kind of bad credential: refused in the envelope, and nothing is done."""

from base64 import b64encode
from collections.abc import Callable
from typing import Any

import pytest

from ops import keys
from tests.integration.conftest import Build
from tests.integration.harness import Harness
from tests.integration.logs import everything_logged
from tests.integration.routes import request, routes

OPEN = {("GET", "/health")}
# Beyond GET = read and everything else = write.
OTHERWISE = {
    ("GET", "/api/webhooks/secret"): "admin",
    ("POST", "/api/cache/clear"): "admin",
    ("POST", "/api/cache/cleanup"): "admin",
    ("POST", "/api/jobs/dead/{letter_id}/redrive"): "admin",
    ("POST", "/api/jobs/dead/cleanup"): "admin",
    ("POST", "/api/pause"): "admin",
    ("PUT", "/api/budgets/{budget_name}"): "admin",
    ("DELETE", "/api/budgets/{budget_name}"): "admin",
    ("POST", "/api/resume"): "admin",
    ("POST", "/api/sync"): "admin",
    ("GET", "/api/instances/{instance_id}/connection"): "write",
    ("POST", "/api/quotes"): "read",
}
GUARDED = [route for route in routes() if route not in OPEN]
# `{key}` is a key with every scope; what is made of it here is not one.
MALFORMED = {
    "none": None,
    "empty": "",
    "no scheme": "{key}",
    "no key": "Bearer",
    "a space for a key": "Bearer  ",
    "another scheme": "Basic {key}",
    "basic, as browsers send it": f"Basic {b64encode(b'user:password').decode()}",
    "a wrong key": f"Bearer ost_{'a' * 43}",
    "a key with something after it": "Bearer {key}x",
    "a key in two parts": "Bearer {key} {key}",
    "two keys": "Bearer {key},{key}",
    "quoted": 'Bearer "{key}"',
    "without its prefix": "Bearer {bare}",
    "in capitals": "Bearer {capitals}",
    "a token": "Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJhIn0.",
    "its digest": "Bearer {digest}",
    "not text": "Bearer \ud800",
    "long": "Bearer " + "x" * 10_000,
}


@pytest.fixture
def known(harness: Harness) -> tuple[Harness, str]:
    instance_id = harness.create(webhookUrl=harness.simulator.inbox_url("box"))
    harness.settle()
    return harness, instance_id


def refused(
    harness: Harness, instance_id: str, authorization: str | None, status: int, code: str, *over: Any
) -> None:
    """Each of these routes answers so, and asks for nothing but who the key belongs to."""
    items, calls = harness.items(), len(harness.simulator.calls())
    with everything_logged() as log:
        for method, path in over or GUARDED:
            address, body = request(method, path)
            harness.wire.calls.clear()
            answer = harness.call(
                method, address.replace("{id}", instance_id), body, headers={"authorization": authorization}
            )
            assert (answer[0], answer[1]["error"]["code"]) == (status, code), (method, path)
            assert {call.name for call in harness.wire.calls} <= {"GetItem key/key"}, (method, path)
    assert harness.items() == items
    assert len(harness.simulator.calls()) == calls
    assert log.getvalue()
    assert not authorization or len(authorization) < 40 or authorization[-20:] not in log.getvalue()
    assert harness.key not in log.getvalue()


def needed(method: str, path: str) -> str:
    return OTHERWISE.get((method, path), "read" if method == "GET" else "write")


@pytest.mark.parametrize("kind", MALFORMED)
def test_what_is_not_a_key_opens_nothing(known: tuple[Harness, str], kind: str) -> None:
    harness, instance_id = known
    pattern = MALFORMED[kind]
    presented = pattern and pattern.format(
        key=harness.key,
        bare=harness.key.removeprefix("ost_"),
        capitals=harness.key.upper(),
        digest=keys.key_pk(harness.key).removeprefix("key#"),
    )

    refused(harness, instance_id, presented, 401, "UNAUTHORIZED")


def test_a_revoked_key_opens_nothing(known: tuple[Harness, str]) -> None:
    harness, instance_id = known
    key = keys.new_key()
    harness.revoke_key(harness.add_key(key, *keys.SCOPES))

    refused(harness, instance_id, f"Bearer {key}", 401, "UNAUTHORIZED")


@pytest.mark.parametrize("scope", ["read", "write"])
def test_a_key_opens_nothing_beyond_its_scope(known: tuple[Harness, str], scope: str) -> None:
    harness, instance_id = known
    key = keys.new_key()
    harness.add_key(key, scope)
    order = keys.SCOPES.index
    beyond = {one for one in GUARDED if order(needed(*one)) > order(scope)}

    refused(harness, instance_id, f"Bearer {key}", 403, "FORBIDDEN", *sorted(beyond))


SPELT: dict[str, Callable[[str, str], tuple[str, str]]] = {
    "with a line's end": lambda method, path: (method, f"{path}\n"),
    "with another line": lambda method, path: (method, f"{path}\nx"),
    "with a null": lambda method, path: (method, f"{path}\0"),
    "with a slash": lambda method, path: (method, f"{path}/"),
    "with two slashes": lambda method, path: (method, path.replace("/api/", "/api//")),
    "in capitals": lambda method, path: (method, path.upper()),
    "a small method": lambda method, path: (method.lower(), path),
    "a mixed method": lambda method, path: (method.capitalize(), path),
}


@pytest.mark.parametrize("spelling", SPELT)
@pytest.mark.parametrize("scope", ["read", "write"])
def test_no_other_spelling_opens_what_is_beyond_a_scope(
    known: tuple[Harness, str], scope: str, spelling: str
) -> None:
    harness, instance_id = known
    key = keys.new_key()
    harness.add_key(key, scope)
    order = keys.SCOPES.index
    beyond = [one for one in GUARDED if order(needed(*one)) > order(scope)]
    assert beyond

    for method, path in beyond:
        address, body = request(method, path)
        route, _, query = address.replace("{id}", instance_id).partition("?")
        spelt_method, spelt = SPELT[spelling](method, route)
        header = {"authorization": f"Bearer {key}"}
        status, answer = harness.call(spelt_method, f"{spelt}?{query}", body, header)
        assert status in (403, 404), (method, path, answer)


def test_a_key_without_a_scope_opens_nothing(known: tuple[Harness, str]) -> None:
    harness, instance_id = known
    key = keys.new_key()
    harness.add_key(key)

    refused(harness, instance_id, f"Bearer {key}", 403, "FORBIDDEN")


def test_each_scope_opens_what_is_within_it(known: tuple[Harness, str]) -> None:
    """What is refused above is refused for its scope and not for everybody."""
    harness, instance_id = known
    by_scope = {scope: keys.new_key() for scope in keys.SCOPES}
    for scope, key in by_scope.items():
        harness.add_key(key, scope)

    for method, path in GUARDED:
        address, body = request(method, path)
        header = {"authorization": f"Bearer {by_scope[needed(method, path)]}"}
        status, answer = harness.call(method, address.replace("{id}", instance_id), body, header)
        assert status not in (401, 403), (method, path, answer)
    assert set(GUARDED) >= OTHERWISE.keys()
    harness.settle()


def test_a_revoked_key_is_dead_within_a_minute_wherever_it_was_just_used(build: Build) -> None:
    harness = build(KEY_CACHE_SECONDS="30")  # the most that can be set
    key = keys.new_key()
    key_id = harness.add_key(key, "read")
    header = {"authorization": f"Bearer {key}"}
    assert harness.call("GET", "/api/instances", headers=header)[0] == 200

    harness.revoke_key(key_id)
    harness.advance(29)
    harness.call("GET", "/api/instances", headers=header)  # using it does not keep it alive
    harness.advance(30)

    assert harness.call("GET", "/api/instances", headers=header)[0] == 401
