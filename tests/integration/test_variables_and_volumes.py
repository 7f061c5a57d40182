"""What a create may say of a machine's inside: variables of its own, and network volumes that outlive it."""

import json
import logging
from typing import Any

import pytest

from functions.shared.domain.instance.status import Status
from tests.integration.conftest import Build
from tests.integration.dead_letters import break_purchases, dead, deliver_all, mend_purchases, redrive
from tests.integration.harness import Harness
from tests.integration.logs import everything_logged
from tests.integration.market import PRODUCT
from tests.integration.stored_records import as_text

SECRET = "open-sesame-3f1c"
ENVS = [{"key": "HF_TOKEN", "value": SECRET}, {"key": "MODE", "value": f"own {SECRET}"}]
BODY = {"name": "test", "productName": PRODUCT, "templateId": "107672"}


def at_novita(harness: Harness, instance_id: str) -> dict[str, Any]:
    machine_id = harness.record(instance_id).machine.id
    assert machine_id
    novita = harness.simulator
    found = novita._session.get(  # as Novita's own API shows it, with the values
        f"{novita.api_url}/gpu/instance",
        params={"instanceId": machine_id},
        headers={"Authorization": "Bearer key"},
        timeout=10,
    ).json()
    assert isinstance(found, dict)
    return found


def variables(harness: Harness, instance_id: str) -> dict[str, str]:
    return {one["key"]: one["value"] for one in at_novita(harness, instance_id)["envs"]}


def test_the_callers_variables_are_added_and_win_over_the_templates(harness: Harness) -> None:
    harness.simulator.put_template("900", envs=[{"key": "MODE", "value": "x"}, {"key": "A", "value": "1"}])
    instance_id = harness.create(templateId="900", envs=ENVS)
    harness.settle()

    assert variables(harness, instance_id) == {"MODE": f"own {SECRET}", "A": "1", "HF_TOKEN": SECRET}
    _, view = harness.call("GET", f"/api/instances/{instance_id}")
    assert view["envNames"] == ["HF_TOKEN", "MODE"]
    harness.assert_books_balance()


def test_their_values_are_in_one_item_and_nowhere_else(build: Build) -> None:
    """Through a purchase that fails at first, a dead letter, a redrive, and an idempotent repeat."""
    harness = build(RETRY_BASE_SECONDS="0")
    hook = harness.simulator.inbox_url("box")
    body = BODY | {"envs": ENVS, "webhookUrl": hook}
    said: list[Any] = []
    with everything_logged(logging.INFO) as logged:  # below it the SDK logs what it stores
        for _ in range(2):
            said.append(harness.call("POST", "/api/instances", body, headers={"Idempotency-Key": "once"}))
        instance_id = said[0][1]["instanceId"]
        break_purchases(harness)
        deliver_all(harness)
        mend_purchases(harness)
        (dead_letter,) = dead(harness)
        said += [dead_letter, redrive(harness, dead_letter["id"])]
        harness.settle()
        for path in ("", f"/{instance_id}", f"/{instance_id}/events", "/comprehensive"):
            said.append(harness.call("GET", f"/api/instances{path}"))
        bad = [{"key": "A", "value": SECRET * 400}, {"key": "B=", "value": SECRET}]
        said.append(harness.call("POST", "/api/instances", body | {"envs": bad}))

    assert harness.record(instance_id).status is Status.RUNNING
    assert variables(harness, instance_id)["HF_TOKEN"] == SECRET
    assert said[0] == said[1]
    assert said[-1][0] == 400
    for place in (logged.getvalue(), said, harness.simulator.inbox("box"), harness.simulator.calls()):
        assert place
        assert SECRET not in json.dumps(place, default=str)
    holding = [item["sk"]["S"] for item in harness.items() if SECRET in as_text(item)]
    assert holding == ["variables"]


