"""Nothing is ever sent to a place that is not public: a listening socket is the witness."""

import contextlib
import socket
from collections.abc import Callable, Iterator
from itertools import chain, repeat
from typing import Any

import pytest

from functions.shared.domain.delivery.targets import OutboundFailed
from functions.shared.outbound.http import OutboundHttp
from tests.unit.outbound.test_outbound_servers import (
    Receiver,
    answers,
    disguised,
    hang,
    loopback_only,
    reply,
)

PUBLIC = "93.184.216.34"
NOT_PUBLIC = [
    "127.0.0.1", "10.0.0.1", "172.16.0.1", "192.168.0.1", "169.254.169.254", "100.64.0.1", "224.0.0.1",
    "240.0.0.1", "255.255.255.255", "0.0.0.0", "192.0.2.1", "198.18.0.1", "::1", "::", "fe80::1",
    "fe80::1%lo", "fc00::1", "ff02::1", "::ffff:127.0.0.1", "::127.0.0.1", "64:ff9b::7f00:1",
    "2002:7f00:1::", "2001:0:0:0:0:0:80ff:fffe",
]  # fmt: skip  # many to a line
SPELLINGS = [
    "127.0.0.1", "127.1", "2130706433", "017700000001", "0x7f000001", "0x7f.1", "0177.0.0.1", "0",
    "127.0.0.1.", "127\u30020\u30020\u30021", "\uff11\uff12\uff17.0.0.1", "[::1]", "[::]",
    "[::ffff:127.0.0.1]", "[64:ff9b::127.0.0.1]", "[2002:7f00:1::]", "localhost", "example.com@127.0.0.1",
    "example.com:80@127.0.0.1", "example.com\\@127.0.0.1", "169.254.169.254", "2852039166", "10.0.0.1",
    "100.64.0.1", "[fc00::1]", "224.0.0.1",
]  # fmt: skip  # many to a line


@contextlib.contextmanager
def refused(outbound: Callable[[Receiver], OutboundHttp]) -> Iterator[tuple[OutboundHttp, Receiver]]:
    with Receiver(reply()) as witness:
        with pytest.raises(OutboundFailed) as caught:
            yield outbound(witness), witness
        assert caught.value.category == "refused_target"
        # Once this one is answered, whatever came before it is counted.
        get(OutboundHttp("127.0.0.1/32"), witness.url)
        assert witness.connections == 1


def get(outbound: OutboundHttp, url: str) -> Any:
    return outbound.request("GET", url, timeout_total=2, cap_bytes=100)


@pytest.mark.parametrize("host", SPELLINGS)
def test_a_hostile_spelling_is_refused_and_nothing_connects(host: str) -> None:
    with refused(lambda witness: OutboundHttp(dial=disguised(witness.port))) as (outbound, witness):
        get(outbound, f"http://{host}:{witness.port}/")


@pytest.mark.parametrize("address", NOT_PUBLIC)
def test_a_name_that_resolves_to_a_place_not_public_is_refused(address: str) -> None:
    with refused(lambda witness: OutboundHttp(resolve=answers(address), dial=disguised(witness.port))) as (
        outbound,
        _,
    ):
        get(outbound, "https://innocent.example/")


@pytest.mark.parametrize("rows", [(PUBLIC, "10.0.0.1"), ("10.0.0.1", PUBLIC), (PUBLIC, "::1")])
def test_one_private_address_among_public_ones_refuses_the_name(rows: tuple[str, str]) -> None:
    with refused(lambda witness: OutboundHttp(resolve=answers(*rows), dial=disguised(witness.port))) as (
        outbound,
        _,
    ):
        get(outbound, "http://innocent.example/")


def test_a_name_whose_answer_changes_after_the_check_is_asked_once_and_the_checked_address_is_dialled() -> (
    None
):
    changing = chain([answers(PUBLIC)], repeat(answers("127.0.0.1")))
    dialled: list[str] = []

    with Receiver(reply()) as receiver:

        def dial(address: tuple[str, int], timeout: float) -> socket.socket:
            dialled.append(address[0])
            return disguised(receiver.port)(address, timeout)

        answer = get(
            OutboundHttp(resolve=lambda *a: next(changing)(*a), dial=dial), "http://rebinding.example/"
        )

    assert dialled == [PUBLIC]
    assert answer.address == PUBLIC


def test_a_connection_that_ended_up_elsewhere_is_dropped_before_a_byte_is_sent() -> None:
    with Receiver(hang) as receiver:
        detour = OutboundHttp(
            resolve=answers(PUBLIC),
            dial=lambda _, timeout: socket.create_connection(("127.0.0.1", receiver.port), timeout),
        )
        with pytest.raises(OutboundFailed) as caught:
            get(detour, "http://rebinding.example/")

    assert caught.value.category == "refused_target"
    assert receiver.asked == []


def test_a_connection_to_another_public_address_than_the_checked_one_is_dropped() -> None:
    with Receiver(hang) as receiver:
        detour = OutboundHttp(
            resolve=answers(PUBLIC),
            dial=lambda _, timeout: disguised(receiver.port)(("8.8.8.8", 80), timeout),
        )
        with pytest.raises(OutboundFailed, match="the address that was checked"):
            get(detour, "http://rebinding.example/")

    assert receiver.asked == []


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_to_a_private_address_is_an_answer_and_not_followed(status: int) -> None:
    with Receiver(reply()) as witness:
        away = f"Location: {witness.url}/\r\n"
        with Receiver(reply(status, headers=away)) as receiver:
            answer = get(OutboundHttp("127.0.0.1/32"), receiver.url)

    assert answer.status == status
    assert witness.connections == 0


@pytest.mark.parametrize("host", SPELLINGS[:6] + NOT_PUBLIC[:3])
def test_a_tcp_connect_is_held_to_the_same_rules(host: str) -> None:
    with refused(lambda witness: OutboundHttp(dial=disguised(witness.port))) as (outbound, witness):
        outbound.connect(host, witness.port, 2)


@pytest.mark.parametrize("address", [PUBLIC, "2606:2800:220:1:248:1893:25c8:1946"])
def test_ordinary_public_names_pass(address: str) -> None:
    with Receiver(reply(body=b"hello")) as receiver:
        outbound = OutboundHttp(resolve=answers(address), dial=disguised(receiver.port))
        answer = get(outbound, "http://hooks.example.com/in?x=1")
        outbound.connect("proxy.example.com", 62248, 2)

    assert (answer.status, answer.body_prefix, answer.address) == (200, b"hello", address)
    assert receiver.asked[0].startswith(b"GET /in?x=1 HTTP/1.1\r\n")
    assert b"\r\nHost: hooks.example.com\r\n" in receiver.asked[0]


def test_an_opened_range_opens_no_other_spelling_and_no_other_address() -> None:
    with Receiver(reply()) as receiver:
        outbound = OutboundHttp("127.0.0.1/32", dial=loopback_only)

        assert get(outbound, receiver.url).status == 200
        for host in ("127.0.0.2", "[::ffff:127.0.0.1]", "[::1]", "0.0.0.0"):
            with pytest.raises(OutboundFailed, match="public addresses only"):
                get(outbound, f"http://{host}:{receiver.port}/")

    assert receiver.connections == 1


def test_proxies_of_the_environment_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    with Receiver(reply()) as proxy, Receiver(reply(204, b"")) as receiver:
        for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "all_proxy"):
            monkeypatch.setenv(name, proxy.url)
        answer = get(OutboundHttp("127.0.0.1/32"), receiver.url)

    assert answer.status == 204
    assert proxy.connections == 0
