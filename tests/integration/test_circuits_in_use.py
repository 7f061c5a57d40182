"""The shared circuits in the real path: the client, the table and the simulator together."""

from typing import Any

import pytest

from functions.shared.domain.status import Status
from tests.integration.conftest import Build
from tests.integration.world import World

CREATE = "/gpu/instance/create"


@pytest.fixture
def world(build: Build) -> World:
    return build(BREAKER_CACHE_SECONDS="0", SETTLE_SECONDS="60")


def _states(world: World) -> dict[str, str]:
    _, answer = world.call("GET", "/api/circuits")
    return {circuit["name"]: circuit["state"] for circuit in answer["circuits"]}


def _some(world: World, count: int) -> list[str]:
    made = [world.create(name=f"one-{number}") for number in range(count)]
    while world.deliver():
        pass
    return made


def _paths(calls: list[dict[str, Any]]) -> list[str]:
    return [call["path"].rpartition("/v1")[2] for call in calls]


def test_failing_purchases_open_their_own_circuit_and_reads_go_on(world: World) -> None:
    world.simulator.fault("status", CREATE, status=500, reason="UNKNOWN")

    made = _some(world, 6)

    assert _states(world) == {"reads": "CLOSED", "buys": "OPEN", "actions": "CLOSED"}
    assert len(world.simulator.calls(CREATE)) == 5, "the sixth was not sent"
    world.simulator.clear_faults()
    world.settle()
    assert {world.record(one).status for one in made} == {Status.RUNNING}
    assert _states(world)["buys"] == "CLOSED"


def test_an_open_purchase_circuit_is_probed_by_reads_and_never_by_a_purchase(world: World) -> None:
    world.simulator.fault("status", CREATE, status=500, reason="UNKNOWN")
    _some(world, 6)
    world.simulator.clear_calls()

    world.simulator.clear_faults()
    world.settle()

    paths = _paths(world.simulator.calls())
    before_the_first_purchase = paths[: paths.index(CREATE)]
    assert before_the_first_purchase.count("/clusters") >= 2, "two good probes come before any purchase"


def test_refusals_of_novita_never_open_a_circuit(world: World) -> None:
    world.simulator.fault("status", CREATE, status=400, reason="BALANCE_NOT_ENOUGH")

    made = _some(world, 8)
    world.settle()

    assert {world.record(one).status for one in made} == {Status.FAILED}
    assert len(world.simulator.calls(CREATE)) == 8
    assert set(_states(world).values()) == {"CLOSED"}


def test_a_delete_goes_out_while_the_circuit_is_open(world: World) -> None:
    kept, *others = _some(world, 6)
    world.settle()
    for one in others:
        world.call("POST", f"/api/instances/{one}/stop")
    world.settle()
    world.simulator.fault("status", "/gpu/instance/start", status=503)
    for one in others:
        world.call("POST", f"/api/instances/{one}/start", {})
    while world.deliver():
        pass
    assert _states(world)["actions"] == "OPEN"
    world.simulator.clear_calls()

    world.call("DELETE", f"/api/instances/{kept}")
    while world.deliver():
        pass

    assert "/gpu/instance/delete" in _paths(world.simulator.calls(method="POST"))
    assert _states(world)["actions"] == "OPEN", "and it moves nothing"
    world.simulator.clear_faults()
    world.settle()


def test_a_purchase_waits_while_the_table_does_not_say_whether_it_may(world: World) -> None:
    instance_id = world.create()
    world.wiring.circuits._table = "no-such-table"

    while world.deliver():
        pass

    assert world.simulator.calls(CREATE) == []
    assert world.record(instance_id).status is Status.CREATING
    world.restart()
    world.settle()
    assert world.record(instance_id).status is Status.RUNNING
