"""Waiting for an instance: what ends it, what does not, and what is told meanwhile."""

from typing import Any, NoReturn

import pytest
from ostler.client import Ostler
from ostler.errors import InstanceFailed, InstanceNotFound, WaitTimeout
from ostler.waiting import Progress
from requests.adapters import HTTPAdapter
from requests.exceptions import ReadTimeout

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


RECOVERING = {"recovering": {"since": "2026-11-18T08:00:00Z", "action": "restart"}}


@pytest.mark.parametrize(
    "taken", [{"status": "exited"}, {"status": "running", "missingSince": "2026-11-18T08:00:00Z"}]
)
@pytest.mark.parametrize("wanted", ["up", "running", "ready"])
def test_what_is_being_brought_back_is_neither_up_nor_lost(
    client: Ostler, server: SmallServer, wanted: str, taken: dict[str, str]
) -> None:
    back = {**ONE, "status": "ready", "readyAt": "2026-11-18T09:00:00Z"}
    server.say(200, {**back, **RECOVERING, **taken})
    server.say(200, {**back, **RECOVERING, "status": "starting"})
    server.say(200, back)

    assert dict(client.wait_until("inst_1", wanted)) == back


def test_a_start_that_failed_says_why_though_the_instance_is_as_before(
    client: Ostler, server: SmallServer
) -> None:
    server.say(200, {**ONE, "status": "stopped", "operationId": "op_1"})
    server.say(200, {"operationId": "op_1", "status": "failed", "error": {"code": "X", "message": "no room"}})

    with pytest.raises(InstanceFailed, match="one is stopped, not up: no room"):
        client.wait_until("inst_1")


def test_what_could_not_be_brought_back_ends_it(client: Ostler, server: SmallServer) -> None:
    server.say(200, {**ONE, **RECOVERING, "status": "exited"})
    server.say(200, {**ONE, "status": "exited"})

    with pytest.raises(InstanceFailed, match="exited"):
        client.wait_until("inst_1")


def test_what_is_being_brought_back_has_not_stopped(client: Ostler, server: SmallServer) -> None:
    server.say(200, {**ONE, **RECOVERING, "status": "exited"})
    server.say(200, {**ONE, "status": "stopped"})

    assert client.wait_until("inst_1", "stopped")["status"] == "stopped"


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


class Silence(HTTPAdapter):
    """A service that takes the connection and never answers: only the time bound of a request ends it."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self.clock = clock

    def send(self, *_: Any, timeout: Any = None, **__: Any) -> NoReturn:
        self.clock.now += timeout
        raise ReadTimeout


def test_a_silent_service_does_not_make_the_wait_longer(client: Ostler, clock: Clock) -> None:
    client.transport._session.mount("http://", Silence(clock))

    with pytest.raises(WaitTimeout):
        client.wait_until("inst_1", timeout=5)

    assert clock.now - 1000 <= 6, "the last look may begin when the time is over, and has a second"


def test_what_it_waits_for_is_told_in_words(client: Ostler, server: SmallServer) -> None:
    waiting = {"code": "NO_OPTIMAL_PRODUCT_ANY_REGION", "message": "None to be had in CN-HK-01"}
    server.say(200, {**ONE, "status": "creating", "waitingFor": waiting})
    server.say(200, {**ONE, "status": "ready"})
    told: list[str] = []

    client.wait_until("inst_1", on_progress=lambda progress: told.append(progress.waiting_for))

    assert told == ["None to be had in CN-HK-01"]
