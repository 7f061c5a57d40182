"""The client against /openapi.json: every route has a method, every method a route, no field is unknown."""

import inspect
import json
import re
from collections.abc import Callable
from functools import cache
from typing import Any
from urllib.parse import parse_qs

import pytest
from ostler import models
from ostler.client import Ostler

from functions.api.app import build
from functions.api.openapi import _description
from tests.client.small_server import Asked, Said, SmallServer

NAMED = {"HealthCheck": "HealthCheckBody", "CreateRequest": "CreateBody", "QuoteRequest": "QuoteBody"}
NAMED |= {"StartRequest": "StartBody", "ImportRequest": "ImportBody"}

CALLS: dict[str, Callable[[Ostler], Any]] = {
    "create": lambda o: o.create("n", "p", "t"),
    "quote": lambda o: o.quote("p"),
    "page": lambda o: o.page(),
    "instances": lambda o: list(o.instances()),
    "comprehensive": lambda o: o.comprehensive(),
    "get": lambda o: o.get("ID"),
    "update": lambda o: o.update("ID", {"name": "n"}),
    "import_machine": lambda o: o.import_machine("abc"),
    "note_use": lambda o: o.note_use("ID"),
    "events_page": lambda o: o.events_page("ID"),
    "events": lambda o: list(o.events("ID")),
    "connection": lambda o: o.connection("ID"),
    "start": lambda o: o.start("ID"),
    "stop": lambda o: o.stop("ID"),
    "restart": lambda o: o.restart("ID"),
    "delete": lambda o: o.delete("ID"),
    "start_by_name": lambda o: o.start_by_name("n"),
    "stop_by_name": lambda o: o.stop_by_name("n"),
    "delete_by_name": lambda o: o.delete_by_name("n"),
    "operation": lambda o: o.operation("ID"),
    "operations": lambda o: o.operations("ID"),
    "wait_until": lambda o: o.wait_until("ID"),
    "cost": lambda o: o.cost("ID"),
    "costs": lambda o: o.costs(),
    "budgets": lambda o: o.budgets(),
    "budget": lambda o: o.budget("ID"),
    "set_budget": lambda o: o.set_budget("ID", "10", "month"),
    "delete_budget": lambda o: o.delete_budget("ID"),
    "products": lambda o: o.products(),
    "template": lambda o: o.template("ID"),
    "deliveries_page": lambda o: o.deliveries_page("ID"),
    "deliveries": lambda o: list(o.deliveries("ID")),
    "replay": lambda o: o.replay("ID"),
    "webhook_secret": lambda o: o.webhook_secret("https://example.com"),
    "health": lambda o: o.health(),
    "me": lambda o: o.me(),
    "status": lambda o: o.status(),
    "circuits": lambda o: o.circuits(),
    "pause": lambda o: o.pause(),
    "resume": lambda o: o.resume(),
    "sync": lambda o: o.sync(),
    "job_stats": lambda o: o.job_stats(),
    "dead_letters_page": lambda o: o.dead_letters_page(),
    "dead_letters": lambda o: list(o.dead_letters()),
    "redrive": lambda o: o.redrive("ID"),
    "clean_dead_letters": lambda o: o.clean_dead_letters(1),
    "cache_stats": lambda o: o.cache_stats(),
    "clear_cache": lambda o: o.clear_cache(),
    "clean_cache": lambda o: o.clean_cache(),
}
# Every filter and page of those that have any.
_PAGE: dict[str, Any] = {"limit": 5, "cursor": "c"}
FILTERED: tuple[Callable[[Ostler], Any], ...] = (
    lambda o: o.page(status="ready", name="n", tag="t:v", owner="me", **_PAGE),
    lambda o: o.comprehensive(include_novita_only=False, sync_local_state=True, **_PAGE),
    lambda o: o.events_page("ID", **_PAGE),
    lambda o: o.delete("ID", release=True),
    lambda o: o.costs(since="2026-01-01", to="2026-01-31", group_by="day", **_PAGE),
    lambda o: o.products("p", billing_mode="spot"),
    lambda o: o.deliveries_page("ID", **_PAGE),
    lambda o: o.webhook_secret("https://example.com"),
    lambda o: o.health(deep=True),
    lambda o: o.job_stats(24),
    lambda o: o.dead_letters_page(since="2026-01-01T00:00:00Z", **_PAGE),
)
_LISTS = ("instances", "events", "deliveries", "deadLetters", "circuits", "products", "budgets")


