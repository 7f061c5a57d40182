"""Every endpoint is asked at once, and again until it is well or the time is over."""

import socket
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from functions.shared.domain.delivery.targets import HttpResponse, OutboundFailed
from functions.shared.domain.instance.health import HealthCheck
from functions.shared.domain.instance.machine import Endpoint
from functions.shared.outbound.http import OutboundHttp
from functions.shared.outbound.probes import Probes
from tests.unit.outbound.test_outbound_servers import (
    Receiver,
    Script,
    forever,
    hang,
    loopback_only,
    reply,
    reset,
    say,
)

ONCE = HealthCheck(timeout_ms=1000, retry_attempts=0)
OK = b"HTTP/1.1 200 OK\r\n\r\n"


def nothing_found(*_: Any) -> list[tuple[Any, ...]]:
    raise socket.gaierror(-2, "Name or service not known")


def real_probes() -> Probes:
    pause = threading.Event().wait
    return Probes(
        OutboundHttp("127.0.0.1/32", resolve=nothing_found, dial=loopback_only),
        lambda: datetime.now(UTC),
        pause,
        lambda: 0.5,
    )


def http(receiver: Receiver, port: int = 8188) -> Endpoint:
    return Endpoint(port, "http", receiver.url)


class Told:
    """Stands for the network on a virtual clock: each answer is a status or a failure, and takes a second."""

    def __init__(self, *outcomes: int | OutboundFailed) -> None:
        self.outcomes = list(outcomes)
        self.now = datetime(2026, 3, 1, tzinfo=UTC)
        self.waits: list[float] = []
        self.timeouts: list[float] = []

    def request(self, method: str, url: str, *, timeout_total: float, cap_bytes: int) -> HttpResponse:
        assert (method, url, cap_bytes) == ("GET", "https://app.example/", 65536)
        self.timeouts.append(timeout_total)
        self.now += timedelta(seconds=1)
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, OutboundFailed):
            raise outcome
        return HttpResponse(outcome, {}, b"", 1, "8.8.8.8")

    def connect(self, host: str, port: int, timeout: float) -> None:
        raise AssertionError((host, port, timeout))

    def wait(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += timedelta(seconds=seconds)

    def check(self, check: HealthCheck, within: float, chance: float = 1) -> str:
        probes = Probes(self, lambda: self.now, self.wait, lambda: chance)
        report = probes.check([Endpoint(80, "http", "https://app.example")], check, within)
        error = report.results[0].fault
        return error.category if error else report.overall


def test_bad_gateway_until_the_application_listens_and_then_it_is_healthy() -> None:
    network = Told(502, OutboundFailed("connection_refused", "connection refused"), 200)

    assert network.check(HealthCheck(), within=60) == "healthy"
    assert network.waits == [2, 4]


def test_after_the_last_retry_the_last_state_is_reported() -> None:
    network = Told(500, 500, 503)

    assert network.check(HealthCheck(retry_attempts=2), within=600) == "service_unavailable"
    assert network.outcomes == []


def test_no_retry_is_begun_that_would_outlive_the_time() -> None:
    network = Told(502, 502, 502, 502)

    assert network.check(HealthCheck(retry_attempts=10), within=9) == "bad_gateway"
    assert network.waits == [2, 4]
    assert network.timeouts == [9, 6, 1]


def test_one_try_takes_no_longer_than_its_own_time_out() -> None:
    network = Told(200)

    network.check(HealthCheck(timeout_ms=5000), within=60)

    assert network.timeouts == [5]


def test_pauses_have_jitter() -> None:
    network = Told(502, 200)

    network.check(HealthCheck(), within=60, chance=0)

    assert network.waits == [1]


@pytest.mark.parametrize(
    ("script", "category"),
    [
        (reply(502), "bad_gateway"),
        (reply(503), "service_unavailable"),
        (reply(500), "server_error"),
        (reply(404), "client_error"),
        (reply(302, headers="Location: http://127.0.0.1/\r\n"), "invalid_response"),
        (reply(200, b"<h1>502 Bad Gateway</h1>"), "invalid_response"),
        (say(b"not http\r\n"), "invalid_response"),
        (say(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"), "invalid_response"),
        (reset, "connection_reset"),
        (hang, "timeout"),
        (forever(OK, b"drip", 0.2), "timeout"),
        (reply(200), None),
        (forever(OK, b"well" * 1000), None),
    ],
)
def test_each_kind_of_answer_has_its_category_within_the_time(script: Script, category: str | None) -> None:
    with Receiver(script) as receiver:
        result = real_probes().check([http(receiver)], ONCE, within=10).results[0]

    assert (result.fault and result.fault.category) == category
    assert result.response_time_ms < 2000


@pytest.mark.parametrize(
    ("address", "category"),
    [
        ("http://127.0.0.1:1", "connection_refused"),
        ("http://10.0.0.1", "network_unreachable"),
        ("http://no-such-name.example", "dns_resolution_failed"),
        ("", "network_unreachable"),
    ],
)
def test_an_endpoint_that_cannot_be_reached_has_its_category(address: str, category: str) -> None:
    report = real_probes().check([Endpoint(80, "http", address)], ONCE, within=10)

    fault = report.results[0].fault
    assert fault is not None
    assert fault.category == category


def test_ten_endpoints_are_open_at_the_receiver_at_the_same_time() -> None:
    together = threading.Barrier(10, timeout=5)

    def script(peer: socket.socket) -> None:
        together.wait()
        reply()(peer)

    with Receiver(script) as receiver:
        endpoints = [http(receiver, port) for port in range(8000, 8010)]
        report = real_probes().check(endpoints, HealthCheck(retry_attempts=0), within=10)

    assert receiver.most_open == 10
    assert report.overall == "healthy"
    assert [result.target.port for result in report.results] == list(range(8000, 8010))


def test_some_well_and_some_ill_is_partial() -> None:
    with Receiver(reply()) as well, Receiver(reply(502)) as ill:
        report = real_probes().check([http(well, 80), http(ill, 81)], ONCE, within=10)

    assert report.overall == "partial"


def test_a_named_port_and_path_are_the_only_ones_asked() -> None:
    with Receiver(reply()) as asked, Receiver(reply(500)) as other:
        check = HealthCheck(target_port=8188, path="/ready?deep=1")
        report = real_probes().check([http(other, 80), http(asked)], check, within=10)

    assert report.overall == "healthy"
    assert asked.asked[0].startswith(b"GET /ready?deep=1 HTTP/1.1\r\n")
    assert other.connections == 0


def tcp(address: str) -> Callable[[], str]:
    check = HealthCheck(timeout_ms=1000, retry_attempts=0, target_port=22)
    return lambda: real_probes().check([Endpoint(22, "tcp", address)], check, within=10).overall


def test_a_named_tcp_port_is_healthy_when_it_takes_a_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        place = f"127.0.0.1:{server.getsockname()[1]}"

        assert tcp(place)() == "healthy"
    assert tcp(place)() == "unhealthy"


@pytest.mark.parametrize(
    "address", ["127.0.0.1", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:99999", "10.0.0.1:22", ":22"]
)
def test_a_tcp_address_that_is_none_is_unhealthy(address: str) -> None:
    assert tcp(address)() == "unhealthy"


def test_nothing_to_check_is_healthy_at_once() -> None:
    assert (
        real_probes().check([Endpoint(22, "tcp", "127.0.0.1:1")], HealthCheck(), within=10).overall
        == "healthy"
    )


def test_a_port_that_the_machine_lacks_is_unhealthy() -> None:
    report = real_probes().check([], HealthCheck(target_port=9000, retry_attempts=0), within=10)

    assert report.overall == "unhealthy"
    assert report.as_json()["endpoints"][0]["error"]["message"] == "no address is known for port 9000"
