"""The shared circuits in the real path: the client, the table and the simulator together."""

from typing import Any

import pytest

from functions.shared.domain.instance.status import Status
from tests.integration.conftest import Build
from tests.integration.harness import Harness

CREATE = "/gpu/instance/create"


@pytest.fixture
def harness(build: Build) -> Harness:
    return build(BREAKER_CACHE_SECONDS="0", SETTLE_SECONDS="60")


def _states(harness: Harness) -> dict[str, str]:
    _, answer = harness.call("GET", "/api/circuits")
    return {circuit["name"]: circuit["state"] for circuit in answer["circuits"]}


def _some(harness: Harness, count: int) -> list[str]:
    made = [harness.create(name=f"one-{number}") for number in range(count)]
    while harness.deliver():
        pass
    return made


def _paths(calls: list[dict[str, Any]]) -> list[str]:
    return [call["path"].rpartition("/v1")[2] for call in calls]


def test_failing_purchases_open_their_own_circuit_and_reads_go_on(harness: Harness) -> None:
    harness.simulator.fault("status", CREATE, status=500, reason="UNKNOWN")

    made = _some(harness, 6)

    assert _states(harness) == {"reads": "CLOSED", "buys": "OPEN", "actions": "CLOSED"}
    assert len(harness.simulator.calls(CREATE)) == 5, "the sixth was not sent"
    harness.simulator.clear_faults()
    harness.settle()
    assert {harness.record(one).status for one in made} == {Status.RUNNING}
    assert _states(harness)["buys"] == "CLOSED"


def test_an_open_purchase_circuit_is_probed_by_reads_and_never_by_a_purchase(harness: Harness) -> None:
    harness.simulator.fault("status", CREATE, status=500, reason="UNKNOWN")
    _some(harness, 6)
    harness.simulator.clear_calls()

    harness.simulator.clear_faults()
    harness.settle()

    paths = _paths(harness.simulator.calls())
    before_the_first_purchase = paths[: paths.index(CREATE)]
    assert before_the_first_purchase.count("/clusters") >= 2, "two good probes come before any purchase"


def test_refusals_of_novita_never_open_a_circuit(harness: Harness) -> None:
    harness.simulator.fault("status", CREATE, status=400, reason="BALANCE_NOT_ENOUGH")

    made = _some(harness, 8)
    harness.settle()

    assert {harness.record(one).status for one in made} == {Status.FAILED}
    assert len(harness.simulator.calls(CREATE)) == 8
    assert set(_states(harness).values()) == {"CLOSED"}


def test_a_delete_goes_out_while_the_circuit_is_open(harness: Harness) -> None:
    kept, *others = _some(harness, 6)
    harness.settle()
    for one in others:
        harness.call("POST", f"/api/instances/{one}/stop")
    harness.settle()
    harness.simulator.fault("status", "/gpu/instance/start", status=503)
    for one in others:
        harness.call("POST", f"/api/instances/{one}/start", {})
    while harness.deliver():
        pass
    assert _states(harness)["actions"] == "OPEN"
    harness.simulator.clear_calls()

    harness.call("DELETE", f"/api/instances/{kept}")
    while harness.deliver():
        pass

    assert "/gpu/instance/delete" in _paths(harness.simulator.calls(method="POST"))
    assert _states(harness)["actions"] == "OPEN", "and it moves nothing"
    harness.simulator.clear_faults()
    harness.settle()


def test_a_purchase_waits_while_the_table_does_not_say_whether_it_may(harness: Harness) -> None:
    instance_id = harness.create()
    harness.wiring.circuits._table = "no-such-table"

    while harness.deliver():
        pass

    assert harness.simulator.calls(CREATE) == []
    assert harness.record(instance_id).status is Status.CREATING
    harness.restart()
    harness.settle()
    assert harness.record(instance_id).status is Status.RUNNING
