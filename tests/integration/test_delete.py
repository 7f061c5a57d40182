"""Deleting: in the end no machine is left, at whatever moment it is asked for and whatever Novita hides."""

from functools import partial
from typing import Any

import pytest

from functions.shared.domain.instance.record import PurchaseOutcome
from functions.shared.domain.instance.status import Status
from tests.integration.conftest import Build
from tests.integration.crash_points import FORGETFUL, Crashes, Interruptions, Point, sides
from tests.integration.harness import Harness
from tests.integration.market import put_on_sale

CREATE = "/gpu/instance/create"
GONE = ["instance.deleting", "instance.terminated"]


@pytest.fixture
def harness(build: Build) -> Harness:
    made = build(**FORGETFUL | {"SETTLE_SECONDS": "120"})
    made.announcing = False
    return made


def _delete(harness: Harness, instance_id: str) -> dict[str, Any]:
    status, answer = harness.call("DELETE", f"/api/instances/{instance_id}")
    assert status == 202, answer
    accepted: dict[str, Any] = answer
    return accepted


def test_a_delete_at_any_moment_of_the_purchase_leaves_no_machine(harness: Harness) -> None:
    harness.wiring.deployment.id()
    harness.create(name="recorded")
    harness.wire.calls.clear()
    harness.deliver()
    found = sides(call for call in harness.wire.calls if call.handler == "create")
    harness.settle()
    deletions = Interruptions(harness)
    ids = []

    for number, point in enumerate(found):
        ids.append(harness.create(name=f"i{number}"))
        deletions.plan(ids[-1], point, partial(_delete, harness, ids[-1]))
        harness.restart()
        harness.deliver()
    deletions.end()
    harness.settle()

    assert len(found) >= 15
    for instance_id, point in zip(ids, found, strict=True):
        assert harness.record(instance_id).status is Status.TERMINATED, point
        assert harness.history(instance_id)[-2:] == GONE, point
        settled = {purchase.outcome for purchase in harness.wiring.instances.purchases(instance_id)}
        assert settled <= {PurchaseOutcome.BOUGHT, PurchaseOutcome.REFUSED, PurchaseOutcome.ABSENT}, point
    assert [machine["name"].partition("-")[0] for machine in harness.simulator.live()] == ["recorded"]


def test_a_delete_before_the_purchase_buys_nothing(harness: Harness) -> None:
    instance_id = harness.create()
    (late,) = harness.receive("create")
    _delete(harness, instance_id)

    harness.settle()
    harness.handle("create", late)
    harness.settle()

    assert harness.record(instance_id).status is Status.TERMINATED
    assert harness.simulator.calls(CREATE) == []


def test_a_delete_while_nothing_is_on_sale_buys_nothing_when_it_is_back(harness: Harness) -> None:
    instance_id = harness.create()
    put_on_sale(harness.simulator, available=False)
    harness.run(45)

    _delete(harness, instance_id)
    put_on_sale(harness.simulator, available=True)
    harness.settle()

    assert harness.record(instance_id).status is Status.TERMINATED
    assert harness.simulator.instances() == []


@pytest.mark.parametrize("lag", [0, 60, 115])
def test_a_delete_while_the_purchase_is_unclear_waits_until_it_is_settled(harness: Harness, lag: int) -> None:
    harness.simulator.settings(listLagSeconds=lag)
    harness.simulator.fault("disconnect", CREATE, commit=True, times=1, match_body='"bought-')
    harness.simulator.fault("disconnect", CREATE, commit=False, times=1, match_body='"not-')
    bought, never = harness.create(name="bought"), harness.create(name="not")
    harness.simulator.fault("status", "/gpu/instances", status=503, times=20)
    harness.deliver()
    harness.simulator.clear_faults()

    _delete(harness, bought)
    _delete(harness, never)
    harness.run(20)
    early = [harness.record(one).status for one in (bought, never)]
    harness.settle()

    assert early == [Status.DELETING, Status.DELETING], "not before the purchase is settled"
    assert [harness.record(one).status for one in (bought, never)] == [Status.TERMINATED] * 2
    assert len(harness.simulator.instances()) == 1
    assert harness.simulator.live() == []
    assert [p.outcome for p in harness.wiring.instances.purchases(bought)] == [PurchaseOutcome.BOUGHT]
    assert [p.outcome for p in harness.wiring.instances.purchases(never)] == [PurchaseOutcome.ABSENT]


