"""What ended or stopped an instance is on the record and in the event, for every way; a start clears it."""

from collections.abc import Callable
from typing import Any

import pytest

from functions.shared.domain.instance.limits import EndedBy
from functions.shared.domain.instance.status import Status
from tests.integration.harness import Harness

MINUTE, HOUR = 60.0, 3600.0


def up(harness: Harness, **body: Any) -> str:
    instance_id = harness.create(**body)
    harness.run(5 * MINUTE)
    assert harness.record(instance_id).status is Status.RUNNING
    return instance_id


def machine_of(harness: Harness, instance_id: str) -> str:
    return harness.record(instance_id).machine.id or ""


def sweep_for(harness: Harness, minutes: int) -> None:
    for _ in range(minutes):
        harness.advance(MINUTE)
        harness.sweep()
        harness.run(1)


def by_user(harness: Harness) -> str:
    instance_id = up(harness)
    harness.call("POST", f"/api/instances/{instance_id}/stop", {})
    return instance_id


def by_lifetime(harness: Harness) -> str:
    return up(harness, limits={"stopAfter": "10m"})


def by_idleness(harness: Harness) -> str:
    return up(harness, limits={"idleStopAfter": "10m"})


def by_being_stopped(harness: Harness) -> str:
    instance_id = up(harness, limits={"deleteAfterStopped": "10m"})
    harness.call("POST", f"/api/instances/{instance_id}/stop", {})
    return instance_id


def by_a_budget(harness: Harness) -> str:
    instance_id = up(harness)
    budget = {"limitUsd": "0.01", "period": "month", "action": "stop"}
    assert harness.call("PUT", "/api/budgets/b", budget)[0] == 200
    sweep_for(harness, 25)
    assert harness.call("DELETE", "/api/budgets/b")[0] == 200
    return instance_id


def by_a_reclaim(harness: Harness) -> str:
    instance_id = up(harness)
    harness.simulator.reclaim(machine_of(harness, instance_id), 30)
    sweep_for(harness, 3)
    return instance_id


def by_novita(harness: Harness) -> str:
    instance_id = up(harness)
    harness.simulator.patch_instance(machine_of(harness, instance_id), status="exited")
    sweep_for(harness, 2)
    return instance_id


def by_a_failure(harness: Harness) -> str:
    instance_id = by_user(harness)
    harness.settle()
    _set_stock(harness, 0)
    assert harness.call("POST", f"/api/instances/{instance_id}/start", {})[0] == 202
    harness.settle()
    _set_stock(harness, 9)
    return instance_id


def by_vanishing(harness: Harness) -> str:
    instance_id = up(harness)
    harness.simulator.patch_instance(machine_of(harness, instance_id), status="removed")
    sweep_for(harness, 2)
    harness.run(30 * HOUR)
    return instance_id


def _set_stock(harness: Harness, stock: int) -> None:
    for product in harness.simulator.products():
        harness.simulator.patch_product(product["id"], stock=stock)


ENDS: dict[EndedBy, Callable[[Harness], str]] = {
    EndedBy.USER: by_user,
    EndedBy.LIFETIME: by_lifetime,
    EndedBy.IDLE: by_idleness,
    EndedBy.STOPPED_TOO_LONG: by_being_stopped,
    EndedBy.BUDGET: by_a_budget,
    EndedBy.RECLAIM: by_a_reclaim,
    EndedBy.FAILURE: by_a_failure,
    EndedBy.VANISHED: by_vanishing,
    EndedBy.NOVITA: by_novita,
}


@pytest.mark.parametrize("ended_by", EndedBy)
def test_what_ended_it_is_told_and_a_start_clears_it(harness: Harness, ended_by: EndedBy) -> None:
    instance_id = ENDS[ended_by](harness)
    harness.settle()

    path = f"/api/instances/{instance_id}"
    _, shown = harness.call("GET", path)
    _, told = harness.call("GET", f"{path}/events")
    moves = [one for one in told["events"] if one["type"] == f"instance.{shown['status']}"]
    status, _ = harness.call("POST", f"{path}/start", {"limits": {"stopAfter": None, "idleStopAfter": None}})
    _, started = harness.call("GET", path)
    harness.settle()

    assert shown["endedBy"] == moves[-1]["data"]["endedBy"] == ended_by
    if shown["status"] == "terminated":
        assert (status, started["endedBy"]) == (409, ended_by)
        return
    assert (status, started["status"]) == (202, "starting")
    assert "endedBy" not in started
    _, ready = harness.call("GET", path)
    assert ready["status"] == "ready"
    assert "endedBy" not in ready
    harness.assert_books_balance()
