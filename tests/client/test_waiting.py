"""Waiting for an instance: what ends it, what does not, and what is told meanwhile."""

import pytest
from ostler.client import Ostler
from ostler.errors import InstanceFailed, InstanceNotFound, WaitTimeout
from ostler.waiting import Progress

from tests.client.conftest import Clock
from tests.client.small_server import LOST, Said, SmallServer, failure

ONE = {"instanceId": "inst_1", "name": "one"}


def test_it_is_up_when_it_is_ready(client: Ostler, server: SmallServer) -> None:
    for status in ("creating", "starting", "running", "health_checking", "ready"):
        server.say(200, {**ONE, "status": status})
    seen: list[str] = []

    def note(progress: Progress) -> None:
        assert progress.instance is not None
        seen.append(progress.instance["status"])

    found = client.wait_until("inst_1", on_progress=note)

    assert found["status"] == "ready"
    assert seen == ["creating", "starting", "running", "health_checking"]


def test_without_a_health_check_running_is_up(client: Ostler, server: SmallServer) -> None:
    server.say(200, {**ONE, "status": "running", "readyAt": "2026-11-18T08:00:00Z"})

    assert client.wait_until("inst_1")["status"] == "running"


def test_running_in_the_middle_of_a_start_is_not_up_yet(client: Ostler, server: SmallServer) -> None:
    running = {**ONE, "status": "running", "readyAt": "2026-11-18T08:00:00Z", "operationId": "op_1"}
    server.say(200, running)
    server.say(200, {"operationId": "op_1", "status": "monitoring"})
    server.say(200, {**running, "status": "ready"})

    assert client.wait_until("inst_1")["status"] == "ready"


def test_a_lost_connection_and_a_service_that_is_down_only_delay_it(
    client: Ostler, server: SmallServer, clock: Clock
) -> None:
    server.say(200, {**ONE, "status": "starting"})
    server.say(LOST)
    server.say(503, failure("SERVICE_UNAVAILABLE", retryable=True, retryAfter=5))
    server.say(200, {**ONE, "status": "ready"})
    problems: list[bool] = []

    client.wait_until("inst_1", on_progress=lambda progress: problems.append(progress.problem is not None))

    assert problems == [False, True, True]
    assert clock.waits == [0.5, 0.5, 5.0]


@pytest.mark.parametrize("status", ["failed", "exited", "stopped", "terminated"])
def test_what_does_not_come_up_any_more_ends_it(client: Ostler, server: SmallServer, status: str) -> None:
    server.say(200, {**ONE, "status": status, "error": {"code": "IMAGE_PULL_FAILED", "message": "denied"}})

    with pytest.raises(InstanceFailed, match="denied"):
        client.wait_until("inst_1")


def test_an_instance_that_is_not_there_ends_it(client: Ostler, server: SmallServer) -> None:
    server.say(404, failure("INSTANCE_NOT_FOUND"))

    with pytest.raises(InstanceNotFound):
        client.wait_until("inst_1")


def test_it_waits_as_long_as_it_may_and_no_longer(client: Ostler, server: SmallServer, clock: Clock) -> None:
    server.otherwise = lambda _: Said(200, {**ONE, "status": "creating"})

    with pytest.raises(WaitTimeout, match="it is creating"):
        client.wait_until("inst_1", timeout=9)

    assert sum(clock.waits) == pytest.approx(9)
    assert max(clock.waits) <= 2, "the longest pause between two looks"


def test_what_it_waits_for_is_told_in_words(client: Ostler, server: SmallServer) -> None:
    waiting = {"code": "NO_OPTIMAL_PRODUCT_ANY_REGION", "message": "None to be had in CN-HK-01"}
    server.say(200, {**ONE, "status": "creating", "waitingFor": waiting})
    server.say(200, {**ONE, "status": "ready"})
    told: list[str] = []

    client.wait_until("inst_1", on_progress=lambda progress: told.append(progress.waiting_for))

    assert told == ["None to be had in CN-HK-01"]
