"""Shared polling: one read of Novita's list serves every instance that is due, and misleads none of them."""

from collections import Counter
from datetime import timedelta

import pytest

from functions.shared.domain.estimate import Booted
from functions.shared.domain.status import Status
from tests.integration.conftest import Build
from tests.integration.wire import Killed, Made
from tests.integration.world import World

GET, LIST = "novita GET /gpu/instance", "novita GET /gpu/instances"
ALWAYS_SHARED = {"SHARE_LIST_FROM": "1"}
LOOKING = ("monitor", "startup")
MANY = 7  # more than the six that share a list


def looks(world: World) -> Counter[str]:
    made = (call.name for call in world.wire.calls if call.handler in LOOKING)
    return Counter(name for name in made if name in (GET, LIST))


@pytest.fixture
def shared(build: Build) -> World:
    world = build(**ALWAYS_SHARED)
    world.simulator.settings(endpointInList=True, bootSeconds=70)
    return world


def test_many_that_are_due_share_one_read_and_none_is_asked_for_alone(world: World) -> None:
    world.simulator.settings(endpointInList=True, bootSeconds=70)
    ids = [world.create() for _ in range(MANY)]

    world.settle()

    assert {world.record(one).status for one in ids} == {Status.RUNNING}
    assert looks(world)[GET] == 0
    # From the first look, after 30 s, to the last, and none sooner than 4 s after the one before.
    assert looks(world)[LIST] <= (75 - 30) / 4 + 2


def test_a_list_without_endpoints_costs_one_get_for_each_that_has_come_up(world: World) -> None:
    world.simulator.settings(bootSeconds=70)
    ids = [world.create() for _ in range(MANY)]

    world.settle()

    assert {world.record(one).status for one in ids} == {Status.RUNNING}
    assert all(world.record(one).endpoints for one in ids)
    assert looks(world)[GET] == MANY


def test_a_few_are_asked_for_by_id(world: World) -> None:
    ids = [world.create() for _ in range(3)]

    world.settle()

    assert looks(world)[LIST] == 0
    assert looks(world)[GET] == len(ids)


def test_a_machine_that_was_just_bought_is_not_looked_at(world: World) -> None:
    world.create()

    world.deliver()

    assert [made.name for made in world.wire.calls if made.name in (GET, LIST)] == []
    world.settle()


def test_whoever_reads_the_list_tells_those_whose_machine_has_changed(world: World) -> None:
    """They need not wait until they are due themselves."""
    world.simulator.settings(endpointInList=True, bootSeconds=1000, listLagSeconds=0)
    ids = [world.create() for _ in range(MANY)]
    world.run(45)
    machine = str(world.record(ids[3]).machine_id)
    due = world.record(ids[3]).next_check_at
    world.simulator.patch_instance(machine, status="running")

    world.run(5)

    ready_at = world.record(ids[3]).ready_at
    assert ready_at
    assert due
    assert ready_at < due - timedelta(seconds=5)
    for one in ids:
        world.call("DELETE", f"/api/instances/{one}")
    world.settle()


def test_an_instance_missing_from_the_list_is_asked_for_and_not_given_up(shared: World) -> None:
    shared.simulator.fault("garbage", path="/gpu/instances", body='{"instances": [], "total": 0}')
    instance_id = shared.create()

    shared.run(65)

    record = shared.record(instance_id)
    assert (record.status, record.missing_at, record.doubted) == (Status.STARTING, None, False)
    assert looks(shared)[GET] >= 1
    shared.settle()
    assert shared.record(instance_id).status is Status.RUNNING


def test_a_list_that_lags_does_not_make_a_restart_end_before_it_began(build: Build) -> None:
    """For 40 s it goes on showing the machine as it ran before."""
    world = build(**ALWAYS_SHARED)
    world.simulator.settings(endpointInList=True, restartSeconds=50, listLagSeconds=40)
    instance_id = world.create()
    world.settle()
    world.advance(100)
    _, answer = world.call("POST", f"/api/instances/{instance_id}/restart")
    began = world.now()

    world.settle()

    _, operation = world.call("GET", f"/api/operations/{answer['operationId']}")
    assert operation["status"] == "completed"
    assert world.now() - began >= timedelta(seconds=50)
    assert world.record(instance_id).status is Status.READY


