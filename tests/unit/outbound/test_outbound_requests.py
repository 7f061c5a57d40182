"""Each way an answer can fail to come has its name, its end in time and no cost in memory."""

import socket
import threading
import time
import tracemalloc
from typing import Any

import pytest

from functions.shared.domain.delivery.targets import HttpResponse, OutboundFailed
from functions.shared.outbound.http import OutboundHttp
from tests.unit.outbound.test_outbound_servers import (
    Receiver,
    Script,
    answers,
    disguised,
    forever,
    hang,
    reply,
    reset,
    say,
)

LOCAL = OutboundHttp("127.0.0.1/32")
OK = b"HTTP/1.1 200 OK\r\n"


def get(url: str, outbound: OutboundHttp = LOCAL, seconds: float = 0.4, cap: int = 1000) -> HttpResponse:
    return outbound.request("GET", url, timeout_total=seconds, cap_bytes=cap)


def failure(url: str, outbound: OutboundHttp = LOCAL) -> str:
    began = time.monotonic()
    with pytest.raises(OutboundFailed) as caught:
        get(url, outbound)
    assert time.monotonic() - began < 2
    return caught.value.category


def test_a_request_arrives_whole_and_its_answer_comes_back() -> None:
    with Receiver(reply(202, b"thanks", "Retry-After: 5\r\n")) as receiver:
        answer = LOCAL.request(
            "POST",
            receiver.url + "/in",
            headers={"webhook-id": "e"},
            body=b"{}",
            timeout_total=2,
            cap_bytes=3,
        )

    head = receiver.asked[0].lower()
    assert head.startswith(b"post /in http/1.1\r\n")
    for line in (
        f"host: 127.0.0.1:{receiver.port}",
        "webhook-id: e",
        "content-length: 2",
        "connection: close",
    ):
        assert line.encode() in head
    assert (answer.status, answer.body_prefix, answer.headers["retry-after"]) == (202, b"tha", "5")
    assert (answer.address, answer.cut) == ("127.0.0.1", "")
    assert 0 < answer.elapsed < 2


@pytest.mark.parametrize(
    ("script", "category"),
    [
        (hang, "timeout"),
        (forever(OK, b"X-Slow: drip\r\n", 0.05), "timeout"),
        (forever(b"", b"H", 0.05), "timeout"),
        (forever(b"", b"HTTP/1.1 100 Continue\r\n\r\n", 0.01), "timeout"),
        (reset, "connection_reset"),
        (say(), "connection_reset"),
        (say(b"SSH-2.0-OpenSSH_9.6\r\n"), "invalid_response"),
        (say(b"HTTP/1.1 abc\r\n\r\n"), "invalid_response"),
        (forever(OK, b"X-Endless: header\r\n"), "invalid_response"),
        (forever(OK, b"x" * 10_000), "invalid_response"),
    ],
)
def test_what_is_no_answer_has_its_category_in_time(script: Script, category: str) -> None:
    with Receiver(script) as receiver:
        assert failure(receiver.url) == category


def test_a_port_where_nothing_listens_is_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

    assert failure(f"http://127.0.0.1:{port}/") == "connection_refused"
    with pytest.raises(OutboundFailed, match="connection refused"):
        LOCAL.connect("127.0.0.1", port, 1)


def test_a_connection_that_is_reset_as_soon_as_it_stands_says_so() -> None:
    def reset_all(server: socket.socket) -> None:
        for _ in range(20):
            reset(server.accept()[0])

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=reset_all, args=(server,), daemon=True).start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}/"

        assert {failure(url) for _ in range(20)} == {"connection_reset"}


def test_a_network_that_cannot_be_reached_says_so() -> None:
    def dial(_: tuple[str, int], __: float) -> socket.socket:
        raise OSError(101, "Network is unreachable")

    assert failure("http://8.8.8.8/", OutboundHttp(dial=dial)) == "network_unreachable"


def test_a_name_that_does_not_resolve_says_so() -> None:
    def resolve(*_: Any) -> list[tuple[Any, ...]]:
        raise socket.gaierror(-2, "Name or service not known")

    assert failure("http://nowhere.example/", OutboundHttp(resolve=resolve)) == "dns_resolution_failed"
    assert failure("http://empty.example/", OutboundHttp(resolve=answers())) == "dns_resolution_failed"


def test_a_resolver_that_hangs_costs_no_more_than_the_time_allowed() -> None:
    over = threading.Event()

    def resolve(*_: Any) -> list[tuple[Any, ...]]:
        over.wait(10)
        return []

    assert failure("http://slow.example/", OutboundHttp(resolve=resolve)) == "dns_resolution_failed"
    over.set()


def test_the_next_checked_address_is_tried_where_the_first_cannot_be_reached() -> None:
    with Receiver(reply()) as receiver:

        def dial(address: tuple[str, int], timeout: float) -> socket.socket:
            if ":" in address[0]:
                raise OSError(101, "Network is unreachable")
            return disguised(receiver.port)(address, timeout)

        answer = get(
            "http://dual.example/", OutboundHttp(resolve=answers("2606:4700::1", "8.8.8.8"), dial=dial)
        )

    assert answer.address == "8.8.8.8"


@pytest.mark.parametrize("head", [OK + b"\r\n", OK + b"Content-Length: 99999999999\r\n\r\n"])
def test_an_endless_body_is_read_up_to_the_cap_and_costs_no_memory(head: bytes) -> None:
    with Receiver(forever(head, b"x" * 65_536)) as receiver:
        tracemalloc.start()
        answer = get(receiver.url, cap=50_000)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()

    assert (len(answer.body_prefix), answer.cut) == (50_000, "")
    assert peak < 2_000_000


@pytest.mark.parametrize(
    ("script", "body", "cut"),
    [
        (forever(OK + b"\r\n", b"x", 0.15), b"x", "timeout"),
        (forever(OK + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n", 0.15), b"x", "timeout"),
        (say(OK + b"Content-Length: 9\r\n\r\nhalf"), b"half", "invalid_response"),
        (say(OK + b"Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n"), b"half", "invalid_response"),
        (say(OK + b"Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\nzz\r\n"), b"half", "invalid_response"),
        (say(OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\nwhole\r\n0\r\n\r\n"), b"whole", ""),
        (say(OK + b"\r\nwhole"), b"whole", ""),
        (say(b"HTTP/1.1 204 No Content\r\n\r\n"), b"", ""),
    ],
)
def test_a_body_that_stops_early_keeps_the_status_and_says_what_cut_it(
    script: Script, body: bytes, cut: str
) -> None:
    with Receiver(script) as receiver:
        answer = get(receiver.url)

    assert answer.status in (200, 204)
    assert answer.body_prefix.startswith(body)
    assert answer.cut == cut
    assert answer.elapsed < 1
