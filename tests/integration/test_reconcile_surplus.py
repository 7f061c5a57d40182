"""Machines with our mark that are one too many, or turn up late."""

import pytest

from functions.shared.domain.instance.status import Status
from tests.integration.conftest import Build
from tests.integration.harness import Harness
from tests.integration.sweeps import LONG, listing, live, machine_of, put, put_bought, running, states


def test_a_second_machine_is_deleted_and_announced_once(harness: Harness) -> None:
    (instance_id,) = running(harness)
    own = machine_of(harness, instance_id)
    second = put_bought(harness, instance_id, purchase=2)
    harness.advance(5)

    for _ in range(3):
        harness.sweep()
    harness.settle()

    assert live(harness) == {own}
    assert harness.record(instance_id).status is Status.RUNNING
    told = [one for one in harness.wiring.instances.events(instance_id) if one.type == "orphan.detected"]
    assert [one.reason for one in told] == [f"surplus machine {second} is being deleted"]


def test_what_is_back_is_given_back_by_the_sweep_that_also_sees_its_instance_change(harness: Harness) -> None:
    (instance_id,) = running(harness)
    second = put_bought(harness, instance_id, purchase=2)
    harness.advance(5)
    harness.simulator.hide(second)
    harness.simulator.fault("stale", path="/gpu/instances", ageSeconds=3, times=1)
    harness.sweep()
    harness.settle()
    assert second in harness.record(instance_id).cleanup.gone
    harness.simulator.show(second)
    harness.simulator.patch_instance(machine_of(harness, instance_id), status="exited")
    harness.advance(200)

    harness.sweep()

    record = harness.record(instance_id)
    assert (record.status, bool(record.cleanup.task(second))) == (Status.EXITED, True)
    harness.settle()
    assert live(harness) == {machine_of(harness, instance_id)}


@pytest.mark.parametrize("purchase", [1, 7])
def test_a_machine_with_its_mark_is_adopted_by_an_instance_that_has_none(
    harness: Harness, purchase: int
) -> None:
    """Also where the table has forgotten the purchase, and a second one is not made."""
    harness.simulator.fault("status", path="/gpu/instance/create", status=500, reason="UNKNOWN")
    instance_id = harness.create(templateId="107677")  # without ports, as the machine made by hand
    while harness.deliver():
        pass
    harness.advance(LONG)
    found = put(harness, instance_id, purchase)
    harness.advance(5)

    harness.sweep()
    harness.simulator.clear_faults()
    harness.settle()

    record = harness.record(instance_id)
    assert (record.status, record.machine.id) == (Status.RUNNING, found)
    assert live(harness) == {found}
    assert record.purchases.count >= purchase


def test_a_machine_that_turns_up_on_a_terminated_instance_is_deleted(harness: Harness) -> None:
    (instance_id,) = running(harness)
    harness.call("DELETE", f"/api/instances/{instance_id}")
    harness.settle()
    late = put_bought(harness, instance_id, purchase=2)
    harness.advance(5)

    harness.sweep()
    assert not harness.record(instance_id).at_rest
    harness.settle()

    assert live(harness) == set()
    assert harness.record(instance_id).status is Status.TERMINATED
    assert late in harness.record(instance_id).cleanup.gone


def test_a_machine_that_turns_up_on_a_failed_instance_is_deleted(build: Build) -> None:
    harness = build(PURCHASE_MAX_WAIT="60")
    instance_id = harness.create()
    harness.simulator.fault("status", path="/products", status=503)
    harness.restart()
    harness.advance(700)
    harness.settle()
    assert harness.record(instance_id).status is Status.FAILED
    harness.simulator.clear_faults()
    put_bought(harness, instance_id)
    harness.advance(100)

    harness.sweep()
    harness.settle()

    assert live(harness) == set()
    assert harness.record(instance_id).status is Status.FAILED


def test_a_machine_that_turns_up_while_its_instance_is_deleted_is_deleted_too(harness: Harness) -> None:
    (instance_id,) = running(harness)
    put_bought(harness, instance_id, purchase=2)
    harness.call("DELETE", f"/api/instances/{instance_id}")
    harness.advance(5)

    harness.sweep()
    harness.settle()

    assert live(harness) == set()
    assert harness.record(instance_id).status is Status.TERMINATED


