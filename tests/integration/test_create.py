"""The create path with real handlers in virtual time: from the request to a machine that runs."""

import json
from datetime import timedelta

import pytest

from functions.shared.domain.instance.status import Status
from tests.integration.conftest import Build
from tests.integration.harness import Harness
from tests.integration.logs import everything_logged
from tests.integration.market import put_on_sale
from tests.integration.stored_records import as_text

PRIVATE, PASSWORD = "107673", "ghp_demo_1"


def test_a_create_is_bought_once_and_becomes_running(harness: Harness) -> None:
    instance_id = harness.create()

    harness.settle()

    record = harness.record(instance_id)
    assert record.status is Status.RUNNING
    assert [machine["id"] for machine in harness.simulator.live()] == [record.machine.id]
    assert harness.history(instance_id) == ["instance.creating", "instance.starting", "instance.running"]


def test_what_is_shown_of_a_running_instance_is_what_novita_has(harness: Harness) -> None:
    instance_id = harness.create(tags={"team": "vision"})
    harness.settle()

    status, shown = harness.call("GET", f"/api/instances/{instance_id}")

    (machine,) = harness.simulator.live()
    assert status == 200
    assert (shown["status"], shown["novitaInstanceId"]) == ("running", machine["id"])
    assert (shown["region"], shown["productId"]) == ("CN-HK-01", "4090.16c62g")
    assert shown["pricePerGpuHour"] == "0.18"
    assert shown["tags"] == {"team": "vision"}
    assert {port["port"] for port in shown["portMappings"]} == {8188, 80, 22}
    assert all(port["endpoint"] for port in shown["portMappings"])


def test_running_waits_for_the_addresses_and_ready_at_is_set_once(harness: Harness) -> None:
    harness.simulator.settings(bootSeconds=10, endpointsAfterSeconds=100)
    instance_id = harness.create()
    began = harness.now()

    harness.run(90)
    before = harness.record(instance_id)
    harness.settle()
    after = harness.record(instance_id)
    harness.run(600)
    harness.call("GET", f"/api/instances/{instance_id}")

    assert before.status is Status.STARTING
    assert after.ready_at is not None
    assert after.ready_at - began >= timedelta(seconds=110)
    assert harness.record(instance_id).ready_at == after.ready_at


def test_with_a_health_check_ready_comes_when_the_application_answers(harness: Harness) -> None:
    harness.simulator.app(status=502, afterSeconds=0)
    instance_id = harness.create(healthCheck={"retryAttempts": 0})

    harness.run(60)
    before = harness.record(instance_id)
    harness.simulator.app(status=200)
    harness.settle()

    after = harness.record(instance_id)
    assert (before.status, before.ready_at) == (Status.HEALTH_CHECKING, None)
    assert after.status is Status.READY
    assert after.ready_at is not None
    assert harness.history(instance_id)[-2:] == ["instance.health_checking", "instance.ready"]


def test_a_private_image_is_bought_with_the_id_of_its_login(harness: Harness) -> None:
    harness.create(templateId=PRIVATE)

    harness.settle()

    (call,) = harness.simulator.calls("/gpu/instance/create")
    assert call["status"] == 200
    assert call["body"]["imageAuthId"]
    assert "imageAuth" not in call["body"]
    assert harness.simulator.calls("/repository/auths") == []


def test_a_login_that_had_to_be_resolved_is_stored_and_logged_nowhere(harness: Harness) -> None:
    harness.simulator.settings(imageAuthIdAccepted=False)

    with everything_logged() as logged:
        instance_id = harness.create(templateId=PRIVATE, webhookUrl=harness.simulator.inbox_url("hook"))
        harness.settle()
        harness.call("GET", f"/api/instances/{instance_id}")
        harness.sweep()

    refused, taken = harness.simulator.calls("/gpu/instance/create")
    said = [call.params for call in harness.wire.calls if not call.name.startswith("novita POST")]
    kept = as_text(harness.items()) + as_text(said) + json.dumps(harness.simulator.inbox("hook"))
    assert (refused["status"], taken["status"]) == (400, 200)
    assert "imageAuth" in taken["body"]
    assert "imageAuthId" not in taken["body"]
    assert harness.record(instance_id).status is Status.RUNNING
    assert PASSWORD not in kept
    assert PASSWORD not in logged.getvalue()
    assert "purchase" in logged.getvalue()