@cache
def description() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(_description(build()))
    return found


def offered() -> set[str]:
    return {
        f"{method.upper()} {re.sub(r'{[^}]*}', '{}', path)}"
        for path, operations in description()["paths"].items()
        for method in operations
    }


def asked_route(asked: Asked) -> str:
    return f"{asked.method} {asked.path.partition('?')[0].replace('/ID', '/{}')}"


@pytest.fixture
def used(client: Ostler, server: SmallServer) -> set[str]:
    server.otherwise = lambda _: Said(200, {"status": "ready", **{name: [] for name in _LISTS}})
    for call in CALLS.values():
        call(client)
    return {asked_route(asked) for asked in server.asked}


def test_every_method_of_the_client_is_tried_here() -> None:
    methods = {name for name, _ in inspect.getmembers(Ostler, inspect.isfunction) if not name.startswith("_")}

    assert methods == CALLS.keys()


def test_every_route_has_a_method_and_no_method_an_unknown_route(used: set[str]) -> None:
    assert used == offered()


def test_what_buys_or_changes_carries_a_key(server: SmallServer, used: set[str]) -> None:
    assert used
    taking = {
        f"{method.upper()} {re.sub(r'{[^}]*}', '{}', path)}"
        for path, operations in description()["paths"].items()
        for method, operation in operations.items()
        if any(
            one["name"].lower().replace("_", "-") == "idempotency-key"
            for one in operation.get("parameters", [])
        )
    }

    keyed = {asked_route(asked) for asked in server.asked if "Idempotency-Key" in asked.headers}

    assert keyed == taking


def test_every_query_parameter_can_be_given_and_none_is_invented(client: Ostler, server: SmallServer) -> None:
    server.otherwise = lambda _: Said(200, {name: [] for name in _LISTS})
    for call in FILTERED:
        call(client)

    given = {
        f"{asked_route(asked)} {name}"
        for asked in server.asked
        for name in parse_qs(asked.path.partition("?")[2])
    }

    assert given == {
        f"{method.upper()} {re.sub(r'{[^}]*}', '{}', path)} {one['name']}"
        for path, operations in description()["paths"].items()
        for method, operation in operations.items()
        for one in operation.get("parameters", [])
        if one["in"] == "query"
    }


@pytest.mark.parametrize("name", sorted(vars(models)))
def test_every_field_of_the_service_is_known_and_none_is_invented(name: str) -> None:
    model = getattr(models, name)
    schema = description()["components"]["schemas"].get(NAMED.get(name, f"{name}View"))
    if schema is None or not hasattr(model, "__annotations__"):
        return

    ours, theirs = set(model.__annotations__), set(schema["properties"])

    assert ours == theirs
    if name not in NAMED:  # what is always there to be read; of what is sent it is the other way round
        assert always_there(model) <= set(schema.get("required", ()))


def always_there(model: Any) -> set[str]:
    """Which of its fields a program may read without asking whether they are there."""
    if not model.__total__:
        return set()
    texts = {name: str(getattr(one, "__forward_arg__", one)) for name, one in model.__annotations__.items()}
    return {name for name, text in texts.items() if not text.startswith("NotRequired")}


def test_every_answer_of_the_service_has_a_model() -> None:
    views = {name.removesuffix("View") for name in description()["components"]["schemas"] if "View" in name}

    assert views <= set(vars(models))
