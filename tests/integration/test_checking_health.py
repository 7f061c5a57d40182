"""Health checks by the real startup function over real sockets: what each receiver comes to, and where."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from functions.shared.domain.instance.health import HealthCheck, HealthReport
from functions.shared.domain.instance.record import HealthRounds
from functions.shared.domain.instance.status import Status
from functions.shared.domain.messages import StepMessage
from functions.shared.outbound.probes import Probes
from tests.integration.conftest import Build
from tests.integration.crash_points import Crashes, Point
from tests.integration.harness import Harness
from tests.unit.outbound.test_outbound_servers import Receiver, forever, hang, reply, reset
from tests.unit.outbound.test_outbound_tls import certificate

ONCE = {"timeoutMs": 2000, "retryAttempts": 0, "maxWaitTimeMs": 30_000}
OK = b"HTTP/1.1 200 OK\r\n\r\n"

ONE_PORT = "300"

Open = Callable[..., Receiver]


@pytest.fixture
def receiver() -> Iterator[Open]:
    """Opens receivers on loopback that close when the test is over."""
    with ExitStack() as opened:
        yield lambda *script: opened.enter_context(Receiver(*script))


@pytest.fixture
def real(build: Build) -> Harness:
    """Checks take real time here; everything else is in virtual time."""
    harness = build()
    harness.wiring.probes = Probes(harness.wiring.outbound, lambda: datetime.now(UTC))
    return harness


def start(harness: Harness, addresses: dict[int, str], **check: Any) -> str:
    """A machine whose ports lead to these addresses, told to start; checked once by the time it returns."""
    ports = ",".join(f"{port}/http" for port in addresses)
    machine = harness.simulator.put_instance(status="exited", ports=ports)
    endpoints = {str(port): address for port, address in addresses.items()}
    harness.simulator.patch_instance(machine["id"], endpoints=endpoints)
    _, imported = harness.call("POST", "/api/instances/import", {"novitaInstanceId": machine["id"]})
    path = f"/api/instances/{imported['instanceId']}/start"
    status, answer = harness.call("POST", path, {"healthCheckConfig": {**ONCE, **check}})
    assert status == 202, answer
    while harness.record(imported["instanceId"]).health is None:
        harness.run(1)
    return str(imported["instanceId"])


def shown(harness: Harness, instance_id: str) -> Any:
    _, instance = harness.call("GET", f"/api/instances/{instance_id}")
    return instance["healthCheck"]


def told(harness: Harness, instance_id: str, type_: str) -> Any:
    """The results in the one event of that type."""
    _, answer = harness.call("GET", f"/api/instances/{instance_id}/events")
    (event,) = [event for event in answer["events"] if event["type"] == type_]
    return event["healthCheck"]


def categories(report: Any) -> dict[int, str]:
    return {
        one["port"]: one.get("error", {"category": one["status"]})["category"] for one in report["endpoints"]
    }


class Rounds(Probes):
    """The real checks, and when each was made in virtual time."""

    def __init__(self, harness: Harness) -> None:
        self._harness = harness
        self._probes = harness.wiring.probes
        self.made: list[tuple[datetime, str]] = []

    def check(self, *args: Any) -> HealthReport:
        report = self._probes.check(*args)
        self.made.append((self._harness.now(), report.overall))
        return report

    @property
    def waits(self) -> list[float]:
        times = [at for at, _ in self.made]
        return [(later - at).total_seconds() for at, later in pairwise(times)]


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def test_each_way_to_fail_has_its_category_within_the_time_on_the_instance_and_in_the_event(
    real: Harness, receiver: Open, tmp_path: Path
) -> None:
    elsewhere = receiver(reply())
    unvouched = receiver(reply(), certificate(tmp_path, "self.example")[0])
    expected = {
        8001: (receiver(hang).url, "timeout"),
        8002: (f"http://127.0.0.1:{closed_port()}", "connection_refused"),
        8003: (receiver(reset).url, "connection_reset"),
        8004: (unvouched.url, "ssl_error"),
        8005: ("http://nobody.invalid", "dns_resolution_failed"),
        8006: (receiver(reply(302, headers=f"Location: {elsewhere.url}\r\n")).url, "healthy"),
        8007: (receiver(forever(OK, b"drop by drop", 0.1)).url, "timeout"),
        8008: (receiver(forever(OK, b"Service Unavailable " * 1000)).url, "service_unavailable"),
        8009: (receiver(forever(OK, b"all is well " * 1000)).url, "healthy"),  # of 64 kB nothing is wrong
        8010: (receiver(reply(502)).url, "bad_gateway"),
    }

    instance_id = start(real, {port: address for port, (address, _) in expected.items()})
    during = shown(real, instance_id)
    real.settle()

    assert categories(during) == {port: category for port, (_, category) in expected.items()}
    assert during["overall"] == "partial"
    assert {one["port"]: one["endpoint"] for one in during["endpoints"]} == {
        port: f"{address}/" for port, (address, _) in expected.items()
    }
    for one in during["endpoints"]:
        assert one["responseTime"] < 3 * ONCE["timeoutMs"], "those that hang would do so for ever"
        assert one["responseTime"] >= ONCE["timeoutMs"] or categories(during)[one["port"]] != "timeout"
    assert elsewhere.connections == 0
    assert unvouched.asked == []
    record = real.record(instance_id)
    assert (record.status, record.error and record.error.code) == (Status.FAILED, "HEALTH_CHECK_FAILED")
    assert categories(told(real, instance_id, "instance.failed")) == categories(during)
    assert told(real, instance_id, "instance.failed") == shown(real, instance_id)


def test_ten_endpoints_are_open_at_the_receiver_at_the_same_time(real: Harness, receiver: Open) -> None:
    together = threading.Barrier(10)

    def when_all_are_here(peer: socket.socket) -> None:
        together.wait(timeout=20)
        reply()(peer)

    ten = receiver(when_all_are_here)

    instance_id = start(real, dict.fromkeys(range(8000, 8010), ten.url), timeoutMs=30_000)

    assert ten.most_open == ten.connections == 10
    assert real.record(instance_id).status is Status.READY
    assert categories(shown(real, instance_id)) == dict.fromkeys(range(8000, 8010), "healthy")
    for type_ in ("instance.ready", "startup.completed"):
        assert told(real, instance_id, type_) == shown(real, instance_id)


def test_only_the_named_port_is_asked_for_the_named_path(real: Harness, receiver: Open) -> None:
    named, other = receiver(reply()), receiver(reply(500))

    instance_id = start(
        real, {8001: other.url, 8002: f"{named.url}/app"}, targetPort=8002, path="/healthz?deep=1"
    )

    assert real.record(instance_id).status is Status.READY
    assert [asked.split(b"\r\n")[0] for asked in named.asked] == [b"GET /app/healthz?deep=1 HTTP/1.1"]
    assert other.connections == 0
    assert shown(real, instance_id)["endpoints"][0]["endpoint"] == f"{named.url}/app/healthz?deep=1"


def test_a_named_port_that_the_machine_lacks_is_not_taken_for_healthy(real: Harness, receiver: Open) -> None:
    instance_id = start(real, {8001: receiver(reply()).url}, targetPort=9999)

    assert categories(shown(real, instance_id)) == {9999: "network_unreachable"}
    real.settle()
    assert real.record(instance_id).status is Status.FAILED


def test_each_message_makes_one_round_and_the_waits_are_in_the_queue(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Five quick rounds, the last of them half a minute apart, and then another series of them."""
    patient = {"retryAttempts": 4, "retryDelayMs": 8000, "maxWaitTimeMs": 1_800_000}
    harness.simulator.put_template(ONE_PORT, name="one port", ports=[{"type": "http", "ports": [8188]}])
    harness.simulator.app(afterSeconds=200)
    rounds = Rounds(harness)
    monkeypatch.setattr(harness.wiring, "probes", rounds)

    instance_id = harness.create(templateId=ONE_PORT, healthCheck=patient)
    harness.settle()

    assert harness.record(instance_id).status is Status.READY
    assert [overall for _, overall in rounds.made] == ["unhealthy"] * (len(rounds.made) - 1) + ["healthy"]
    longest = [8, 16, 30, 30, 30, 8, 16, 30, 30, 30]
    assert len(rounds.waits) >= 6
    for waited, most in zip(rounds.waits, longest, strict=False):
        assert most / 2 <= waited <= most + 1
    checks = [made for made in harness.wire.calls if made.handler == "startup"]
    leases = [made for made in checks if made.name == "PutItem inst/record"]
    assert len({made.invocation for made in leases}) == len(rounds.made)
    assert not [made.name for made in checks if "novita" in made.name], "it asks applications and nobody else"
    looks = [made for made in harness.wire.calls if made.name == "novita GET /gpu/instance"]
    assert {made.handler for made in looks} == {"monitor"}


