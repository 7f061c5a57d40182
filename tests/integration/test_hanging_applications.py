"""Applications that hang: nobody else's start, stop or check waits, and none is asked twice at once."""

import re
from datetime import datetime

import pytest

from functions.shared.domain.instance.status import Status
from tests.integration.harness import Harness
from tests.integration.virtual_workers import WORKERS, VirtualNetwork, VirtualWorkers

MANY = 20  # twice as many as there are workers
HANGING = {"timeoutMs": 60_000, "maxWaitTimeMs": 1_800_000}


class Fleet:
    def __init__(self, harness: Harness) -> None:
        self.harness = harness
        self.workers = VirtualWorkers(harness)
        self.hanging: set[str] = set()  # ids of machines
        self.network = VirtualNetwork(
            self.workers, _machine_of, lambda machine_id: machine_id in self.hanging
        )
        harness.wiring.outbound = self.network

    def take_over(self, status: str) -> tuple[str, str]:
        """The ids of the instance and of its machine."""
        machine = self.harness.simulator.put_instance(status=status, ports="80/http")
        _, imported = self.harness.call("POST", "/api/instances/import", {"novitaInstanceId": machine["id"]})
        return imported["instanceId"], machine["id"]

    def operate(self, instance_id: str, what: str, **check: int) -> None:
        body = {"healthCheckConfig": check} if check else None
        status, answer = self.harness.call("POST", f"/api/instances/{instance_id}/{what}", body)
        assert status == 202, answer

    def hang(self, number: int) -> list[str]:
        """So many applications that hang, each of which is being checked after a restart."""
        found = []
        for _ in range(number):
            instance_id, machine_id = self.take_over("running")
            self.hanging.add(machine_id)
            self.operate(instance_id, "restart", **HANGING)
            found.append(instance_id)
        while any(self.harness.record(one).status is not Status.HEALTH_CHECKING for one in found):
            self.workers.run(5)
        return found

    def asked(self, machine_id: str) -> list[datetime]:
        return [at for at, url in self.network.began if _machine_of(url) == machine_id]

    def end(self) -> None:
        """All of them answer, and everything comes to rest."""
        self.hanging.clear()
        while any(not record.at_rest for record in self.harness.records()):
            self.workers.run(30)


def _machine_of(url: str) -> str:
    found = re.search(r"/_sim/app/([^/]+)/", url)
    assert found, url
    return found[1]


@pytest.fixture
def fleet(harness: Harness) -> Fleet:
    return Fleet(harness)


@pytest.mark.parametrize("hanging", [MANY, pytest.param(100, marks=pytest.mark.soak)])
def test_a_start_and_a_stop_reach_novita_at_once_though_applications_hang(fleet: Fleet, hanging: int) -> None:
    (off, _), (on, _) = fleet.take_over("exited"), fleet.take_over("running")
    fleet.hang(hanging)
    assert fleet.network.most_hanging == WORKERS, "all workers wait, when they meet them for the first time"

    fleet.operate(off, "start")
    fleet.operate(on, "stop")
    fleet.workers.run(5)

    assert len(fleet.harness.simulator.calls("/gpu/instance/start")) == 1
    assert len(fleet.harness.simulator.calls("/gpu/instance/stop")) == 1
    fleet.end()


def test_once_they_are_known_they_hold_half_of_the_workers_and_others_are_checked_at_once(
    fleet: Fleet,
) -> None:
    other, machine_id = fleet.take_over("running")
    fleet.hang(MANY)
    fleet.workers.run(15 * MANY / WORKERS)  # each of them has been asked, for 15 s and not for 60
    fleet.network.most_hanging = 0

    fleet.operate(other, "restart")
    while fleet.harness.record(other).status is not Status.READY:
        fleet.workers.run(1)

    events = fleet.harness.call("GET", f"/api/instances/{other}/events")[1]["events"]
    at = {event["type"]: datetime.fromisoformat(event["timestamp"]) for event in events}
    assert (at["instance.ready"] - at["instance.health_checking"]).total_seconds() < 5
    assert len(fleet.asked(machine_id)) == 1
    fleet.workers.run(60)
    assert fleet.network.most_hanging == WORKERS // 2
    fleet.end()


def test_no_application_is_asked_twice_at_once_though_messages_come_twice_and_sweeps_overlap(
    fleet: Fleet,
) -> None:
    fleet.workers.copies = 2
    hanging = fleet.hang(12)

    for seconds in range(0, 240, 20):  # three times as often as the schedule, and two at once
        for _ in range(2):
            fleet.workers.at(seconds, fleet.harness.sweep)
    fleet.workers.run(240)

    assert set(fleet.network.most_open.values()) == {1}
    assert all(len(fleet.asked(machine_id)) >= 2 for machine_id in fleet.hanging)
    assert {fleet.harness.record(one).status for one in hanging} == {Status.HEALTH_CHECKING}
    fleet.end()


def test_nothing_fails_for_want_of_a_slot(fleet: Fleet) -> None:
    """The deadline passes while all of them wait for one; each is asked once more after it."""
    fleet.hang(12)
    short, machine_id = fleet.take_over("running")
    fleet.hanging.add(machine_id)
    fleet.operate(short, "restart", timeoutMs=15_000, maxWaitTimeMs=60_000)
    while fleet.harness.record(short).status is not Status.HEALTH_CHECKING:
        fleet.workers.run(5)
    deadline = fleet.harness.record(short).deadline_at
    assert deadline

    while fleet.harness.record(short).status is Status.HEALTH_CHECKING:
        fleet.workers.run(10)

    assert fleet.harness.record(short).status is Status.FAILED
    assert fleet.asked(machine_id)[-1] >= deadline
    fleet.end()
