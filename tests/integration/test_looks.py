"""Looks between steps: what comes up is noticed in seconds, and a look that learns nothing writes nothing."""

from collections import Counter
from datetime import datetime, timedelta

import pytest

from functions.shared.domain.instance.status import Status
from functions.shared.domain.messages import LookMessage
from tests.integration.conftest import Build
from tests.integration.harness import Harness
from tests.integration.virtual_workers import VirtualWorkers
from tests.integration.wire import Killed, Made

GET, LIST = "/gpu/instance", "/gpu/instances"
LOOKING = {"LOOK_INTERVAL": "2", "NOVITA_RATE_LIMIT": "100"}
BOOT_SECONDS = 70.0
MANY = 7  # more than the few that are asked for by id


class Looks:
    """The messages for looks that were sent, beside those of steps."""

    def __init__(self, workers: VirtualWorkers) -> None:
        self.sent: list[LookMessage] = []
        send = workers.send

        def noted(queue: str, body: str, delay_seconds: float) -> None:
            if look := LookMessage.from_json(body):
                self.sent.append(look)
            send(queue, body, delay_seconds)

        workers.send = noted  # type: ignore[method-assign]  # it only listens


@pytest.fixture
def looking(build: Build) -> Harness:
    harness = build(**LOOKING)
    harness.simulator.settings(endpointInList=True, bootSeconds=BOOT_SECONDS, listLagSeconds=0)
    return harness


@pytest.fixture
def workers(looking: Harness) -> VirtualWorkers:
    return VirtualWorkers(looking)


def times(harness: Harness, path: str) -> list[float]:
    return [call["time"] for call in harness.simulator.calls(path)]


def most_in_a_minute(moments: list[float]) -> int:
    return max(sum(at <= other < at + 60 for other in moments) for at in moments)


def writes(harness: Harness) -> Counter[str]:
    """By the monitor, without the limiter's, which counts each call."""
    made = (call for call in harness.wire.calls if call.handler == "monitor" and call.writes)
    return Counter(call.name for call in made if "limiter" not in call.name)


def came_up(harness: Harness, ids: list[str]) -> list[datetime]:
    records = [harness.record(one) for one in ids]
    assert {one.status for one in records} == {Status.RUNNING}
    return [one.ready_at for one in records if one.ready_at]


@pytest.mark.parametrize("number", [1, 2, MANY])
def test_machines_that_come_up_are_noticed_within_seconds(
    looking: Harness, workers: VirtualWorkers, number: int
) -> None:
    began = looking.now()
    ids = [looking.create() for _ in range(number)]

    workers.run(BOOT_SECONDS + 15)

    within = timedelta(seconds=BOOT_SECONDS + 2.2 * max(2, number % MANY) + 1)
    assert all(at - began < within for at in came_up(looking, ids))
    assert most_in_a_minute(times(looking, GET) + times(looking, LIST)) <= 30 + number


def test_a_look_that_learns_nothing_writes_nothing(looking: Harness, workers: VirtualWorkers) -> None:
    looking.create()
    workers.run(31.5)  # its first step is over, so that looks are all that there is until the next
    looking.wire.calls.clear()
    looking.simulator.clear_calls()

    workers.run(28)

    assert len(times(looking, GET)) >= 10
    assert writes(looking) == Counter()
    workers.run(30)


def test_a_list_that_shows_nothing_new_is_not_stored(looking: Harness, workers: VirtualWorkers) -> None:
    for _ in range(MANY):
        looking.create()
    workers.run(31.5)
    looking.wire.calls.clear()
    looking.simulator.clear_calls()

    workers.run(27)

    assert len(times(looking, LIST)) >= 10
    assert writes(looking) == Counter()
    workers.run(30)


def test_those_whose_machine_changed_take_their_step_at_once(
    looking: Harness, workers: VirtualWorkers
) -> None:
    looking.simulator.settings(bootSeconds=1000)
    ids = [looking.create() for _ in range(MANY)]
    workers.run(45)
    due = looking.record(ids[3]).next_check_at
    looking.simulator.patch_instance(str(looking.record(ids[3]).machine.id), status="running")

    workers.run(4)

    ready_at = looking.record(ids[3]).ready_at
    assert ready_at
    assert due
    assert ready_at < due - timedelta(seconds=5)
    assert [looking.record(one).status for one in ids].count(Status.RUNNING) == 1
    for one in ids:
        looking.call("DELETE", f"/api/instances/{one}")
    workers.run(300)


@pytest.mark.parametrize("number", [1, MANY])
def test_doubled_messages_plan_no_second_chain(
    looking: Harness, workers: VirtualWorkers, number: int
) -> None:
    """Each moment is planned once, by one step; a doubled look is one look more and sends nothing."""
    workers.copies = 2
    looks = Looks(workers)
    ids = [looking.create() for _ in range(number)]

    workers.run(BOOT_SECONDS + 20)

    came_up(looking, ids)
    moments = Counter(look.number for look in looks.sent)
    assert len(moments) > 20
    assert set(moments.values()) == {1}
    looking.simulator.clear_calls()
    workers.run(120)
    assert looking.simulator.calls() == []


def test_looks_that_are_late_or_for_nobody_ask_nothing_and_change_nothing(
    looking: Harness, workers: VirtualWorkers
) -> None:
    looks = Looks(workers)
    instance_id = looking.create()
    workers.run(BOOT_SECONDS + 20)
    before = looking.record(instance_id)
    looking.simulator.clear_calls()
    looking.wire.calls.clear()

    for look in [looks.sent[0], LookMessage(instance_id, "c", looking.now(), looks.sent[-1].number + 9)]:
        for queue in ("monitor", "create", "startup"):
            workers.send(queue, look.as_json(), 0)
    workers.run(1)

    assert looking.simulator.calls() == []
    assert looking.record(instance_id) == before
    assert not [call for call in looking.wire.calls if call.writes and "record" in call.name]


def test_an_outage_during_looks_fails_nothing(looking: Harness, workers: VirtualWorkers) -> None:
    ids = [looking.create() for _ in range(MANY)]
    workers.run(40)
    looking.simulator.fault("status", path=LIST, status=503, times=3)
    looking.simulator.fault("garbage", path=LIST, body="no JSON", times=2)

    workers.run(BOOT_SECONDS)

    came_up(looking, ids)


@pytest.mark.parametrize("call", ["GetItem looks/planned", "PutItem looks/planned", "SendMessageBatch"])
def test_whoever_dies_planning_looks_delays_them_and_nothing_else(build: Build, call: str) -> None:
    harness = build(**LOOKING)
    harness.simulator.settings(bootSeconds=40)

    def crash_there(made: Made) -> None:
        if made.handler == "create" and made.name.startswith(call):
            harness.wire.before = None
            raise Killed

    harness.wire.before = crash_there
    instance_id = harness.create()
    harness.settle()

    assert harness.wire.before is None, f"never reached: {call}"
    assert harness.record(instance_id).status is Status.RUNNING
    assert harness.history(instance_id) == ["instance.creating", "instance.starting", "instance.running"]
    assert len(harness.simulator.live()) == 1
