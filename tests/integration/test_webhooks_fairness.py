"""A receiver that hangs keeps nobody else waiting: ten workers in real time, on a table that many write to.

Times are those of the product scaled down: 15 s for a receiver to answer and 20 s for the other's first
attempt to begin are 6 s and 8 s here. Without a bound on one receiver's share it would begin after 30 s.
"""

import heapq
import math
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import count

import pytest

from functions.shared.domain.delivery.webhooks import DeliveryState, read_master, read_waits
from functions.shared.domain.messages import DeliveryMessage, StepMessage
from functions.shared.platform.aws import Queues
from functions.shared.platform.wiring import utc_now
from functions.shared.stores.deliveries import ReceiverSlots
from functions.shared.stores.jobs import SlowSlots
from functions.webhook.handler import Deliver
from tests.integration.harness import MASTER, Harness
from tests.unit.outbound.test_outbound_servers import Receiver, reply
from tests.unit.webhook.harness import announcement

TIMEOUT_SECONDS, LIMIT_SECONDS = 6.0, 8.0
WORKERS = 10  # MAX_CONCURRENT_JOBS


class LiveQueue(Queues):
    """First come first served, with delays in whole seconds; closing it sends the workers home."""

    def __init__(self) -> None:
        self._ready = threading.Condition()
        self._order = count()
        self._waiting: list[tuple[float, int, DeliveryMessage]] = []
        self._closed = False

    def send(self, queue: str, message: StepMessage | DeliveryMessage, delay_seconds: float = 0) -> bool:
        assert queue == "webhook"
        assert isinstance(message, DeliveryMessage)
        with self._ready:
            at = time.monotonic() + math.ceil(delay_seconds)
            heapq.heappush(self._waiting, (at, next(self._order), message))
            self._ready.notify()
        return True

    def take(self) -> DeliveryMessage | None:
        with self._ready:
            while not self._closed:
                wait = self._waiting[0][0] - time.monotonic() if self._waiting else 1.0
                if self._waiting and wait <= 0:
                    return heapq.heappop(self._waiting)[2]
                self._ready.wait(wait)
        return None

    def close(self) -> None:
        with self._ready:
            self._closed = True
            self._ready.notify_all()


@pytest.fixture
def queue() -> LiveQueue:
    return LiveQueue()


@pytest.fixture
def deliver(harness: Harness, queue: LiveQueue) -> Deliver:
    wired = harness.wiring
    masters = [read_master(MASTER)]
    waits = read_waits(wired.settings.webhook_waits)
    return Deliver(
        wired.deliveries,
        wired.receiver_slots,
        queue,
        wired.outbound,
        lambda: masters,
        utc_now,
        waits,
        TIMEOUT_SECONDS,
    )


def work(deliver: Deliver, queue: LiveQueue) -> None:
    while message := queue.take():
        deliver(message)


def announced(deliver: Deliver, url: str, number: int) -> str:
    """Each of an instance of its own: none waits for another's event."""
    told = announcement(url, instance_id=f"inst_{number}")
    delivery_id, _ = deliver.deliveries.add(told, url, utc_now())
    deliver.queues.send("webhook", DeliveryMessage(delivery_id, 1, "corr"))
    return delivery_id


def test_fifty_deliveries_to_a_receiver_that_hangs_do_not_delay_anothers_first_attempt(
    deliver: Deliver, queue: LiveQueue
) -> None:
    reached, over = threading.Event(), threading.Event()

    def hang(_: socket.socket) -> None:
        over.wait(60)

    def answer(peer: socket.socket) -> None:
        reached.set()
        reply()(peer)

    with Receiver(hang) as hanging, Receiver(answer) as other, ThreadPoolExecutor(WORKERS) as pool:
        stuck = [announced(deliver, hanging.url, sequence) for sequence in range(1, 51)]
        last = announced(deliver, other.url, 51)
        workers = [pool.submit(work, deliver, queue) for _ in range(WORKERS)]
        in_time = reached.wait(LIMIT_SECONDS)
        queue.close()
        over.set()
        for worker in workers:
            worker.result(30)

    assert in_time, f"not within {LIMIT_SECONDS} s"
    assert hanging.most_open <= 3
    delivered = deliver.deliveries.get(last)
    assert delivered is not None
    assert delivered.state is DeliveryState.DELIVERED
    waiting = [one for one in map(deliver.deliveries.get, stuck) if one and one.attempt == 0]
    assert len(waiting) >= 40
    assert not any(one.attempts for one in waiting)  # waiting is not failing
    assert all(one.state is DeliveryState.PENDING for one in waiting)


def test_eight_workers_with_the_same_attempt_send_once_and_record_once(
    deliver: Deliver, harness: Harness
) -> None:
    # A slot for each: one that finds none puts the delivery off, and then nobody sends it for now.
    table = harness.wiring.table
    deliver = replace(deliver, receiver_slots=ReceiverSlots(table, 8, SlowSlots(table, "webhook", WORKERS)))
    with Receiver(reply()) as receiver:
        delivery_id = announced(deliver, receiver.url, 1)
        together = threading.Barrier(8)

        def take() -> None:
            together.wait()
            deliver(DeliveryMessage(delivery_id, 1, "corr"))

        with ThreadPoolExecutor(8) as pool:
            for worker in [pool.submit(take) for _ in range(8)]:
                worker.result(30)

    delivery = deliver.deliveries.get(delivery_id)
    assert delivery is not None
    assert len(receiver.asked) == 1
    assert [one.number for one in delivery.attempts] == [1]
    assert delivery.state is DeliveryState.DELIVERED
