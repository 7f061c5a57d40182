"""Why a region had nothing to offer stays with the instance: waiting, bought, or failed."""

import json
from typing import Any

from tests.integration.conftest import Build
from tests.integration.harness import Harness
from tests.integration.logs import everything_logged
from tests.integration.market import put_on_sale

L40S = "L40S 48GB"  # sold in CN-HK-01 and US-CA-06
NOT_SOLD = {"AS-SGP-02": "NOT_SOLD_IN_REGION", "AS-IN-01": "NOT_SOLD_IN_REGION"}
SOLD_OUT = {**NOT_SOLD, "CN-HK-01": "NOT_AVAILABLE"}


def shown(harness: Harness, instance_id: str) -> Any:
    return harness.call("GET", f"/api/instances/{instance_id}")[1]


def events(harness: Harness, instance_id: str) -> dict[str, Any]:
    _, answer = harness.call("GET", f"/api/instances/{instance_id}/events")
    return {event["type"]: event for event in answer["events"]}


def attempts(log: str) -> list[Any]:
    lines = [json.loads(line) for line in dict.fromkeys(log.splitlines()) if line.startswith("{")]
    return [line["regions"] for line in lines if line["message"] in ("offer chosen", "no offer")]


def test_reasons_are_known_after_the_request_and_after_the_purchase(harness: Harness) -> None:
    instance_id = harness.create(productName=L40S)

    accepted = shown(harness, instance_id)
    with everything_logged() as log:
        harness.settle()

    told = events(harness, instance_id)
    assert accepted["regionReasons"] == shown(harness, instance_id)["regionReasons"] == NOT_SOLD
    assert told["instance.creating"]["data"]["regions"] == NOT_SOLD
    assert told["instance.starting"]["data"]["regions"] == NOT_SOLD
    assert attempts(log.getvalue()) == [NOT_SOLD]


def test_reasons_are_shown_while_nothing_can_be_had_and_in_the_failure(build: Build) -> None:
    harness = build(PURCHASE_MAX_WAIT="100")
    instance_id = harness.create(productName=L40S)
    put_on_sale(harness.simulator, available=False, name=L40S)
    harness.advance(31)  # offers are as old as that at most

    with everything_logged() as log:
        harness.run(40)
        waiting = shown(harness, instance_id)
        harness.settle()

    failed = shown(harness, instance_id)
    tried = attempts(log.getvalue())
    assert waiting["waitingFor"]["code"] == "NO_OPTIMAL_PRODUCT_ANY_REGION"
    assert waiting["waitingFor"]["details"]["regions"] == waiting["regionReasons"] == SOLD_OUT
    assert waiting["nextCheckAt"] > waiting["updatedAt"]
    assert failed["error"]["details"]["regions"] == SOLD_OUT
    assert events(harness, instance_id)["instance.failed"]["error"]["details"]["regions"] == SOLD_OUT
    assert len(tried) > 1
    assert all(reasons == SOLD_OUT for reasons in tried)


def test_what_novita_had_no_room_for_is_among_the_reasons(harness: Harness) -> None:
    harness.simulator.fault(
        "status", "/gpu/instance/create", status=400, reason="INSUFFICIENT_RESOURCE", times=1
    )
    instance_id = harness.create(productName=L40S, regions=["CN-HK-01", "US-CA-06"])

    harness.settle()

    assert shown(harness, instance_id)["region"] == "US-CA-06"
    assert shown(harness, instance_id)["regionReasons"] == {"CN-HK-01": "RESOURCE_CONSTRAINTS"}


def test_a_price_cap_names_the_regions_and_the_lowest_price(harness: Harness) -> None:
    instance_id = harness.create(productName=L40S, maxPricePerGpuHour=0.3)
    for id_ in ("l40s.16c90g", "l40s.14c80g"):
        harness.simulator.patch_product(id_, spotPrice=90_000)
    harness.advance(31)  # offers are as old as that at most

    harness.run(30)

    waits = shown(harness, instance_id)["waitingFor"]
    harness.settle()
    assert waits["code"] == "PRICE_CAP_EXCEEDED"
    assert waits["details"]["lowestPrice"] == "0.9"
    assert waits["details"]["regions"]["CN-HK-01"] == "PRICE_CAP_EXCEEDED"


def test_a_webhook_hears_the_reasons_too(harness: Harness) -> None:
    harness.create(productName=L40S, webhookUrl=harness.simulator.inbox_url("reasons"))

    harness.settle()

    told = {one["type"]: one for one in (json.loads(m["body"]) for m in harness.simulator.inbox("reasons"))}
    assert told["instance.starting"]["data"]["regions"] == NOT_SOLD
