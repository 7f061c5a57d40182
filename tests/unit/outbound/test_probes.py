"""A round asks every endpoint at once, and each of them once."""

import socket
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from functions.shared.domain.delivery.targets import HttpResponse, OutboundFailed
from functions.shared.domain.instance.health import HealthCheck, HealthReport
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
    return Probes(
        OutboundHttp("127.0.0.1/32", resolve=nothing_found, dial=loopback_only), lambda: datetime.now(UTC)
    )


def http(receiver: Receiver, port: int = 8188) -> Endpoint:
    return Endpoint(port, "http", receiver.url)


class Told:
    """Stands for the network: what it answers, and how it was asked."""

    def __init__(self, outcome: HttpResponse | OutboundFailed) -> None:
        self.outcome = outcome
        self.timeouts: list[float] = []

    def request(self, method: str, url: str, *, timeout_total: float, cap_bytes: int) -> HttpResponse:
        assert (method, url, cap_bytes) == ("GET", "https://app.example/", 65536)
        self.timeouts.append(timeout_total)
        if isinstance(self.outcome, OutboundFailed):
            raise self.outcome
        return self.outcome

    def connect(self, host: str, port: int, timeout: float) -> None:
        raise AssertionError((host, port, timeout))

    def check(self) -> HealthReport:
        probes = Probes(self, lambda: datetime(2026, 3, 1, tzinfo=UTC))
        return probes.check([Endpoint(80, "http", "https://app.example")], HealthCheck(), within=7)


@pytest.mark.parametrize("status", [200, 502])
def test_a_round_asks_once_whatever_the_answer_and_gives_it_the_time_there_is(status: int) -> None:
    network = Told(HttpResponse(status, {}, b"", 1, "8.8.8.8"))

    network.check()

    assert network.timeouts == [7]


@pytest.mark.parametrize(
    ("outcome", "timed_out"),
    [
        (OutboundFailed("timeout", "timeout"), True),
        (OutboundFailed("dns_resolution_failed", "not resolved in time", timed_out=True), True),
        (HttpResponse(200, {}, b"drip", 1, "8.8.8.8", cut="timeout"), True),
        (HttpResponse(503, {}, b"drip", 1, "8.8.8.8", cut="timeout"), True),
        (OutboundFailed("dns_resolution_failed", "no such name"), False),
        (OutboundFailed("connection_refused", "refused"), False),
        (HttpResponse(200, {}, b"half", 1, "8.8.8.8", cut="invalid_response"), False),
        (HttpResponse(502, {}, b"", 1, "8.8.8.8"), False),
        (HttpResponse(200, {}, b"", 1, "8.8.8.8"), False),
    ],
)
def test_what_used_up_all_its_time_has_timed_out_whatever_its_category(
    outcome: HttpResponse | OutboundFailed, timed_out: bool
) -> None:
    assert Told(outcome).check().timed_out is timed_out


@pytest.mark.parametrize(
    ("script", "category"),
    [
        (reply(502), "bad_gateway"),
        (reply(503), "service_unavailable"),
        (reply(500), "server_error"),
        (reply(404), "client_error"),
        (reply(302, headers="Location: http://127.0.0.1:1/\r\n"), None),
        (reply(200, b"<h1>502 Bad Gateway</h1>"), "bad_gateway"),
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
        result = real_probes().check([http(receiver)], ONCE, within=1).results[0]

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
    report = real_probes().check([Endpoint(80, "http", address)], ONCE, within=1)

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
        report = real_probes().check(endpoints, HealthCheck(retry_attempts=0), within=1)

    assert receiver.most_open == 10
    assert report.overall == "healthy"
    assert [result.target.port for result in report.results] == list(range(8000, 8010))


def test_some_well_and_some_ill_is_partial() -> None:
    with Receiver(reply()) as well, Receiver(reply(502)) as ill:
        report = real_probes().check([http(well, 80), http(ill, 81)], ONCE, within=1)

    assert report.overall == "partial"


def test_a_named_port_and_path_are_the_only_ones_asked() -> None:
    with Receiver(reply()) as asked, Receiver(reply(500)) as other:
        check = HealthCheck(target_port=8188, path="/ready?deep=1")
        report = real_probes().check([http(other, 80), http(asked)], check, within=1)

    assert report.overall == "healthy"
    assert asked.asked[0].startswith(b"GET /ready?deep=1 HTTP/1.1\r\n")
    assert other.connections == 0


def tcp(address: str) -> Callable[[], str]:
    check = HealthCheck(timeout_ms=1000, retry_attempts=0, target_port=22)
    return lambda: real_probes().check([Endpoint(22, "tcp", address)], check, within=1).overall


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
        real_probes().check([Endpoint(22, "tcp", "127.0.0.1:1")], HealthCheck(), within=1).overall
        == "healthy"
    )


def test_a_port_that_the_machine_lacks_is_unhealthy() -> None:
    report = real_probes().check([], HealthCheck(target_port=9000, retry_attempts=0), within=1)

    assert report.overall == "unhealthy"
    assert report.as_json()["endpoints"][0]["error"]["message"] == "no address is known for port 9000"
