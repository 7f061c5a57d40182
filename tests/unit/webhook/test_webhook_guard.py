"""Hostile receivers through the whole webhook path: nothing reaches them, whatever let their URL in.

Each class in each spelling is tested at the guard itself; here, that the path leads through it.
"""

import socket
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain, repeat
from typing import Any

import pytest

from functions.shared.domain.delivery.webhooks import DeliveryState
from functions.shared.outbound.http import OutboundHttp
from tests.unit.outbound.test_outbound_servers import Receiver, answers, disguised, forever, reply
from tests.unit.webhook.harness import WebhookHarness

PUBLIC = "93.184.216.34"
HOSTILE_URLS = {
    "loopback": "http://127.0.0.1:{port}/",
    "private": "http://10.0.0.1:{port}/",
    "metadata": "http://169.254.169.254:{port}/latest/meta-data/",
    "shared": "http://100.64.0.1:{port}/",
    "multicast": "http://224.0.0.1:{port}/",
    "reserved": "http://240.0.0.1:{port}/",
    "unspecified": "http://0.0.0.0:{port}/",
    "decimal": "http://2130706433:{port}/",
    "octal": "http://0177.0.0.1:{port}/",
    "hex": "http://0x7f000001:{port}/",
    "short": "http://127.1:{port}/",
    "IPv6": "http://[::1]:{port}/",
    "IPv4-mapped": "http://[::ffff:127.0.0.1]:{port}/",
    "NAT64": "http://[64:ff9b::7f00:1]:{port}/",
    "6to4": "http://[2002:7f00:1::]:{port}/",
    "user-info": "http://hooks.example.com@127.0.0.1:{port}/",
    "port": "http://hooks.example.com:80@127.0.0.1:{port}/",
    "backslash": "http://hooks.example.com\\@127.0.0.1:{port}/",
    "unicode dots": "http://127\u30020\u30020\u30021:{port}/",
    "unicode digits": "http://\uff11\uff12\uff17.0.0.1:{port}/",
    "another scheme": "gopher://127.0.0.1:{port}/",
}
NAMES = {
    "private": answers("10.0.0.1"),
    "loopback": answers("127.0.0.1"),
    "IPv6 loopback": answers("::1"),
    "link-local": answers("fe80::1%eth0"),
    "mapped": answers("::ffff:10.0.0.1"),
    "one public and one private": answers(PUBLIC, "10.0.0.1"),
    "one private and one public": answers("10.0.0.1", PUBLIC),
}


@contextmanager
def witness(
    make_harness: Callable[..., WebhookHarness], **options: Any
) -> Iterator[tuple[WebhookHarness, Receiver]]:
    """A harness whose every connection, to wherever it is dialled, would come to this listening socket."""
    with Receiver(reply()) as receiver:
        yield make_harness(outbound=OutboundHttp(dial=disguised(receiver.port), **options)), receiver


def attempted(harness: WebhookHarness, url: str) -> str | None:
    delivery_id = harness.announce(url)
    harness.take(delivery_id, 1)
    delivery = harness.stored(delivery_id)
    assert delivery.state is not DeliveryState.DELIVERED
    assert len(delivery.attempts) == 1
    return delivery.attempts[0].error


@pytest.mark.parametrize("url", HOSTILE_URLS.values(), ids=HOSTILE_URLS.keys())
def test_a_hostile_url_costs_an_attempt_and_nothing_connects(
    make_harness: Callable[..., WebhookHarness], url: str
) -> None:
    with witness(make_harness) as (harness, receiver):
        error = attempted(harness, url.format(port=receiver.port))

    assert error == "refused_target"
    assert receiver.connections == 0


@pytest.mark.parametrize("resolve", NAMES.values(), ids=NAMES.keys())
def test_a_name_that_leads_inside_is_refused_when_it_is_resolved(
    make_harness: Callable[..., WebhookHarness], resolve: Callable[..., Any]
) -> None:
    with witness(make_harness, resolve=resolve) as (harness, receiver):
        error = attempted(harness, "https://hooks.example.com/in")

    assert error == "refused_target"
    assert receiver.connections == 0


def test_a_name_whose_answer_changes_is_dialled_where_it_was_checked_and_refused_next_time(
    make_harness: Callable[..., WebhookHarness],
) -> None:
    changing = chain([answers(PUBLIC)], repeat(answers("127.0.0.1")))
    dialled: list[str] = []

    with Receiver(reply(500)) as receiver:

        def dial(address: tuple[str, int], timeout: float) -> socket.socket:
            dialled.append(address[0])
            return disguised(receiver.port)(address, timeout)

        harness = make_harness(outbound=OutboundHttp(resolve=lambda *a: next(changing)(*a), dial=dial))
        delivery_id = harness.announce("http://rebinding.example/")
        harness.run(minutes=10)

    assert dialled == [PUBLIC]
    attempts = harness.stored(delivery_id).attempts
    assert [one.status or one.error for one in attempts] == [500, "refused_target", "refused_target"]


def test_a_connection_that_ended_up_elsewhere_gets_no_byte(
    make_harness: Callable[..., WebhookHarness],
) -> None:
    with Receiver(reply()) as receiver:
        detour = OutboundHttp(
            resolve=answers(PUBLIC),
            dial=lambda _, timeout: socket.create_connection(("127.0.0.1", receiver.port), timeout),
        )
        error = attempted(make_harness(outbound=detour), "http://hooks.example.com/")

    assert error == "refused_target"
    assert receiver.asked == []


def test_a_redirect_to_a_private_address_is_a_failure_and_nothing_connects(
    make_harness: Callable[..., WebhookHarness],
) -> None:
    with Receiver(reply()) as inside:
        away = f"Location: {inside.url}/\r\n"
        with Receiver(reply(307, headers=away)) as receiver:
            harness = make_harness(
                outbound=OutboundHttp(resolve=answers(PUBLIC), dial=disguised(receiver.port))
            )
            delivery_id = harness.announce("http://hooks.example.com/")
            harness.take(delivery_id, 1)

    assert harness.stored(delivery_id).attempts[0].status == 307
    assert harness.stored(delivery_id).state is DeliveryState.PENDING
    assert inside.connections == 0


@pytest.mark.parametrize("address", [PUBLIC, "2606:2800:220:1:248:1893:25c8:1946"])
def test_an_ordinary_public_name_passes(make_harness: Callable[..., WebhookHarness], address: str) -> None:
    with witness(make_harness, resolve=answers(address)) as (harness, receiver):
        delivery_id = harness.announce("http://hooks.example.com/in?x=1")
        harness.take(delivery_id, 1)

    assert harness.stored(delivery_id).state is DeliveryState.DELIVERED
    assert receiver.asked[0].startswith(b"POST /in?x=1 HTTP/1.1\r\n")


@pytest.mark.parametrize(("status", "state"), [(200, DeliveryState.DELIVERED), (500, DeliveryState.PENDING)])
def test_an_endless_answer_costs_one_attempt_and_no_memory(
    harness: WebhookHarness, status: int, state: DeliveryState
) -> None:
    endless = forever(f"HTTP/1.1 {status} Because\r\n\r\n".encode(), b"x" * 65536)
    with Receiver(endless) as receiver:
        delivery_id = harness.announce(receiver.url)
        tracemalloc.start()
        harness.take(delivery_id, 1)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()

    delivery = harness.stored(delivery_id)
    assert (delivery.attempt, delivery.state) == (1, state)
    assert delivery.attempts[0].answer == "x" * 200
    assert most < 3_000_000