def test_a_purchase_that_turns_up_after_everything_was_settled_is_given_back(harness: Harness) -> None:
    harness.simulator.settings(listLagSeconds=400)
    harness.simulator.fault("disconnect", CREATE, commit=True, times=1)
    instance_id = harness.create()
    harness.deliver()
    _delete(harness, instance_id)

    harness.settle()
    terminated, hidden = harness.record(instance_id).status, harness.simulator.live()
    harness.run(400)
    harness.sweep()
    harness.settle()

    assert terminated is Status.TERMINATED
    assert len(hidden) == 1, "the list hid it for longer than the settling time"
    assert harness.simulator.live() == []
    assert harness.record(instance_id).status is Status.TERMINATED


def test_a_delete_while_the_buyer_is_dead_finds_what_it_bought(harness: Harness) -> None:
    instance_id = harness.create()
    crashes = Crashes(harness)
    crashes.plan(instance_id, [Point("create", "novita POST /gpu/instance/create", 1, after=True)])
    harness.deliver()
    crashes.end()

    _delete(harness, instance_id)
    harness.settle()

    assert harness.record(instance_id).status is Status.TERMINATED
    assert len(harness.simulator.instances()) == 1
    assert harness.simulator.live() == []


def test_terminated_is_said_only_when_novita_has_confirmed_it(harness: Harness) -> None:
    harness.simulator.settings(removeSeconds=300)
    instance_id = harness.create()
    harness.settle()
    _delete(harness, instance_id)

    harness.run(290)
    before = (harness.record(instance_id).status, len(harness.simulator.live()))
    harness.settle()

    assert before == (Status.DELETING, 1)
    assert harness.record(instance_id).status is Status.TERMINATED
    assert len(harness.simulator.calls("/gpu/instance/delete")) == 1


def test_a_delete_that_novita_forgets_is_asked_for_again(harness: Harness) -> None:
    instance_id = harness.create()
    harness.settle()
    harness.simulator.fault("garbage", "/gpu/instance/delete", body="empty", times=1)
    _delete(harness, instance_id)

    harness.settle()

    assert harness.record(instance_id).status is Status.TERMINATED
    assert len(harness.simulator.calls("/gpu/instance/delete")) == 2
    assert harness.simulator.live() == []


def test_a_delete_goes_on_while_novita_fails_and_ends_when_it_is_back(harness: Harness) -> None:
    instance_id = harness.create()
    harness.settle()
    _delete(harness, instance_id)
    harness.simulator.fault("status", status=503)

    harness.run(100)
    during = harness.record(instance_id).status
    harness.simulator.clear_faults()
    harness.settle()

    assert during is Status.DELETING
    assert harness.record(instance_id).status is Status.TERMINATED


def test_one_empty_list_and_one_not_found_end_nothing(harness: Harness) -> None:
    instance_id = harness.create()
    harness.settle()
    harness.run(600)
    harness.simulator.fault("garbage", "/gpu/instances", body='{"instances": [], "total": 0}', times=1)
    harness.simulator.fault("status", "/gpu/instance", status=400, reason="RESOURCE_NOT_FOUND", times=1)

    harness.sweep()
    harness.settle()

    assert harness.record(instance_id).status is Status.RUNNING
    assert harness.record(instance_id).cleanup.gone == ()


def test_a_second_delete_changes_nothing_and_gets_the_same_answer(harness: Harness) -> None:
    instance_id = harness.create()
    harness.settle()

    first = _delete(harness, instance_id)
    second = _delete(harness, instance_id)
    harness.settle()
    third = _delete(harness, instance_id)

    assert first["operationId"] == second["operationId"] == third["operationId"]
    assert (first["status"], third["status"]) == ("deleting", "terminated")
    assert harness.history(instance_id).count("instance.deleting") == 1
    assert len(harness.simulator.calls("/gpu/instance/delete")) == 1
