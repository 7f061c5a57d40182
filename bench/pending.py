"""Instances that wait for their machines, on a virtual clock: the real steps, the simulator's own state.

Everything is real but three things: the table is in memory, messages go from hand to hand (delayed by whole
seconds, as SQS does), and the simulator is asked without HTTP between.
"""

import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from heapq import heappop, heappush
from itertools import count
from math import ceil
from statistics import fmean
from typing import Any

from bench.gate import OpenGate
from bench.memory import MemoryTable
from functions.shared.domain.ids import machine_name, new_instance_id
from functions.shared.domain.instance.commands import begin_create
from functions.shared.domain.instance.decision import Decision
from functions.shared.domain.instance.observations import Buy, Observation, PurchasesRead
from functions.shared.domain.instance.record import Purchase, PurchaseOutcome, Queue, Spec
from functions.shared.domain.instance.status import Status
from functions.shared.domain.messages import LookMessage, StepMessage
from functions.shared.engine.looks import TakeLook
from functions.shared.engine.step import StepCalls
from functions.shared.novita.calls import NovitaCall, NovitaKey, NovitaResponse
from functions.shared.novita.client import Novita
from functions.shared.platform.invocation import Invocation, TimeBudget
from functions.shared.platform.observability import logger
from functions.shared.platform.settings import Settings
from functions.shared.platform.wiring import Wiring
from functions.shared.stores.instances import purchase_item, read_record
from functions.shared.stores.table import Write
from local.novita import instance_payloads, purchase
from local.novita.clock import Clock
from local.novita.errors import ApiError, error_body
from local.novita.machines import Machine
from local.novita.orders import read_order
from local.novita.query import page_slice
from local.novita.settings import Settings as SimulatorSettings
from local.novita.state import SimulatorState

INTERVAL = 30.0
RATE_LIMIT = 100
MEDIAN_SECONDS, SIGMA = 240.0, 0.3
HOP_SECONDS = 0.05  # from a message sent to the function that has it

_ORDER = {"gpuNum": 1, "rootfsSize": 60, "imageUrl": "image", "ports": "8188/http", "kind": "gpu"}
_QUEUES = ("create", "monitor", "startup", "webhook")
_REQUIRED = {
    **{f"{name}_queue_url": name for name in _QUEUES},
    "dead_letter_queue_url": "dead",
    **dict.fromkeys(("table_name", "topic_arn", "novita_secret_id", "webhook_secret_id"), "-"),
}


class InProcess:
    """Novita's API as the simulator answers it, without the way there; every call is counted."""

    def __init__(self, state: SimulatorState) -> None:
        self._state = state
        self.calls: list[float] = []
        self.gets: list[float] = []  # those of the calls that asked for one machine

    def send(self, call: NovitaCall, **_: Any) -> NovitaResponse:
        self.calls.append(self._state.clock.now())
        try:
            if call.path == "/gpu/instance":
                self.gets.append(self._state.clock.now())
                return NovitaResponse(
                    200, self._shown(self._state.machine_for_get(call.query["instanceId"]), in_list=False)
                )
            return NovitaResponse(200, self._page(int(call.query["pageSize"]), int(call.query["pageNum"])))
        except ApiError as error:
            status = error.status(self._state.settings.not_found_as)
            return NovitaResponse(status, error_body(status, error.reason, error.message))

    def _page(self, size: int, number: int) -> dict[str, Any]:
        settings, listed = self._state.settings, self._state.listed_machines()
        size = min(size, settings.max_page_size or size)
        shown = page_slice(listed, size, number, settings.page_start)
        return {"instances": [self._shown(one, in_list=True) for one in shown], "total": len(listed)}

    def _shown(self, machine: Machine, *, in_list: bool) -> dict[str, Any]:
        state = self._state
        t = state.list_time() if in_list else state.clock.now()
        name = state.region_name(machine.terms.region)
        return instance_payloads.instance(
            machine, instance_payloads.View(t, state.settings, "http://sim", name, in_list)
        )