def _imported(harness: Harness) -> str:
    machine = harness.simulator.put_instance(status="running", ageSeconds=LONG)
    status, answer = harness.call("POST", "/api/instances/import", {"novitaInstanceId": machine["id"]})
    assert status == 201
    harness.advance(LONG)
    return str(answer["instanceId"])


@pytest.mark.parametrize("by_import", [False, True])
def test_a_machine_that_vanished_and_is_back_is_told_of_and_kept_and_can_be_imported(
    harness: Harness, by_import: bool
) -> None:
    """Novita denied it for long enough to be believed; nobody here had asked for its end. One that was
    imported has no mark."""
    (instance_id,) = running(harness, 0 if by_import else 1) or (_imported(harness),)
    machine_id = machine_of(harness, instance_id)
    harness.simulator.fault(
        "status", path="/gpu/instance", method="GET", status=400, reason="RESOURCE_NOT_FOUND"
    )
    with listing(harness, []):
        harness.sweep()
        harness.settle()
    harness.simulator.clear_faults()
    assert harness.record(instance_id).status is Status.TERMINATED

    for _ in range(3):
        harness.sweep()
        harness.settle()
        harness.advance(60)

    assert live(harness) == {machine_id}
    assert harness.record(instance_id).at_rest
    assert harness.history(instance_id).count("orphan.detected") == 1
    assert harness.simulator.calls("/gpu/instance/delete") == []
    status, imported = harness.call("POST", "/api/instances/import", {"novitaInstanceId": machine_id})
    assert (status, imported["status"]) == (201, "running")
    again, _ = harness.call("POST", "/api/instances/import", {"novitaInstanceId": machine_id})
    assert again == 409


def test_a_machine_that_was_deleted_and_is_there_all_the_same_is_deleted_again(harness: Harness) -> None:
    (instance_id,) = running(harness)
    machine_id = machine_of(harness, instance_id)
    harness.simulator.fault("status", "/gpu/instance/delete", status=400, reason="RESOURCE_NOT_FOUND")
    harness.simulator.fault(
        "status", path="/gpu/instance", method="GET", status=400, reason="RESOURCE_NOT_FOUND"
    )
    harness.call("DELETE", f"/api/instances/{instance_id}")
    harness.settle()
    harness.simulator.clear_faults()
    assert harness.record(instance_id).status is Status.TERMINATED
    assert live(harness) == {machine_id}

    harness.sweep()
    harness.settle()

    assert live(harness) == set()
    assert harness.record(instance_id).at_rest


@pytest.mark.parametrize("count", [1, 3, 8])
def test_a_gateway_that_has_lost_its_routes_ends_nothing(harness: Harness, count: int) -> None:
    """404 without a reason, for four minutes, while everybody reads and sweeps: it is no answer."""
    instances = running(harness, count)
    before = {id_: harness.record(id_).status for id_ in instances}
    harness.simulator.fault(
        "garbage",
        status=404,
        body='{"code": 404, "message": "route not found"}',
        contentType="application/json",
    )
    for _ in range(8):
        for instance_id in instances:
            _, shown = harness.call("GET", f"/api/instances/{instance_id}")
            assert (shown["status"], shown["stale"]) == ("running", True)
        harness.sweep()
        harness.run(30)

    harness.simulator.clear_faults()
    harness.run(600)
    harness.settle()

    assert {id_: harness.record(id_).status for id_ in instances} == before
    assert len(live(harness)) == count
    assert harness.simulator.calls(method="POST") == []


def test_a_list_that_still_shows_what_is_gone_changes_nothing(harness: Harness) -> None:
    (instance_id,) = running(harness)
    harness.call("DELETE", f"/api/instances/{instance_id}")
    harness.settle()
    harness.simulator.settings(listLagSeconds=200)
    listed = harness.wiring.novita.list(within=5)
    before = states(harness)

    counts = harness.sweep()

    assert [one.status for one in listed] == ["running"]
    assert (counts["surplus"], counts["changed"]) == (0, 0)
    assert states(harness) == before