def test_a_login_that_is_gone_fails_the_instance_and_buys_nothing(harness: Harness) -> None:
    instance_id = harness.create(templateId="107679")

    harness.settle()

    record = harness.record(instance_id)
    assert record.status is Status.FAILED
    assert record.error is not None
    assert record.error.code == "REGISTRY_AUTH_NOT_FOUND"
    assert harness.simulator.instances() == []


def test_a_product_that_sold_out_after_the_request_is_bought_when_it_is_back(harness: Harness) -> None:
    instance_id = harness.create()
    put_on_sale(harness.simulator, available=False)

    harness.run(120)
    waiting, bought = harness.record(instance_id), harness.simulator.instances()
    put_on_sale(harness.simulator, available=True)
    harness.settle()

    assert waiting.status is Status.CREATING
    assert waiting.waiting is not None
    assert waiting.waiting.code == "NO_OPTIMAL_PRODUCT_ANY_REGION"
    assert bought == []
    assert harness.record(instance_id).status is Status.RUNNING
    assert len(harness.simulator.instances()) == 1


def test_a_product_that_stays_sold_out_fails_at_the_deadline_with_the_reason(build: Build) -> None:
    harness = build(PURCHASE_MAX_WAIT="100")
    instance_id = harness.create()
    began = harness.now()
    put_on_sale(harness.simulator, available=False)

    harness.settle()

    record = harness.record(instance_id)
    assert record.status is Status.FAILED
    assert record.error is not None
    assert record.error.code == "NO_OPTIMAL_PRODUCT_ANY_REGION"
    assert "RTX 4090 24GB" in record.error.message
    assert timedelta(seconds=100) <= record.updated_at - began < timedelta(seconds=101)
    assert harness.simulator.instances() == []
    assert harness.history(instance_id) == ["instance.creating", "instance.failed"]


def test_an_offer_refused_for_capacity_leads_to_the_next_one(harness: Harness) -> None:
    harness.simulator.fault(
        "status", "/gpu/instance/create", status=400, reason="INSUFFICIENT_RESOURCE", times=2
    )
    instance_id = harness.create()

    harness.settle()

    orders = [call["body"] for call in harness.simulator.calls("/gpu/instance/create")]
    assert [(order["productId"], order["clusterId"]) for order in orders] == [
        ("4090.16c62g", "cn-hongkong-1"),
        ("4090.18c96g", "cn-hongkong-1"),
        ("4090.24c128g", "as-sgp-2"),
    ]
    assert harness.record(instance_id).machine.region == "AS-SGP-02"
    assert harness.record(instance_id).status is Status.RUNNING


def test_offers_that_are_all_refused_for_capacity_are_tried_again_later(harness: Harness) -> None:
    harness.simulator.fault("status", "/gpu/instance/create", status=400, reason="INSUFFICIENT_RESOURCE")
    instance_id = harness.create()

    harness.run(100)
    tried = len(harness.simulator.calls("/gpu/instance/create"))
    harness.simulator.clear_faults()
    harness.settle()

    assert 5 <= tried <= 10, "each of the five offers at most once a minute"
    assert harness.record(instance_id).status is Status.RUNNING


def test_novita_failing_for_a_while_delays_the_purchase_and_no_more(harness: Harness) -> None:
    instance_id = harness.create()
    harness.simulator.fault("status", status=503)

    harness.run(100)
    during = harness.record(instance_id)
    harness.simulator.clear_faults()
    harness.settle()

    assert during.status is Status.CREATING
    assert during.waiting is not None
    assert during.purchases.count == 0, "nothing is bought while nothing can be looked up"
    assert harness.record(instance_id).status is Status.RUNNING
    assert len(harness.simulator.calls("/gpu/instance/create")) == 1


