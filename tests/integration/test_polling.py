"""Shared polling: one read of Novita's list serves every instance that is due, and misleads none of them."""

from collections import Counter
from datetime import timedelta

import pytest

from functions.shared.domain.instance.boot_times import BootTime
from functions.shared.domain.instance.status import Status
from tests.integration.conftest import Build
from tests.integration.harness import Harness
from tests.integration.wire import Killed, Made

GET, LIST = "novita GET /gpu/instance", "novita GET /gpu/instances"
ALWAYS_SHARED = {"SHARE_LIST_FROM": "1"}
LOOKING = ("monitor",)
MANY = 7  # more than the few that are asked for by id


def looks(harness: Harness) -> Counter[str]:
    made = (call.name for call in harness.wire.calls if call.handler in LOOKING)
    return Counter(name for name in made if name in (GET, LIST))


@pytest.fixture
def shared(build: Build) -> Harness:
    harness = build(**ALWAYS_SHARED)
    harness.simulator.settings(endpointInList=True, bootSeconds=70)
    return harness


def test_many_that_are_due_share_one_read_and_none_is_asked_for_alone(harness: Harness) -> None:
    harness.simulator.settings(endpointInList=True, bootSeconds=70)
    ids = [harness.create() for _ in range(MANY)]

    harness.settle()

    assert {harness.record(one).status for one in ids} == {Status.RUNNING}
    assert looks(harness)[GET] == 0
    # From the first look, after 30 s, to the last, and none sooner than 4 s after the one before.
    assert looks(harness)[LIST] <= (75 - 30) / 4 + 2


def test_a_list_without_endpoints_costs_one_get_for_each_that_has_come_up(harness: Harness) -> None:
    harness.simulator.settings(bootSeconds=70)
    ids = [harness.create() for _ in range(MANY)]

    harness.settle()

    assert {harness.record(one).status for one in ids} == {Status.RUNNING}
    assert all(harness.record(one).machine.endpoints for one in ids)
    assert looks(harness)[GET] == MANY


def test_a_few_are_asked_for_by_id(harness: Harness) -> None:
    ids = [harness.create() for _ in range(3)]

    harness.settle()

    assert looks(harness)[LIST] == 0
    assert looks(harness)[GET] == len(ids)


def test_a_machine_that_was_just_bought_is_not_looked_at(harness: Harness) -> None:
    harness.create()

    harness.deliver()

    assert [made.name for made in harness.wire.calls if made.name in (GET, LIST)] == []
    harness.settle()


def test_an_instance_missing_from_the_list_is_asked_for_and_not_given_up(shared: Harness) -> None:
    shared.simulator.fault("garbage", path="/gpu/instances", body='{"instances": [], "total": 0}')
    instance_id = shared.create()

    shared.run(65)

    record = shared.record(instance_id)
    assert (record.status, record.machine.first_missed_at, record.machine.needs_look) == (
        Status.STARTING,
        None,
        False,
    )
    assert looks(shared)[GET] >= 1
    shared.settle()
    assert shared.record(instance_id).status is Status.RUNNING


def test_a_list_that_lags_does_not_make_a_restart_end_before_it_began(build: Build) -> None:
    """For 40 s it goes on showing the machine as it ran before."""
    harness = build(**ALWAYS_SHARED)
    harness.simulator.settings(endpointInList=True, restartSeconds=50, listLagSeconds=40)
    instance_id = harness.create()
    harness.settle()
    harness.advance(100)
    _, answer = harness.call("POST", f"/api/instances/{instance_id}/restart")
    began = harness.now()

    harness.settle()

    _, operation = harness.call("GET", f"/api/operations/{answer['operationId']}")
    assert operation["status"] == "completed"
    assert harness.now() - began >= timedelta(seconds=50)
    assert harness.record(instance_id).status is Status.READY


def test_a_list_from_before_the_last_action_is_not_used(build: Build) -> None:
    harness = build(**ALWAYS_SHARED, LIST_TTL="60", LIST_LAG_SECONDS="0", INSTANCE_POLL_INTERVAL="2")
    harness.simulator.settings(endpointInList=True, stopSeconds=30, listLagSeconds=0, bootSeconds=1)
    instance_id = harness.create()
    harness.settle()
    harness.wiring.shared_list.shared(5, None)  # it shows the machine running
    harness.call("POST", f"/api/instances/{instance_id}/stop")
    harness.wire.calls.clear()

    harness.run(20)

    assert looks(harness)[GET] + looks(harness)[LIST] >= 1
    assert harness.record(instance_id).status is Status.STOPPING
    harness.settle()
    assert harness.record(instance_id).status is Status.STOPPED


