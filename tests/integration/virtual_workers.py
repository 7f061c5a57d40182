"""The workers of every queue side by side in virtual time, over the real handlers.

Each job is a thread, of which one runs at a time. Whoever waits, as for an application that hangs, lets the
others go on; when all wait, the clock goes to the first who is done. So minutes take no longer than the calls
to the emulator that are made in them, and how long something waits is counted and not measured.
"""

import heapq
import math
import threading
from collections import Counter, deque
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from itertools import count
from typing import Any

from functions.shared.domain.delivery.targets import HttpResponse, OutboundFailed
from functions.shared.domain.messages import DeliveryMessage, LookMessage, StepMessage
from functions.shared.outbound.http import OutboundHttp
from functions.shared.platform.aws import Queues
from tests.integration.harness import CONSUMERS, Context, Harness
from tests.integration.wire import Made

WORKERS = 10  # MAX_CONCURRENT_JOBS
_INVOCATION_SECONDS = 0.03  # what a message costs a worker that has nothing to wait for


class _Job:
    def __init__(self, work: Callable[[], object]) -> None:
        self.work = work
        self.turn = threading.Semaphore(0)
        self.thread: threading.Thread | None = None


class VirtualWorkers:
    """Takes the place of the harness's queues, network and sleep."""

    def __init__(self, harness: Harness) -> None:
        self._harness = harness
        self._order = count()
        self._waiting: list[tuple[datetime, int, _Job]] = []
        self._running: _Job | None = None
        self._back = threading.Semaphore(0)
        self._error: BaseException | None = None
        self._busy: Counter[str] = Counter()
        self._backlog: dict[str, deque[str]] = {queue: deque() for queue in CONSUMERS}
        self.copies = 1  # of each message
        harness.wiring.queues = _Queues(self)
        harness.wiring.wait = self.wait
        harness.wire.before = self._before_call

    def now(self) -> datetime:
        return self._harness.now()

    # For whoever is a job

    def wait(self, seconds: float) -> None:
        """Of the one that runs, and of whatever threads it has: others go on meanwhile."""
        job, wire = self._running, self._harness.wire
        assert job is not None
        self._later(seconds, job)
        whose = wire.handler, wire.about
        wire.handler = wire.about = ""
        self._back.release()
        job.turn.acquire()
        wire.handler, wire.about = whose

    # For the test

    def at(self, seconds: float, work: Callable[[], object]) -> None:
        """Somebody does this so much later."""
        self._later(seconds, _Job(work))

    def run(self, seconds: float) -> None:
        end = self.now() + timedelta(seconds=seconds)
        while self._waiting and self._waiting[0][0] <= end:
            at, _, job = heapq.heappop(self._waiting)
            self._pass_until(at)
            self._resume(job)
        self._pass_until(end)
        self._harness.tell_time()

    def send(self, queue: str, body: str, delay_seconds: float) -> None:
        delay = max(0, min(900, math.ceil(delay_seconds)))  # as SQS has it
        for _ in range(self.copies):
            self._later(delay, _Job(lambda: self._arrive(queue, body)))

    def _later(self, seconds: float, job: _Job) -> None:
        at = self.now() + timedelta(seconds=seconds)
        heapq.heappush(self._waiting, (at, next(self._order), job))

    def _pass_until(self, at: datetime) -> None:
        if at > self.now():
            self._harness.pass_unseen((at - self.now()).total_seconds())

    def _before_call(self, made: Made) -> None:
        if made.name.startswith("novita "):
            self._harness.tell_time()

    def _resume(self, job: _Job) -> None:
        self._running = job
        if job.thread is None:
            job.thread = threading.Thread(target=self._do, args=(job,), daemon=True)
            job.thread.start()
        else:
            job.turn.release()
        self._back.acquire()
        self._running = None
        if self._error:
            raise self._error

    def _do(self, job: _Job) -> None:
        try:
            job.work()
        except BaseException as error:  # noqa: BLE001  # raised again where the test waits
            self._error = error
        finally:
            self._back.release()

    def _arrive(self, queue: str, body: str) -> None:
        if self._busy[queue] >= WORKERS:
            self._backlog[queue].append(body)
            return
        self._busy[queue] += 1
        self._handle(queue, body)
        self._busy[queue] -= 1
        if self._backlog[queue]:
            following = self._backlog[queue].popleft()
            self._later(0, _Job(lambda: self._arrive(queue, following)))

    def _handle(self, queue: str, body: str) -> None:
        self.wait(_INVOCATION_SECONDS)
        with self._harness.wire.handling(queue):
            answer = CONSUMERS[queue]({"Records": [self._harness.as_received(queue, body)]}, Context())
        assert not answer["batchItemFailures"]


class _Queues(Queues):
    def __init__(self, workers: VirtualWorkers) -> None:
        self._workers = workers

    def send(self, queue: str, message: StepMessage | DeliveryMessage, delay_seconds: float = 0) -> bool:
        self._workers.send(queue, message.as_json(), delay_seconds)
        return True

    def send_looks(self, queue: str, looks: Sequence[LookMessage], now: datetime) -> None:
        for look in looks:
            self._workers.send(queue, look.as_json(), (look.at - now).total_seconds())


class VirtualNetwork(OutboundHttp):
    """Applications and receivers by address: whoever `hangs` takes all the time that it is given."""

    def __init__(
        self, workers: VirtualWorkers, whose: Callable[[str], str], hangs: Callable[[str], bool]
    ) -> None:
        self._workers = workers
        self._whose = whose
        self._hangs = hangs
        self._under_way: Counter[str] = Counter()
        self._hanging = 0
        self.began: list[tuple[datetime, str]] = []
        self.most_open: Counter[str] = Counter()  # at once, of each application or receiver
        self.most_hanging = 0  # at once, of all

    def request(self, method: str, url: str, *, timeout_total: float, **_: Any) -> HttpResponse:
        assert method in ("GET", "POST")
        whose = self._whose(url)
        hangs = self._hangs(whose)
        self.began.append((self._workers.now(), url))
        self._under_way[whose] += 1
        self._hanging += hangs
        self.most_open[whose] = max(self.most_open[whose], self._under_way[whose])
        self.most_hanging = max(self.most_hanging, self._hanging)
        self._workers.wait(timeout_total if hangs else 0.1)
        self._under_way[whose] -= 1
        self._hanging -= hangs
        if hangs:
            raise OutboundFailed("timeout", "timeout")
        return HttpResponse(200, {}, b"", 0.1, "8.8.8.8")
