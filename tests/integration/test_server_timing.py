"""Server-Timing: where the time of a request went, for callers with a key."""

import re

from functions.api.handler import handler
from tests.integration.harness import Context, Harness
from tests.integration.market import PRODUCT

BODY = f'{{"name": "test", "productName": "{PRODUCT}", "templateId": "107672"}}'


def timing(harness: Harness, key: str) -> dict[str, float]:
    event = {
        "rawPath": "/api/instances",
        "headers": {"authorization": f"Bearer {key}"},
        "requestContext": {"http": {"method": "POST", "path": "/api/instances"}, "stage": "$default"},
        "body": BODY,
    }
    with harness.wire.handling("api"):
        answer = handler(event, Context())
    given = answer["headers"].get("Server-Timing", "")
    return {part: float(ms) for part, ms in re.findall(r"(\w+);dur=([0-9.]+)", given)}


def test_an_uncached_create_says_what_the_look_ups_took_and_a_cached_one_has_none(harness: Harness) -> None:
    harness.simulator.settings(latencyMs=50)
    uncached = timing(harness, harness.key)
    cached = timing(harness, harness.key)
    harness.settle()

    assert uncached.keys() >= {"catalog", "novita", "total"}
    assert uncached["catalog"] >= 50
    assert uncached["novita"] >= 100  # two calls at once
    assert uncached["total"] >= uncached["catalog"]
    assert "novita" not in cached
    assert cached.keys() >= {"catalog", "total"}


def test_a_cached_create_takes_well_under_100_ms_of_our_own(harness: Harness) -> None:
    """The half of them at least, on whatever machine; `make bench` has the figures."""
    timing(harness, harness.key)
    own = sorted(
        spent["total"] - sum(spent.get(part, 0) for part in ("table", "queue", "novita"))
        for spent in (timing(harness, harness.key) for _ in range(15))
    )
    harness.settle()

    assert own[7] < 100


def test_a_stranger_learns_nothing(harness: Harness) -> None:
    assert timing(harness, "ost_wrong") == {}