@pytest.mark.parametrize("kind", ["doubled", "a sweep's"])
def test_a_second_message_in_the_middle_of_a_round_makes_no_second_one(harness: Harness, kind: str) -> None:
    harness.simulator.app(status=502)
    instance_id = harness.create(healthCheck={"retryAttempts": 0})
    while harness.record(instance_id).status is not Status.HEALTH_CHECKING:
        harness.run(1)
    asking = Asking(harness, instance_id, kind)
    harness.wiring.probes = asking

    harness.run(90)

    harness.simulator.app(status=200)
    harness.settle()
    assert asking.rounds >= 3
    assert asking.most_at_once == 1
    assert asking.tried == asking.rounds


class Asking(Probes):
    """While the application is asked, other messages arrive in other environments."""

    def __init__(self, harness: Harness, instance_id: str, kind: str) -> None:
        self._harness = harness
        self._probes = harness.wiring.probes
        self._instance_id = instance_id
        self._kind = kind
        self._before = harness.record(instance_id)
        self.rounds = self.tried = self.most_at_once = self._at_once = 0

    def check(self, *args: Any) -> HealthReport:
        self._at_once += 1
        self.rounds += 1
        self.most_at_once = max(self.most_at_once, self._at_once)
        if self._at_once == 1:
            self._harness.elsewhere(self._another)
        report = self._probes.check(*args)
        self._at_once -= 1
        self._before = self._harness.record(self._instance_id)
        return report

    def _another(self) -> None:
        self._harness.wiring.probes = self
        self.tried += 1
        if self._kind == "doubled":  # the message that this very step was taken for
            message = StepMessage(self._instance_id, self._before.token, "c")
            self._harness.handle("startup", self._harness.as_received("startup", message.as_json()))
        else:  # with the token of the lease, as after a sweep that came too early
            self._harness.deliver_now(self._instance_id)


