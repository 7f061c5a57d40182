"""The routes of the caches: statistics of both sides, a clear that every process sees, and a clean-up."""

from typing import Any

import pytest

from ops import keys
from tests.integration.harness import Harness

PRODUCTS = "novita GET /products"


def stats(harness: Harness) -> Any:
    status, answer = harness.call("GET", "/api/cache/stats")
    assert status == 200, answer
    return answer


def reads(harness: Harness) -> int:
    return sum(made.name == PRODUCTS for made in harness.wire.calls)


def test_both_sides_tell_size_hits_misses_sets_ratio_evictions_and_ids(harness: Harness) -> None:
    for _ in range(4):
        harness.call("GET", "/api/products?name=RTX")

    shown = stats(harness)

    products = {
        "size": 1,
        "hits": 3,
        "misses": 1,
        "sets": 1,
        "hitRatio": 0.75,
        "evictions": 0,
        "ids": ["products#spot"],
    }
    caches = shown["process"].pop("caches")
    assert shown["process"] == caches["products"] == products
    assert shown["shared"]["ids"] == ["products#spot"]
    assert shown["shared"]["size"] == 1
    assert shown["shared"]["bytes"] == shown["shared"]["caches"]["products"]["bytes"] > 100
    counts = [shown["shared"][name] for name in ("misses", "sets", "evictions")]
    assert counts == [1, 1, 0]


def test_each_cache_is_told_for_itself(harness: Harness) -> None:
    instance_id = harness.create()
    harness.settle()
    harness.sweep()
    harness.call("GET", f"/api/instances/{instance_id}")
    harness.advance(40)
    harness.call("GET", f"/api/instances/{instance_id}")
    for _ in range(2):
        harness.call("GET", "/api/instances/comprehensive")

    caches = stats(harness)["shared"]["caches"]

    assert {"products", "templates", "details", "list", "merged"} <= caches.keys()
    assert {name: caches[name]["ids"] for name in ("templates", "list", "merged")} == {
        "templates": ["template#107672"],
        "list": ["list"],
        "merged": ["merged"],
    }
    details = {name: caches["details"][name] for name in ("size", "hits", "misses", "sets")}
    assert details == {"size": 1, "hits": 1, "misses": 1, "sets": 1}
    assert (caches["list"]["misses"], caches["list"]["sets"]) == (1, 1)
    assert (caches["merged"]["misses"], caches["merged"]["sets"]) == (1, 1)
    assert stats(harness)["process"]["caches"]["merged"]["hits"] == 1
    total = stats(harness)["shared"]
    for name in ("hits", "misses", "sets", "evictions"):
        assert total[name] == sum(one[name] for one in total["caches"].values())


def test_another_process_finds_what_the_first_has_stored(harness: Harness) -> None:
    harness.call("GET", "/api/products")
    harness.restart()

    harness.call("GET", "/api/products")

    assert reads(harness) == 1
    shown = stats(harness)
    assert (shown["shared"]["hits"], shown["process"]["hits"]) == (1, 0)


def test_details_that_a_record_holds_are_counted_too(harness: Harness) -> None:
    instance_id = harness.create()
    harness.settle()
    before = stats(harness)["shared"]
    harness.call("GET", f"/api/instances/{instance_id}")
    harness.advance(31)
    harness.call("GET", f"/api/instances/{instance_id}")

    after = stats(harness)["shared"]

    assert (after["hits"] - before["hits"], after["misses"] - before["misses"]) == (1, 1)


def test_a_clear_is_seen_by_every_process_within_five_seconds(harness: Harness) -> None:
    harness.call("GET", "/api/products")
    warm = harness.wiring

    status, answer = harness.elsewhere(lambda: harness.call("POST", "/api/cache/clear"))

    assert (status, answer["epoch"]) == (200, 1)
    harness.advance(5)
    assert harness.wiring is warm
    harness.call("GET", "/api/products")
    assert reads(harness) == 2


def test_a_clean_up_removes_what_has_expired_and_no_more(harness: Harness) -> None:
    harness.call("GET", "/api/products")
    harness.call("GET", "/api/templates/107672")
    harness.advance(301)  # products live for 5 minutes, templates for 10

    status, answer = harness.call("POST", "/api/cache/cleanup")

    assert (status, answer) == (200, {"shared": 1, "process": 1})
    assert stats(harness)["shared"]["ids"] == ["template#107672"]
    assert harness.call("POST", "/api/cache/cleanup")[1] == {"shared": 0, "process": 0}


@pytest.mark.parametrize(("age", "asked"), [(299, 1), (301, 2)])
def test_products_live_for_five_minutes(harness: Harness, age: float, asked: int) -> None:
    harness.call("GET", "/api/products")
    harness.advance(age)

    harness.call("GET", "/api/products")

    assert reads(harness) == asked


def test_clearing_needs_an_admin_and_looking_does_not(harness: Harness) -> None:
    writer = keys.new_key()
    harness.add_key(writer, "write")
    headers = {"authorization": f"Bearer {writer}"}

    assert harness.call("GET", "/api/cache/stats", headers=headers)[0] == 200
    for path in ("/api/cache/clear", "/api/cache/cleanup"):
        status, answer = harness.call("POST", path, headers=headers)
        assert (status, answer["error"]["code"]) == (403, "FORBIDDEN")
