"""The routes of the caches: statistics of both sides, a clear that every process sees, and a clean-up."""

from typing import Any

import pytest

from ops import keys
from tests.integration.world import World

PRODUCTS = "novita GET /products"


def stats(world: World) -> Any:
    status, answer = world.call("GET", "/api/cache/stats")
    assert status == 200, answer
    return answer


def reads(world: World) -> int:
    return sum(made.name == PRODUCTS for made in world.wire.calls)


def test_both_sides_tell_size_hits_misses_ratio_evictions_and_ids(world: World) -> None:
    for _ in range(4):
        world.call("GET", "/api/products?name=RTX")

    shown = stats(world)

    assert shown["process"] == {
        "size": 1,
        "hits": 3,
        "misses": 1,
        "hitRatio": 0.75,
        "evictions": 0,
        "ids": ["products#spot#rtx"],
    }
    assert shown["shared"]["ids"] == ["products#spot#rtx"]
    assert shown["shared"]["size"] == 1
    assert shown["shared"]["bytes"] > 100
    assert (shown["shared"]["misses"], shown["shared"]["evictions"]) == (1, 0)


def test_another_process_finds_what_the_first_has_stored(world: World) -> None:
    world.call("GET", "/api/products")
    world.restart()

    world.call("GET", "/api/products")

    assert reads(world) == 1
    shown = stats(world)
    assert (shown["shared"]["hits"], shown["process"]["hits"]) == (1, 0)


def test_details_that_a_record_holds_are_counted_too(world: World) -> None:
    instance_id = world.create()
    world.settle()
    before = stats(world)["shared"]
    world.call("GET", f"/api/instances/{instance_id}")
    world.advance(31)
    world.call("GET", f"/api/instances/{instance_id}")

    after = stats(world)["shared"]

    assert (after["hits"] - before["hits"], after["misses"] - before["misses"]) == (1, 1)


def test_a_clear_is_seen_by_every_process_within_five_seconds(world: World) -> None:
    world.call("GET", "/api/products")
    warm = world.wiring

    status, answer = world.elsewhere(lambda: world.call("POST", "/api/cache/clear"))

    assert (status, answer["epoch"]) == (200, 1)
    world.advance(5)
    assert world.wiring is warm
    world.call("GET", "/api/products")
    assert reads(world) == 2


def test_a_clean_up_removes_what_has_expired_and_no_more(world: World) -> None:
    world.call("GET", "/api/products")
    world.call("GET", "/api/templates/107672")
    world.advance(301)  # products live for 5 minutes, templates for 10

    status, answer = world.call("POST", "/api/cache/cleanup")

    assert (status, answer) == (200, {"shared": 1, "process": 1})
    assert stats(world)["shared"]["ids"] == ["template#107672"]
    assert world.call("POST", "/api/cache/cleanup")[1] == {"shared": 0, "process": 0}


@pytest.mark.parametrize(("age", "asked"), [(299, 1), (301, 2)])
def test_products_live_for_five_minutes(world: World, age: float, asked: int) -> None:
    world.call("GET", "/api/products")
    world.advance(age)

    world.call("GET", "/api/products")

    assert reads(world) == asked


def test_clearing_needs_an_admin_and_looking_does_not(world: World) -> None:
    writer = keys.new_key()
    world.add_key(writer, "write")
    headers = {"authorization": f"Bearer {writer}"}

    assert world.call("GET", "/api/cache/stats", headers=headers)[0] == 200
    for path in ("/api/cache/clear", "/api/cache/cleanup"):
        status, answer = world.call("POST", path, headers=headers)
        assert (status, answer["error"]["code"]) == (403, "FORBIDDEN")
