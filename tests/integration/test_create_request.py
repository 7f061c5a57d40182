"""What POST /api/instances asks of Novita, and the noes that are known there and then."""

from typing import Any

import pytest

from tests.integration.conftest import Build
from tests.integration.harness import Harness
from tests.integration.market import PRODUCT, put_on_sale

BODY = {"name": "test", "productName": PRODUCT, "templateId": "107672"}


def _post(harness: Harness, **change: Any) -> tuple[int, Any]:
    return harness.call("POST", "/api/instances", BODY | change)


def _paths(harness: Harness) -> list[str]:
    return sorted(call["path"].rpartition("/")[2] for call in harness.simulator.calls())


def test_a_create_makes_two_look_ups_and_none_when_they_are_cached(harness: Harness) -> None:
    _post(harness)
    first = _paths(harness)
    harness.simulator.clear_calls()
    _post(harness)
    warm = _paths(harness)
    harness.restart()
    _post(harness)
    cold = _paths(harness)
    harness.settle()

    assert first == ["products", "template"]
    assert warm == cold == []
    assert len(harness.simulator.live()) == 3


def test_the_cache_is_asked_again_when_its_time_is_over(build: Build) -> None:
    harness = build(PRODUCTS_TTL="100", TEMPLATES_TTL="200")
    _post(harness)
    harness.settle()
    harness.run(120)
    harness.simulator.clear_calls()

    _post(harness)
    after_100 = _paths(harness)
    harness.run(100)
    harness.simulator.clear_calls()
    _post(harness)
    after_200 = _paths(harness)
    harness.settle()

    assert after_100 == ["products"]
    assert "template" in after_200


@pytest.mark.parametrize(
    ("change", "status", "code"),
    [
        ({"productName": "RTX 9999"}, 404, "PRODUCT_NOT_FOUND"),
        ({"templateId": "999"}, 404, "TEMPLATE_NOT_FOUND"),
        ({"templateId": "107675"}, 422, "INVALID_TEMPLATE_PORT"),
        ({"templateId": "107676"}, 422, "INVALID_TEMPLATE_IMAGE"),
        ({"templateId": "107678"}, 422, "INVALID_TEMPLATE_ENV"),
        ({"templateId": "107680"}, 422, "INVALID_TEMPLATE_PORT"),
        ({"maxPricePerGpuHour": 0.05}, 422, "PRICE_CAP_EXCEEDED"),
        ({"rootfsSize": 1000, "productName": "RTX 3090 24GB", "regions": ["EU-XX-09"]}, 422, None),
    ],
)
def test_a_definite_no_is_an_error_now_and_nothing_is_stored(
    harness: Harness, change: dict[str, Any], status: int, code: str | None
) -> None:
    answered, body = _post(harness, **change)

    assert (answered, body["error"]["code"]) == (status, code or "NO_OPTIMAL_PRODUCT_ANY_REGION")
    assert body["error"]["retryable"] is False
    assert harness.records() == []
    assert harness.simulator.calls("/gpu/instance/create") == []


def test_sold_out_everywhere_is_refused_with_every_regions_reason(harness: Harness) -> None:
    put_on_sale(harness.simulator, available=False)

    status, body = _post(harness, region="US-CA-06")

    assert (status, body["error"]["code"]) == (422, "NO_OPTIMAL_PRODUCT_ANY_REGION")
    assert body["error"]["details"]["regions"] == dict.fromkeys(
        ("US-CA-06", "AS-SGP-02", "CN-HK-01", "AS-IN-01"), "NOT_AVAILABLE"
    )


def test_a_price_cap_that_nothing_meets_names_the_lowest_price(harness: Harness) -> None:
    status, body = _post(harness, maxPricePerGpuHour=0.1)

    assert (status, body["error"]["code"]) == (422, "PRICE_CAP_EXCEEDED")
    assert body["error"]["details"]["lowestPrice"] == "0.17"


def test_a_no_is_never_taken_from_the_cache(harness: Harness) -> None:
    put_on_sale(harness.simulator, available=False)
    sold_out, _ = _post(harness)
    put_on_sale(harness.simulator, available=True)
    on_sale, _ = _post(harness)
    too_dear, _ = _post(harness, maxPricePerGpuHour=0.1)
    harness.simulator.patch_product("4090.16c62g", spotPrice=9000)

    cheaper, _ = _post(harness, maxPricePerGpuHour=0.1)
    harness.settle()

    assert (sold_out, on_sale, too_dear, cheaper) == (422, 201, 422, 201)
    assert len(harness.simulator.live()) == 2


def test_a_template_that_was_mended_is_not_refused_from_the_cache(harness: Harness) -> None:
    refused, _ = _post(harness, templateId="107676")
    harness.simulator.put_template("107676", image="ghcr.io/ostler-demo/comfyui:latest")

    taken, _ = _post(harness, templateId="107676")
    harness.settle()

    assert (refused, taken) == (422, 201)


def test_a_definite_no_counts_even_if_the_other_look_up_gets_no_answer(build: Build) -> None:
    harness = build(BREAKER_FAILURE_THRESHOLD="1000")  # or the one's failures may keep the other from asking
    harness.simulator.fault("status", "/products", status=503)
    no_template, first = _post(harness, templateId="999")
    harness.simulator.clear_faults()
    harness.simulator.fault("status", "/template", status=503)

    no_product, second = _post(harness, productName="RTX 9999")

    assert (no_template, first["error"]["code"]) == (404, "TEMPLATE_NOT_FOUND")
    assert (no_product, second["error"]["code"]) == (404, "PRODUCT_NOT_FOUND")
    assert harness.records() == []


def test_an_outage_is_never_reported_as_not_found(harness: Harness) -> None:
    harness.simulator.fault("garbage", status=404, body="<html>404 page not found</html>")

    status, answer = _post(harness)
    harness.simulator.clear_faults()
    harness.settle()

    assert status == 201
    assert "could not be asked" in answer["message"]


GARBAGE = ["html", "truncated", "cut", "list", "empty", '{"data": 7}', '{"id": ["x"], "data": [1]}']


@pytest.mark.parametrize("body", GARBAGE)
def test_garbage_at_each_call_once_still_gives_one_machine(harness: Harness, body: str) -> None:
    paths = ("/template", "/products", "/clusters", "/gpu/instance/create", "/gpu/instance", "/gpu/instances")
    status, answer = _post(harness)
    harness.restart()
    for path in paths:
        harness.simulator.fault("garbage", path, body=body, times=1)

    harness.settle()

    (record,) = harness.records()
    faults = {fault["match"]["path"]: fault["applied"] for fault in harness.simulator.faults()}
    assert status == 201
    assert record.id == answer["instanceId"]
    assert record.status == "running"
    assert faults == dict.fromkeys(paths, 1), "each call has met its garbage"
    assert len(harness.simulator.instances()) == 1
    assert harness.history(record.id) == ["instance.creating", "instance.starting", "instance.running"]