def test_their_values_are_gone_with_the_instance(harness: Harness) -> None:
    instance_id = harness.create(envs=ENVS)
    harness.settle()
    harness.call("DELETE", f"/api/instances/{instance_id}")
    harness.settle()

    assert harness.record(instance_id).status is Status.TERMINATED
    assert SECRET not in as_text(harness.items())
    harness.assert_books_balance()


def test_more_than_novita_takes_together_with_the_templates_is_refused(harness: Harness) -> None:
    harness.simulator.put_template("900", envs=[{"key": f"T{n}", "value": ""} for n in range(60)])
    many = [{"key": f"C{n}", "value": ""} for n in range(41)]

    status, answer = harness.call("POST", "/api/instances", BODY | {"templateId": "900", "envs": many})

    assert (status, answer["error"]["code"]) == (422, "TOO_MANY_VARIABLES")
    assert harness.records() == []
    same = [{"key": f"T{n}", "value": "x"} for n in range(41)]
    assert harness.call("POST", "/api/instances", BODY | {"templateId": "900", "envs": same})[0] == 201
    harness.settle()


def test_a_machine_with_volumes_is_bought_where_they_are(harness: Harness) -> None:
    harness.simulator.put_storage("data", "AS-SGP-02")
    harness.simulator.put_storage("models", "AS-SGP-02")
    volumes = [{"id": "data", "mountPath": "/data"}, {"id": "models", "mountPath": "/models"}]

    instance_id = harness.create(networkVolumes=volumes)
    harness.settle()

    record = harness.record(instance_id)
    assert (record.status, record.machine.region) == (Status.RUNNING, "AS-SGP-02")
    _, view = harness.call("GET", f"/api/instances/{instance_id}")
    assert view["networkVolumes"] == volumes
    mounted = at_novita(harness, instance_id)["volumeMounts"]
    assert [(one["id"], one["mountPath"]) for one in mounted] == [("data", "/data"), ("models", "/models")]
    _, merged = harness.call("GET", "/api/instances/comprehensive")
    assert {one["id"] for one in merged["instances"][0]["volumeMounts"]} == {"data", "models"}
    harness.assert_books_balance()


@pytest.mark.parametrize("route", ["/api/instances", "/api/quotes"])
@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"networkVolumes": [{"id": "gone"}]}, (404, "NETWORK_VOLUME_NOT_FOUND")),
        ({"networkVolumes": [{"id": "sgp"}], "region": "CN-HK-01"}, (422, "NETWORK_VOLUME_ELSEWHERE")),
        ({"networkVolumes": [{"id": "sgp"}], "regions": ["AS-IN-01"]}, (422, "NETWORK_VOLUME_ELSEWHERE")),
        (
            {"networkVolumes": [{"id": "sgp"}, {"id": "hk", "mountPath": "/b"}]},
            (422, "NETWORK_VOLUME_ELSEWHERE"),
        ),
        (
            {"networkVolumes": [{"id": "in"}], "productName": "L40S 48GB"},
            (422, "NO_OPTIMAL_PRODUCT_ANY_REGION"),
        ),
    ],
)
def test_volumes_that_cannot_be_mounted_are_a_clear_error_before_anything_is_bought(
    harness: Harness, route: str, change: dict[str, Any], expected: tuple[int, str]
) -> None:
    for id_, region in (("sgp", "AS-SGP-02"), ("hk", "CN-HK-01"), ("in", "AS-IN-01")):
        harness.simulator.put_storage(id_, region)

    status, answer = harness.call("POST", route, BODY | change)

    assert (status, answer["error"]["code"]) == expected
    assert harness.records() == []


def test_a_quote_with_volumes_is_for_their_region(harness: Harness) -> None:
    harness.simulator.put_storage("in", "AS-IN-01")

    _, without = harness.call("POST", "/api/quotes", {"productName": PRODUCT})
    _, with_volumes = harness.call(
        "POST", "/api/quotes", {"productName": PRODUCT, "networkVolumes": [{"id": "in"}]}
    )
    cheapest = {"productName": PRODUCT, "networkVolumes": [{"id": "in"}], "placement": "cheapest"}

    assert without["region"] == "CN-HK-01"
    assert with_volumes["region"] == harness.call("POST", "/api/quotes", cheapest)[1]["region"] == "AS-IN-01"
    assert with_volumes["regions"] == {"AS-IN-01": "OFFERED"}