def test_novita_failing_while_the_machine_boots_changes_nothing(harness: Harness) -> None:
    harness.simulator.settings(bootSeconds=60)
    instance_id = harness.create()
    harness.run(31)
    harness.simulator.fault("status", status=500)

    harness.run(150)
    during = harness.record(instance_id)
    harness.simulator.clear_faults()
    harness.settle()

    assert during.status is Status.STARTING
    assert harness.record(instance_id).status is Status.RUNNING


@pytest.mark.parametrize("kind", ["disconnect", "status", "garbage"])
def test_a_create_is_accepted_while_novita_is_down_and_says_so(harness: Harness, kind: str) -> None:
    harness.simulator.fault(kind)  # type: ignore[arg-type]  # kind is one of them

    status, answer = harness.call(
        "POST", "/api/instances", {"name": "a", "productName": "RTX 4090 24GB", "templateId": 107672}
    )
    harness.simulator.clear_faults()
    harness.settle()

    assert (status, answer["status"]) == (201, "creating")
    assert "Novita could not be asked" in answer["message"]
    assert harness.record(answer["instanceId"]).status is Status.RUNNING


def test_a_purchase_that_novita_never_lets_happen_fails_at_the_deadline(build: Build) -> None:
    harness = build(PURCHASE_MAX_WAIT="200")
    harness.simulator.fault("disconnect")
    instance_id = harness.create()

    harness.settle()

    record = harness.record(instance_id)
    assert record.status is Status.FAILED
    assert record.error is not None
    assert record.error.code in ("NOVITA_UNAVAILABLE", "CIRCUIT_BREAKER_OPEN")
    assert record.error.message.startswith("No machine was bought in time")
    assert harness.simulator.instances() == []


def test_a_machine_that_does_not_boot_in_time_is_given_back(harness: Harness) -> None:
    harness.simulator.settings(bootSeconds=10_000)
    instance_id = harness.create(maxWaitTime=60_000)
    began = harness.now()

    harness.run(90)
    failed = harness.record(instance_id)
    harness.settle()

    assert failed.status is Status.FAILED
    assert failed.error is not None
    assert failed.error.code == "STARTUP_TIMEOUT"
    assert timedelta(seconds=60) <= failed.updated_at - began < timedelta(seconds=62)
    assert [task.action for task in failed.cleanup.tasks] == ["delete"]
    assert not failed.at_rest
    assert harness.simulator.live() == []
    assert harness.record(instance_id).at_rest


def test_a_machine_that_does_not_boot_in_time_is_kept_where_the_request_says_so(harness: Harness) -> None:
    harness.simulator.settings(bootSeconds=10_000)
    instance_id = harness.create(maxWaitTime=60_000, onFailure="keep")

    harness.settle()

    record = harness.record(instance_id)
    assert record.status is Status.FAILED
    assert [machine["id"] for machine in harness.simulator.live()] == [record.machine.id]
    assert harness.simulator.calls("/gpu/instance/delete") == []


def test_without_money_the_instance_fails_at_once_and_says_why(harness: Harness) -> None:
    harness.simulator.settings(balanceEnough=False)
    instance_id = harness.create()

    harness.settle()

    record = harness.record(instance_id)
    assert record.status is Status.FAILED
    assert record.error is not None
    assert record.error.code == "NOVITA_REJECTED"
    assert "BALANCE_NOT_ENOUGH" in record.error.message
    assert len(harness.simulator.calls("/gpu/instance/create")) == 1
    assert harness.history(instance_id) == ["instance.creating", "instance.failed"]


def test_a_machine_not_found_right_after_it_was_bought_is_not_taken_as_gone(harness: Harness) -> None:
    harness.simulator.settings(getLagSeconds=100, listLagSeconds=100)
    instance_id = harness.create()

    harness.settle()

    assert harness.record(instance_id).status is Status.RUNNING
    assert harness.record(instance_id).cleanup.gone == ()
