"""The way of a webhook in virtual time: a table, a queue that keeps delays, workers, a sweep every minute,
and receivers that are real servers on loopback."""

import heapq
import json
import math
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from typing import Any, cast

import pytest
from standardwebhooks import Webhook, webhooks

from functions.shared.domain.delivery.webhooks import (
    Announcement,
    Delivery,
    derive_secret,
    origin_of,
    read_waits,
    show_secret,
)
from functions.shared.domain.messages import DeliveryMessage, StepMessage
from functions.shared.engine.sweep import Sweep
from functions.shared.outbound.http import OutboundHttp
from functions.shared.platform.aws import Queues
from functions.shared.platform.invocation import TimeBudget
from functions.shared.stores.caps import no_caps
from functions.shared.stores.deliveries import Deliveries, ReceiverSlots
from functions.shared.stores.jobs import SlowSlots
from functions.shared.stores.table import Due, Table
from functions.webhook.handler import Deliver

START = datetime(2030, 1, 1, 12, tzinfo=UTC)
CURRENT, FORMER = b"c" * 32, b"f" * 32
WAITS = read_waits("5,300,1800,7200,18000,36000,50400,72000,86400")
WORKERS = 10
GRACE, RESEND = timedelta(seconds=15), timedelta(seconds=60)
INSTANCE = "inst_01JGFJJZ00ABCDEFGHJKMNPQRS"


class Clock:
    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        return self.now


@dataclass
class Received:
    at: datetime
    headers: dict[str, str]
    body: bytes

    def verified(self, secret: str) -> Any:
        """What a receiver with that secret makes of it, by the clock of its arrival."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(webhooks, "datetime", _stopped(self.at))
            return Webhook(secret).verify(self.body, self.headers)


def _stopped(at: datetime) -> type[datetime]:
    class Stopped(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> "Stopped":  # noqa: ARG003  # as datetime has it
            return cls.fromtimestamp(at.timestamp(), UTC)

    return Stopped


@dataclass
class Hook:
    """A receiver: keeps what came, answers with a status, or a status and headers; the last one for good."""

    url: str
    clock: Callable[[], datetime]
    answers: list[int | tuple[int, dict[str, str]]] = field(default_factory=lambda: [200])
    body: bytes = b""
    received: list[Received] = field(default_factory=list)
    meanwhile: Callable[[], None] = lambda: None

    @property
    def times(self) -> list[datetime]:
        return [one.at for one in self.received]

    def secret(self, master: bytes = CURRENT) -> str:
        return show_secret(derive_secret(master, origin_of(self.url)))

    def take(self, headers: dict[str, str], body: bytes) -> tuple[int, dict[str, str]]:
        self.received.append(Received(self.clock(), headers, body))
        self.meanwhile()
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return answer if isinstance(answer, tuple) else (answer, {})


@contextmanager
def listening(clock: Callable[[], datetime], *answers: int | tuple[int, dict[str, str]]) -> Iterator[Hook]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            status, headers = hook.take({k.lower(): v for k, v in self.headers.items()}, body)
            self.send_response(status)
            for name, value in {"Content-Length": str(len(hook.body)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(hook.body)

        do_GET = do_POST  # noqa: N815  # if anybody followed a redirect

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        hook = Hook(f"http://127.0.0.1:{server.server_port}/hook", clock, list(answers) or [200])
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield hook
        server.shutdown()


class DelayQueue(Queues):
    """As SQS delays: whole seconds, 900 at most."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._order = count()
        self.waiting: list[tuple[datetime, int, DeliveryMessage]] = []
        self.sent: list[DeliveryMessage] = []
        self.copies = 1
        self.loses_delayed = False

    def send(self, queue: str, message: StepMessage | DeliveryMessage, delay_seconds: float = 0) -> bool:
        assert queue == "webhook"
        assert isinstance(message, DeliveryMessage)
        self.sent.append(message)
        delay = timedelta(seconds=max(0, min(900, math.ceil(delay_seconds))))
        for _ in range(0 if delay and self.loses_delayed else self.copies):
            heapq.heappush(self.waiting, (self._clock() + delay, next(self._order), message))
        return True


class WebhookHarness:
    def __init__(
        self,
        table: Table,
        *,
        waits: Sequence[float] = WAITS,
        slots: int = 3,
        outbound: OutboundHttp | None = None,
        masters: Sequence[bytes] = (CURRENT,),
    ) -> None:
        self.table = table
        self.clock = Clock()
        self.queue = DelayQueue(self.clock)
        self.deliveries = Deliveries(table)
        self.receivers = ReceiverSlots(table, slots, SlowSlots(table, "webhook", WORKERS))
        self.deliver = Deliver(
            self.deliveries,
            self.receivers,
            self.queue,
            outbound or OutboundHttp("127.0.0.1/32"),
            lambda: masters,
            self.clock,
            waits,
            15.0,
        )
        self._due = Due(table)
        self._sweep = Sweep(
            self._due,
            self.queue,
            cast(Any, None),
            no_caps(table),
            self.clock,
            TimeBudget(lambda: 60.0),
            GRACE.total_seconds(),
            RESEND.total_seconds(),
        )
        self._began = self.clock.now

    def announce(self, url: str, sequence: int = 1, instance_id: str = INSTANCE) -> str:
        """What the announcer does with an event of an instance that has a webhook."""
        told = announcement(url, sequence, instance_id)
        delivery_id, _ = self.deliveries.add(told, url, self.clock())
        self.queue.send("webhook", DeliveryMessage(delivery_id, 1, told.correlation_id))
        return delivery_id

    def stored(self, delivery_id: str) -> Delivery:
        delivery = self.deliveries.get(delivery_id)
        assert delivery is not None
        return delivery

    def take(self, delivery_id: str, attempt: int) -> None:
        self.deliver(DeliveryMessage(delivery_id, attempt, "corr"))

    def sweep(self) -> int:
        return self._sweep()["deliveries"]

    def pass_time(self, seconds: float) -> None:
        self.clock.now += timedelta(seconds=seconds)

    def run(self, **time: float) -> None:
        """Everything that happens within this time; sweeps that would find nothing are left out."""
        end = self.clock.now + timedelta(**time)
        while True:
            message = self.queue.waiting[0][0] if self.queue.waiting else end
            sweep = self._next_sweep() or end
            if min(message, sweep) >= end:
                break
            self.clock.now = max(self.clock.now, min(message, sweep))
            if message <= sweep:
                self.deliver(heapq.heappop(self.queue.waiting)[2])
            else:
                self.sweep()
        self.clock.now = end

    def _next_sweep(self) -> datetime | None:
        """The first full minute at which something is overdue."""
        found = self._due.overdue("delivery", self.clock.now + timedelta(days=30), 1)
        if not found:
            return None
        overdue = datetime.fromtimestamp(found[0]["dueAt"] / 1000, UTC) + GRACE
        minutes = math.ceil((max(overdue, self.clock.now) - self._began) / RESEND)
        return self._began + minutes * RESEND


def announcement(url: str, sequence: int = 1, instance_id: str = INSTANCE) -> Announcement:
    event_id = f"evt_{instance_id.removeprefix('inst_')}_{sequence}"
    body = json.dumps({"id": event_id, "sequence": sequence})
    return Announcement(event_id, "instance.ready", body, {}, instance_id, sequence, url, "corr")
