"""A deployment in which many creates wait to be bought: the real handlers and the real rate limiter, on a
virtual clock, with table, queues and Novita in this process."""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import cached_property
from typing import Any

from botocore.exceptions import ClientError

from bench.gate import OpenGate
from bench.pending import BenchWiring, InProcess
from bench.virtual_time import VirtualTableClock, dated
from functions.shared.domain.ids import new_instance_id
from functions.shared.domain.instance.commands import begin_create
from functions.shared.domain.instance.record import Spec
from functions.shared.domain.resilience import SlotClass
from functions.shared.novita.calls import NovitaCall, NovitaKey, NovitaResponse
from functions.shared.novita.client import Novita
from functions.shared.platform import wiring
from functions.shared.platform.wiring import READS_AS
from functions.shared.stores.rate_limiter import RateLimiter
from functions.shared.stores.table import TableClock
from local.novita import catalog_payloads, purchase
from local.novita.clock import Clock
from local.novita.orders import read_order
from local.novita.settings import Settings as SimulatorSettings
from local.novita.state import SimulatorState

PRODUCT, TEMPLATE = "RTX 4090 24GB", "107672"


class Shop(InProcess):
    """Novita with what it sells."""

    def __init__(self, state: SimulatorState) -> None:
        super().__init__(state)
        self.bought: list[float] = []
        self.paths: Counter[str] = Counter()

    def send(self, call: NovitaCall, **options: Any) -> NovitaResponse:
        self.paths[call.path] += 1
        answers: dict[str, Callable[[NovitaCall], Any]] = {
            "/clusters": self._clusters,
            "/products": self._products,
            "/template": self._template,
            "/gpu/instance/create": self._buy,
        }
        if call.path not in answers:
            return super().send(call, **options)
        self.calls.append(self._state.clock.now())
        return NovitaResponse(200, answers[call.path](call))

    def _clusters(self, _: NovitaCall) -> Any:
        return {"data": [catalog_payloads.cluster(self._state, one) for one in self._state.clusters.values()]}

    def _products(self, _: NovitaCall) -> Any:
        state, stock = self._state, self._state.stock()
        every = state.products.values()
        return {"data": [catalog_payloads.product(state, one, stock, None, 1) for one in every]}

    def _template(self, call: NovitaCall) -> Any:
        found = self._state.templates[call.query["templateId"]]
        return {"template": catalog_payloads.template(self._state, found)}

    def _buy(self, call: NovitaCall) -> Any:
        order = read_order(json.loads(json.dumps(call.body)), self._state.settings)
        self.bought.append(self._state.clock.now())
        return {"id": purchase.buy(self._state, order).id}


class LimiterItem:
    """The rate limiter's item and its condition, as the table keeps them."""

    def __init__(self, wired: "ShopWiring") -> None:
        self._wired = wired
        self._item: dict[str, Any] | None = None
        self.writes = 0

    def get_item(self, **_: Any) -> dict[str, Any]:
        return dated(self._wired.clock()) | ({"Item": self._item} if self._item else {})

    def put_item(self, *, Item: dict[str, Any], **condition: Any) -> dict[str, Any]:  # noqa: N803  # AWS's
        values = condition.get("ExpressionAttributeValues")
        wanted = values[":version"]["N"] if values else None
        stands = self._item["version"]["N"] if self._item else None
        if wanted != stands:
            lost: Any = {"Error": {"Code": "ConditionalCheckFailedException"}, "Item": self._item}
            raise ClientError(lost | dated(self._wired.clock()), "PutItem")
        self.writes += 1
        self._item = Item
        return dated(self._wired.clock())


class _Proven:
    """The key of our own account."""

    def proven(self) -> bool:
        return True

    def believes(self, _: str) -> bool:
        return True


class ShopWiring(BenchWiring):
    def __init__(self, state: SimulatorState, **settings: Any) -> None:
        super().__init__(state, **settings)
        self.api = self.shop = Shop(state)
        self.limiter_item = LimiterItem(self)
        self.running = ""  # the function

    @cached_property
    def table_clock(self) -> TableClock:
        return VirtualTableClock(self.clock, self.clock)

    @cached_property
    def limiter(self) -> RateLimiter:
        return RateLimiter(
            self.limiter_item,  # type: ignore[arg-type]  # of the client's methods those that it uses
            "-",
            self.settings.novita_rate_limit,
            self.table_clock,
        )

    @cached_property
    def circuits(self) -> Any:
        return OpenGate()

    @cached_property
    def key_trust(self) -> Any:
        return _Proven()

    def reads_as(self) -> SlotClass:
        """One process is every function here."""
        return READS_AS.get(self.running, "looks")

    @cached_property
    def novita(self) -> Novita:
        made = Novita(
            "http://sim",
            key=lambda: NovitaKey("key", "1"),
            correlation=lambda: "",
            circuits=self.circuits,
            limiter=self.limiter,
            wait=lambda seconds: self.wait(seconds),
            clock=lambda: self.clock().timestamp(),
            now=self.clock,
            reads_as=self.reads_as,
        )
        made._attempts._transport = self.api
        return made


class _Wire:
    """What the workers ask a harness's wire."""

    def __init__(self, wired: ShopWiring) -> None:
        self._wired = wired
        self.about = ""
        self.before: Any = None

    @property
    def handler(self) -> str:
        return self._wired.running

    @handler.setter
    def handler(self, name: str) -> None:
        self._wired.running = name

    @contextmanager
    def handling(self, queue: str) -> Iterator[None]:
        outer, self.handler = self.handler, queue
        yield
        self.handler = outer


class BusyShop:
    """In the place of a harness, for `VirtualWorkers`."""

    def __init__(self, rate_limit: int, boot_seconds: float) -> None:
        settings = SimulatorSettings(
            boot_seconds=boot_seconds,
            boot_seconds_sigma=0.3,
            boot_seed=1,
            endpoint_in_list=True,
        )
        self.wiring = ShopWiring(SimulatorState(Clock("virtual"), settings), novita_rate_limit=rate_limit)
        self.novita = self.wiring.shop
        self.wire = _Wire(self.wiring)
        wiring.use(self.wiring)

    def now(self) -> Any:
        return self.wiring.clock()

    def pass_unseen(self, seconds: float) -> None:
        self.wiring.go_to(self.now() + timedelta(seconds=seconds))

    def tell_time(self) -> None:
        """The simulator has it already."""

    def as_received(self, queue: str, body: str) -> dict[str, Any]:
        return {
            "messageId": "message",
            "receiptHandle": "",
            "body": body,
            "attributes": {"ApproximateReceiveCount": "1"},
            "messageAttributes": {},
            "eventSource": "aws:sqs",
            "eventSourceARN": f"arn:aws:sqs:us-east-1:000000000000:{queue}",
            "awsRegion": "us-east-1",
        }

    def create(self) -> None:
        """Accepted and queued; what that takes is measured elsewhere."""
        wired, now = self.wiring, self.now()
        made = begin_create(
            instance_id=new_instance_id(now),
            name="bench",
            spec=Spec(PRODUCT, TEMPLATE),
            webhook_url=None,
            actor="bench",
            correlation_id="bench",
            now=now,
            policy=wired.policy,
        )
        wired.steps.enqueue(wired.instances.add(made), now)