def test_a_new_volume_can_be_used_at_once_and_all_pages_are_read(harness: Harness) -> None:
    """The cache may only say yes."""
    harness.simulator.put_storage("old")
    assert harness.call("POST", "/api/quotes", BODY | {"networkVolumes": [{"id": "old"}]})[0] == 200
    harness.simulator.settings(maxPageSize=2)
    for number in range(5):
        harness.simulator.put_storage(f"new-{number}")
    harness.advance(11)

    assert harness.call("POST", "/api/quotes", BODY | {"networkVolumes": [{"id": "new-4"}]})[0] == 200


def test_novita_that_does_not_tell_its_volumes_lets_the_purchase_decide(harness: Harness) -> None:
    harness.simulator.put_storage("hk")
    harness.simulator.fault("status", "/networkstorages/list", status=503, times=3)

    instance_id = harness.create(networkVolumes=[{"id": "gone"}])
    harness.settle()

    record = harness.record(instance_id)
    assert record.error
    assert (record.status, record.error.code) == (Status.FAILED, "NETWORK_VOLUME_NOT_FOUND")
    harness.assert_books_balance()


def test_a_redriven_create_has_its_volumes_and_variables_still(build: Build) -> None:
    harness = build(RETRY_BASE_SECONDS="0")
    harness.simulator.put_storage("in", "AS-IN-01")
    instance_id = harness.create(networkVolumes=[{"id": "in", "mountPath": "/in"}], envs=ENVS)
    break_purchases(harness)
    deliver_all(harness)
    mend_purchases(harness)
    redrive(harness, dead(harness)[0]["id"])
    harness.settle()

    assert harness.record(instance_id).machine.region == "AS-IN-01"
    assert at_novita(harness, instance_id)["volumeMounts"][0]["mountPath"] == "/in"
    assert variables(harness, instance_id)["HF_TOKEN"] == SECRET


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("envs", {"A": "1"}),
        ("envs", [{"key": "", "value": "x"}]),
        ("envs", [{"key": "A B", "value": "x"}]),
        ("envs", [{"key": "K" * 512, "value": "x"}]),
        ("envs", [{"key": "A", "value": "x" * 4096}]),
        ("envs", [{"key": "A", "value": "x\0"}]),
        ("envs", [{"key": "A", "value": "\ud800"}]),
        ("envs", [{"key": "A", "value": 1}]),
        ("envs", [{"key": "A", "value": "x"}, {"key": "A", "value": "y"}]),
        ("envs", [{"key": f"K{n}", "value": ""} for n in range(101)]),
        ("envs", [{"key": f"K{n}", "value": "字" * 4095} for n in range(30)]),
        ("networkVolumes", [{"id": ""}]),
        ("networkVolumes", [{"id": "a/b"}]),
        ("networkVolumes", [{"id": "a", "mountPath": "data"}]),
        ("networkVolumes", [{"id": "a", "mountPath": "/"}]),
        ("networkVolumes", [{"id": "a"}, {"id": "a", "mountPath": "/b"}]),
        ("networkVolumes", [{"id": "a"}, {"id": "b"}]),
        ("networkVolumes", [{"id": f"v{n}", "mountPath": f"/{n}"} for n in range(31)]),
    ],
)
def test_what_novita_would_not_take_is_a_bad_field(harness: Harness, field: str, value: Any) -> None:
    status, answer = harness.call("POST", "/api/instances", BODY | {field: value})

    assert status == 400
    codes = {one["code"] for one in answer["error"]["validationErrors"]}
    assert codes == {"INVALID_ENVS" if field == "envs" else "INVALID_NETWORK_VOLUMES"}
