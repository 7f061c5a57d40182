"""What the page is tried with, and what its types name, is what the API answers."""

import json
import re
from functools import cache
from typing import Any

import jsonschema_rs
import pytest

from functions.api.app import build
from functions.api.openapi import _description
from functions.api.routes.page import FOLDER
from tests.browser import every_state, money
from tests.browser.every_state import ANSWERS

_NAMED = {"ServiceStatus": "StatusView", "InstancesPage": "InstancesView", "InstanceEvent": "EventView"}
_NAMED |= {"Interval": "CostIntervalView", "Place": "SecretPlaceView", "CacheCounts": "CacheView"}
_NAMED |= {"Cost": "CostSoFarView"}
_INSIDE = {"EndpointHealth", "HealthResult"}  # of a health check, which is described as any object


@cache
def schemas() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(_description(build()))["components"]["schemas"]
    return found


def faults(name: str, body: Any) -> list[str]:
    text = json.dumps(_strict(schemas())).replace("#/components/schemas/", "#/$defs/")
    schema = {"$ref": f"#/$defs/{name}", "$defs": json.loads(text)}
    checker = jsonschema_rs.validator_for(schema)
    return [f"{error.instance_path}: {error.message}" for error in checker.iter_errors(body)]


def _strict(schema: Any) -> Any:
    """No field that is not described, which callers must bear and a stub need not have."""
    if isinstance(schema, list):
        return [_strict(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {"additionalProperties": False} if isinstance(schema.get("properties"), dict) else {}
    return closed | {name: _strict(inner) for name, inner in schema.items()}


@pytest.mark.parametrize("form", ANSWERS)
def test_every_state_is_as_the_api_describes_it(form: str) -> None:
    name, make = ANSWERS[form]

    assert faults(name, make()) == []


def test_the_month_of_costs_is_as_the_api_describes_it() -> None:
    assert faults("CostsView", money.costs("from=2026-01-01&to=2026-01-31&groupBy=product")) == []


def test_every_status_is_among_them() -> None:
    tones = (FOLDER / "words.js").read_text().partition("const TONES = {")[2].partition("};")[0]
    statuses = set(re.findall(r"(\w+):", tones))

    assert {one["status"] for one in every_state.instances()} == statuses


def test_the_types_of_the_page_name_nothing_that_the_api_lacks() -> None:
    text = (FOLDER / "types.d.ts").read_text()
    found = re.findall(r"^interface (\w+) \{\n(.*?)^\}", text, re.MULTILINE | re.DOTALL)
    checked = 0
    for name, fields in found:
        if name in _INSIDE:
            continue
        ours = set(re.findall(r"^  (\w+)\??:", fields, re.MULTILINE))
        schema = schemas()[_NAMED.get(name, f"{name}View")]
        assert ours <= schema["properties"].keys(), name
        sure = set(re.findall(r"^  (\w+):", fields, re.MULTILINE))
        assert sure <= set(schema.get("required", ())), name
        checked += 1
    assert checked > 20