def test_a_worker_that_dies_in_a_round_is_followed_when_its_lease_is_over(harness: Harness) -> None:
    instance_id = harness.create(healthCheck={})
    crashes = Crashes(harness)
    crashes.plan(instance_id, [Point("startup", "PutItem inst/record", 1, after=True)])

    for _ in range(120):
        harness.run(1)
        if (leased := harness.record(instance_id)).rounds.lost:
            break
    harness.settle()

    crashes.end()
    assert leased.status is Status.HEALTH_CHECKING
    assert leased.rounds.until == leased.next_check_at
    record = harness.record(instance_id)
    assert record.status is Status.READY
    assert record.probed_at
    assert leased.rounds.until
    assert record.probed_at >= leased.rounds.until
    assert record.rounds == HealthRounds()


def test_a_check_that_fails_itself_every_time_ends_at_the_deadline(harness: Harness) -> None:
    class Broken(Probes):
        def __init__(self) -> None:
            pass

        def check(self, *_: Any) -> HealthReport:
            raise RuntimeError("a mistake of ours")

    harness.wiring.probes = Broken()
    instance_id = harness.create(healthCheck={"maxWaitTimeMs": 60_000})

    harness.settle()

    record = harness.record(instance_id)
    assert (record.status, record.error and record.error.code) == (Status.FAILED, "HEALTH_CHECK_FAILED")
    assert harness.simulator.live() == []


@pytest.mark.parametrize(
    ("becomes", "status"),
    [("exited", Status.EXITED), ("migrating", Status.MIGRATING)],
)
def test_what_happens_to_the_machine_during_the_checks_is_noticed_although_nobody_asks(
    harness: Harness, becomes: str, status: Status
) -> None:
    harness.simulator.app(status=502)
    instance_id = harness.create(healthCheck={"maxWaitTimeMs": 1_800_000, "retryAttempts": 0})
    harness.run(60)
    before = harness.record(instance_id)

    harness.simulator.patch_instance(before.machine.id or "", status=becomes)
    harness.run(300)
    after = harness.record(instance_id)
    harness.simulator.app(status=200)
    if becomes == "migrating":
        harness.simulator.patch_instance(before.machine.id or "", status="running")
    harness.settle()

    assert before.status is Status.HEALTH_CHECKING
    assert after.status is status


def test_what_a_request_does_not_say_of_a_check_the_deployment_says(build: Build) -> None:
    harness = build(
        HEALTH_CHECK_TIMEOUT_MS="1500",
        HEALTH_CHECK_RETRY_ATTEMPTS="7",
        HEALTH_CHECK_RETRY_DELAY_MS="250",
        HEALTH_CHECK_MAX_WAIT_TIME_MS="45000",
    )

    created = harness.create(healthCheck={"retryAttempts": 3, "path": "/up"})
    harness.settle()
    harness.call("POST", f"/api/instances/{created}/restart")
    restarted = harness.record(created)
    harness.settle()

    assert restarted.spec.health_check == HealthCheck(1500, 3, 250, 45_000, path="/up")
    assert restarted.health_check == HealthCheck(1500, 7, 250, 45_000)