def test_a_delete_is_confirmed_by_gets_however_the_list_looks(shared: Harness) -> None:
    instance_id = shared.create()
    shared.settle()
    shared.call("DELETE", f"/api/instances/{instance_id}")
    shared.wire.calls.clear()

    shared.settle()

    assert shared.record(instance_id).status is Status.TERMINATED
    assert looks(shared)[GET] >= 2  # not found twice


def test_without_novita_a_shared_look_is_put_off_and_nothing_fails(shared: Harness) -> None:
    instance_id = shared.create()
    shared.run(5)
    shared.simulator.fault("status", path="/gpu/instances", status=503, times=3)

    shared.run(32)

    assert shared.record(instance_id).waiting
    shared.settle()
    assert shared.record(instance_id).status is Status.RUNNING


def test_while_another_process_reads_the_list_a_look_is_put_off(shared: Harness) -> None:
    instance_id = shared.create()
    shared.run(5)
    token = shared.record(instance_id).token
    held = shared.wiring.shared_list._take(60)
    assert held

    shared.run(40)

    assert looks(shared) == {}
    assert shared.record(instance_id).token != token
    assert shared.record(instance_id).status is Status.STARTING
    shared.wiring.shared_list._release(held)
    shared.settle()
    assert shared.record(instance_id).status is Status.RUNNING


def test_a_reader_may_die_at_any_call_and_every_instance_comes_up_all_the_same(shared: Harness) -> None:
    shared.create()
    shared.settle()
    made = [call.name for call in shared.wire.calls if call.handler == "monitor"]
    crashes = sorted({(name, made.index(name)) for name in made}, key=lambda crash: crash[1])
    assert LIST in dict(crashes)

    for name, _ in crashes:

        def crash_there(call: Made, at: str = name) -> None:
            if call.handler == "monitor" and call.name == at:
                shared.wire.before = None
                raise Killed

        shared.wire.before = crash_there
        instance_id = shared.create()
        shared.settle()
        assert shared.wire.before is None, f"never reached: {name}"
        assert shared.record(instance_id).status is Status.RUNNING, name
        assert shared.history(instance_id) == ["instance.creating", "instance.starting", "instance.running"]
    shared.assert_books_balance()


def test_lost_messages_delay_shared_looks_and_nothing_else(shared: Harness) -> None:
    ids = [shared.create() for _ in range(3)]

    shared.settle(only_sweeps=True)

    assert {shared.record(one).status for one in ids} == {Status.RUNNING}


def test_boots_are_learned_and_the_next_step_is_when_it_may_be_up(harness: Harness) -> None:
    harness.simulator.settings(bootSeconds=100)
    for _ in range(5):
        harness.create()
        harness.settle()
    instance_id = harness.create()
    harness.deliver()

    record = harness.record(instance_id)
    assert record.machine.boot
    assert record.machine.boot.median_seconds == pytest.approx(100, rel=0.2)
    assert record.machine.acted_at
    assert record.next_check_at
    assert record.next_check_at - record.machine.acted_at > timedelta(seconds=45)
    harness.settle()


def test_a_boot_much_quicker_than_usual_is_noticed_by_the_next_sweep(harness: Harness) -> None:
    """Also where the list has no endpoints: what it shows running is asked for at once."""
    harness.simulator.settings(bootSeconds=20)
    first = harness.create()
    harness.settle()
    known = harness.record(first)
    for _ in range(60):
        harness.wiring.boot_times.learn(
            BootTime("create", str(known.machine.product_id), str(known.machine.region), 900.0)
        )
    instance_id = harness.create()
    harness.deliver()
    due = harness.record(instance_id).next_check_at
    assert due
    assert due > harness.now() + timedelta(seconds=90)

    harness.advance(60)
    harness.sweep()
    harness.deliver()

    assert harness.record(instance_id).status is Status.RUNNING