class Hands:
    """SQS: messages that come when their whole seconds are over."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self._order = count()
        self.waiting: list[tuple[datetime, int, str, str]] = []
        self.requests = self.messages = 0

    def send_message(self, *, QueueUrl: str, MessageBody: str, DelaySeconds: int) -> None:  # noqa: N803  # SQS's
        self.requests += 1
        self._take(QueueUrl, MessageBody, DelaySeconds)

    def send_message_batch(self, *, QueueUrl: str, Entries: list[dict[str, Any]]) -> None:  # noqa: N803  # SQS's
        self.requests += 1
        for entry in Entries:
            self._take(QueueUrl, entry["MessageBody"], entry["DelaySeconds"])

    def _take(self, QueueUrl: str, MessageBody: str, delay_seconds: int) -> None:  # noqa: N803  # SQS's
        self.messages += 1
        at = self._now() + timedelta(seconds=delay_seconds + HOP_SECONDS)
        heappush(self.waiting, (at, next(self._order), QueueUrl, MessageBody))


class BenchWiring(Wiring):
    def __init__(self, state: SimulatorState, **settings: Any) -> None:
        self._at = datetime(2030, 1, 1, tzinfo=UTC)
        super().__init__(Settings(**_REQUIRED | settings), lambda: self._at, self._pass)
        self.hands = Hands(lambda: self._at)
        self.state = state
        self.api = InProcess(state)
        self.go_to(self._at)

    def go_to(self, at: datetime) -> None:
        self._at = at
        self.state.clock.set(at.timestamp())

    def _pass(self, seconds: float) -> None:
        self.go_to(self._at + timedelta(seconds=seconds))

    @cached_property
    def table(self) -> MemoryTable:
        return MemoryTable()

    def client(self, service: Any) -> Any:
        return {"sqs": self.hands}[service]

    @cached_property
    def novita(self) -> Novita:
        gate = OpenGate()
        made = Novita(
            "http://sim",
            key=lambda: NovitaKey("key"),
            correlation=lambda: "",
            circuits=gate,
            limiter=gate,
            wait=self.wait,
            clock=lambda: self._at.timestamp(),
            now=self.clock,
        )
        made._attempts._transport = self.api
        return made


@dataclass
class Boot:
    bought_at: float
    running_at: float
    known_at: float = 0.0

    @property
    def delay(self) -> float:
        return self.known_at - self.running_at


@dataclass
class Looks:
    """Those between steps."""

    taken: int = 0
    asked: int = 0  # Novita
    told_nobody: int = 0
    written_by_them: int = 0  # by those that told nobody
    table_reads: int = 0
    pages: int = 0  # that they read


@dataclass
class Figures:
    pending: int
    boots: list[Boot] = field(default_factory=list)
    calls: list[float] = field(default_factory=list)
    gets: list[float] = field(default_factory=list)
    seconds: float = 0.0
    table_reads: int = 0
    table_writes: int = 0
    looks: Looks = field(default_factory=Looks)

    @property
    def mean_delay(self) -> float:
        return fmean(boot.delay for boot in self.boots)

    @property
    def late_delay(self) -> float:
        """The 95th percentile."""
        delays = sorted(boot.delay for boot in self.boots)
        return delays[ceil(0.95 * len(delays)) - 1]

    @property
    def calls_per_minute(self) -> float:
        return 60 * len(self.calls) / self.seconds

    @property
    def most_calls_in_a_minute(self) -> int:
        return most_in_a_minute(self.calls)

    @property
    def most_reads_in_a_minute(self) -> int:
        """Of the list, page by page."""
        return most_in_a_minute(sorted((Counter(self.calls) - Counter(self.gets)).elements()))

    def at_fixed_interval(self) -> "Figures":
        """The same boots, each instance asked for once in the interval from its purchase on."""
        step = INTERVAL + HOP_SECONDS
        fixed = Figures(self.pending, seconds=self.seconds)
        for boot in self.boots:
            looks = ceil((boot.running_at - boot.bought_at) / step)
            at = boot.bought_at + looks * step
            fixed.boots.append(Boot(boot.bought_at, boot.running_at, at))
            fixed.calls += [boot.bought_at + number * step for number in range(1, looks + 1)]
        fixed.calls.sort()
        return fixed


def most_in_a_minute(times: list[float]) -> int:
    most = first = 0
    for last, at in enumerate(times):
        while times[first] <= at - 60:
            first += 1
        most = max(most, last - first + 1)
    return most


class Pending:
    """So many instances waiting at any time: each that has come up gives way to a new one."""

    def __init__(self, pending: int, seed: int, **simulator: Any) -> None:
        settings = {"boot_seconds": MEDIAN_SECONDS, "boot_seconds_sigma": SIGMA, "boot_seed": seed}
        state = SimulatorState(Clock("virtual"), SimulatorSettings(**settings | simulator))
        self.wired = BenchWiring(state, novita_rate_limit=RATE_LIMIT, instance_poll_interval=INTERVAL)
        self.pending = pending
        self._boots: dict[str, Boot] = {}
        run = Invocation(self.wired, TimeBudget(lambda: 60.0))
        self._handlers = {**run.compose(StepCalls).handlers(), Buy: self._buy}
        self._take_look = run.compose(TakeLook)

    def learn(self, boots: int) -> None:
        """One after the other, until so many have been seen."""
        self.run(until=lambda figures: len(figures.boots) >= boots, most_pending=1)

    def run_for(self, seconds: float, ramp: float) -> Figures:
        end = self.wired.clock() + timedelta(seconds=seconds)
        return self.run(lambda _: self.wired.clock() >= end, ramp=ramp)

    def run(
        self, until: Callable[[Figures], bool], most_pending: int | None = None, ramp: float = 0.0
    ) -> Figures:
        """`ramp`: the seconds over which the first ones are bought."""
        pending = self.pending if most_pending is None else most_pending
        figures = Figures(pending)
        began = self.wired.clock()
        self.wired.api.calls, self.wired.api.gets = figures.calls, figures.gets
        reads, writes = self.wired.table.reads, self.wired.table.writes
        starts = [began + timedelta(seconds=ramp * number / pending) for number in range(pending)]
        while not until(figures):
            at = self.wired.hands.waiting[0][0] if self.wired.hands.waiting else None
            if starts and (at is None or starts[0] <= at):
                self.wired.go_to(starts.pop(0))
                self._create()
                continue
            self._take_next(figures)
        figures.seconds = (self.wired.clock() - began).total_seconds()
        figures.table_reads, figures.table_writes = (
            self.wired.table.reads - reads,
            self.wired.table.writes - writes,
        )
        self._drop_all()
        return figures

    def _take_next(self, figures: Figures) -> None:
        at, _, queue, body = heappop(self.wired.hands.waiting)
        self.wired.go_to(max(at, self.wired.clock()))
        if look := LookMessage.from_json(body):
            self._look(look, figures.looks)
            return
        message = StepMessage.from_json(body)
        self.wired.steps.take(message, Queue(queue), self._handlers)
        boot = self._boots.get(message.instance_id)
        item = self.wired.table.get(message.instance_id, "record")
        if boot is None or item is None:
            return
        record = read_record(item)
        if record.status is not Status.RUNNING:
            return
        boot.known_at = self.wired.clock().timestamp()
        figures.boots.append(boot)
        self._drop(message.instance_id, record.machine.id or "")
        self._create()

    def _look(self, look: LookMessage, looks: Looks) -> None:
        wired = self.wired
        calls, sent = len(wired.api.calls), wired.hands.messages
        reads, writes = wired.table.reads, wired.table.writes
        self._take_look(look)
        looks.taken += 1
        looks.asked += len(wired.api.calls) > calls
        looks.pages += len(wired.api.calls) - calls
        looks.table_reads += wired.table.reads - reads
        if wired.hands.messages == sent:
            looks.told_nobody += 1
            looks.written_by_them += wired.table.writes - writes

    def _create(self) -> None:
        now = self.wired.clock()
        made = begin_create(
            instance_id=new_instance_id(now),
            name="bench",
            spec=Spec("RTX 4090 24GB", "107672"),
            webhook_url=None,
            actor="bench",
            correlation_id="bench",
            now=now,
            policy=self.wired.policy,
        )
        self.wired.steps.step(self.wired.instances.add(made), self._handlers)

    def _buy(self, decision: Decision, _: Buy) -> tuple[Decision, Observation]:
        record, state, now = decision.record, self.wired.state, decision.now
        name = machine_name(record.name, self.wired.deployment.id(), record.id, 1)
        product = next(iter(state.products.values()))
        order = read_order(
            {**_ORDER, "name": name, "productId": product.id},
            state.settings,
        )
        region = next(one for one in state.clusters.values() if one.region in product.regions)
        machine = purchase.add_machine(state, order, product, region)
        running_at = machine.statuses.steps[-1].at
        self._boots[record.id] = Boot(now.timestamp(), running_at)
        bought = Purchase(
            instance_id=record.id,
            number=1,
            name=name,
            outcome=PurchaseOutcome.BOUGHT,
            intended_at=now,
            lease_until=now,
            product_id=product.id,
            region=region.region,
            expects_endpoints=True,
            machine_id=machine.id,
            ended_at=now,
        )
        self.wired.table.put(Write(purchase_item(bought)))
        boot = self.wired.boot_times.expected("create", product.id, region.region)
        return decision, PurchasesRead((bought,), boot)

    def _drop(self, instance_id: str, machine_id: str) -> None:
        self._boots.pop(instance_id)
        self.wired.table.forget(instance_id)
        self.wired.state.machines.pop(machine_id)

    def _drop_all(self) -> None:
        self.wired.hands.waiting.clear()
        self.wired.state.machines.clear()
        for instance_id in list(self._boots):
            self.wired.table.forget(instance_id)
        self._boots.clear()


def quiet() -> None:
    logger.setLevel(logging.ERROR)