def test_a_list_from_before_the_last_action_is_not_used(build: Build) -> None:
    world = build(**ALWAYS_SHARED, LIST_TTL="60", LIST_LAG_SECONDS="0", INSTANCE_POLL_INTERVAL="2")
    world.simulator.settings(endpointInList=True, stopSeconds=30, listLagSeconds=0, bootSeconds=1)
    instance_id = world.create()
    world.settle()
    world.wiring.listing.shared(5, None)  # it shows the machine running
    world.call("POST", f"/api/instances/{instance_id}/stop")
    world.wire.calls.clear()

    world.run(20)

    assert looks(world)[GET] + looks(world)[LIST] >= 1
    assert world.record(instance_id).status is Status.STOPPING
    world.settle()
    assert world.record(instance_id).status is Status.STOPPED


def test_a_delete_is_confirmed_by_gets_however_the_list_looks(shared: World) -> None:
    instance_id = shared.create()
    shared.settle()
    shared.call("DELETE", f"/api/instances/{instance_id}")
    shared.wire.calls.clear()

    shared.settle()

    assert shared.record(instance_id).status is Status.TERMINATED
    assert looks(shared)[GET] >= 2  # not found twice


def test_without_novita_a_shared_look_is_put_off_and_nothing_fails(shared: World) -> None:
    instance_id = shared.create()
    shared.run(5)
    shared.simulator.fault("status", path="/gpu/instances", status=503, times=3)

    shared.run(32)

    assert shared.record(instance_id).waiting
    shared.settle()
    assert shared.record(instance_id).status is Status.RUNNING


def test_while_another_process_reads_the_list_a_look_is_put_off(shared: World) -> None:
    instance_id = shared.create()
    shared.run(5)
    token = shared.record(instance_id).token
    held = shared.wiring.listing._take(60)
    assert held

    shared.run(40)

    assert looks(shared) == {}
    assert shared.record(instance_id).token != token
    assert shared.record(instance_id).status is Status.STARTING
    shared.wiring.listing._give_back(held)
    shared.settle()
    assert shared.record(instance_id).status is Status.RUNNING


def test_a_reader_may_die_at_any_call_and_every_instance_comes_up_all_the_same(shared: World) -> None:
    shared.create()
    shared.settle()
    made = [call.name for call in shared.wire.calls if call.handler == "monitor"]
    deaths = sorted({(name, made.index(name)) for name in made}, key=lambda death: death[1])
    assert LIST in dict(deaths)

    for name, _ in deaths:

        def dies(call: Made, at: str = name) -> None:
            if call.handler == "monitor" and call.name == at:
                shared.wire.before = None
                raise Killed

        shared.wire.before = dies
        instance_id = shared.create()
        shared.settle()
        assert shared.wire.before is None, f"never reached: {name}"
        assert shared.record(instance_id).status is Status.RUNNING, name
        assert shared.history(instance_id) == ["instance.creating", "instance.starting", "instance.running"]
    shared.assert_books_balance()


def test_lost_messages_delay_shared_looks_and_nothing_else(shared: World) -> None:
    ids = [shared.create() for _ in range(3)]

    shared.settle(only_sweeps=True)

    assert {shared.record(one).status for one in ids} == {Status.RUNNING}


def test_boots_are_learned_and_the_next_look_is_when_it_is_likely_to_be_up(world: World) -> None:
    world.simulator.settings(bootSeconds=100)
    for _ in range(5):
        world.create()
        world.settle()
    instance_id = world.create()
    world.deliver()

    record = world.record(instance_id)
    assert record.boot
    assert record.boot.median_seconds == pytest.approx(100, rel=0.2)
    assert record.acted_at
    assert record.next_check_at
    assert record.next_check_at - record.acted_at > timedelta(seconds=45)
    world.settle()


def test_a_boot_much_quicker_than_usual_is_noticed_by_the_next_sweep(world: World) -> None:
    """Also where the list has no endpoints: what it shows running is asked for at once."""
    world.simulator.settings(bootSeconds=20)
    first = world.create()
    world.settle()
    known = world.record(first)
    for _ in range(8):
        world.wiring.boots.learn(Booted("create", str(known.product_id), str(known.region), 900.0))
    instance_id = world.create()
    world.deliver()
    due = world.record(instance_id).next_check_at
    assert due
    assert due > world.now() + timedelta(seconds=90)

    world.advance(60)
    world.sweep()
    world.deliver()

    assert world.record(instance_id).status is Status.RUNNING
