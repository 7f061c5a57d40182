"""Every call that the functions make to AWS and Novita, seen as it leaves and as its answer arrives."""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import cache, cached_property
from typing import Any

import boto3
from botocore import UNSIGNED
from botocore.config import Config

from bench.virtual_time import VirtualTableClock
from functions.shared.domain.instance.decision import Decision
from functions.shared.domain.instance.record import Instance
from functions.shared.domain.instance.status import Status
from functions.shared.domain.resilience import SlotClass
from functions.shared.engine.step import StepRunner
from functions.shared.novita.calls import NoResponse, NovitaCall, NovitaResponse
from functions.shared.novita.client import Novita
from functions.shared.platform.settings import Settings
from functions.shared.platform.wiring import READS_AS, Wiring, wiring
from functions.shared.stores.table import TableClock, Write
from tests.integration.quick_http import send_quickly
from tests.integration.rights import Rights
from tests.integration.settings_read import SettingsRead

# One attempt: a test that means a repeated call says so itself. And nothing that only costs time.
LEAN = Config(
    connect_timeout=2,
    read_timeout=60,
    retries={"total_max_attempts": 1},
    signature_version=UNSIGNED,
    user_agent="ostler",
    proxies={},
)


class Killed(BaseException):
    """The function dies here, as a Lambda function does: nothing of ours can catch it."""


@dataclass(frozen=True)
class Made:
    """One call: which handler made it, to whom, and what about, without ids that differ between runs."""

    handler: str
    about: str  # the instance, where the handler was called for one
    invocation: int
    name: str
    params: Any

    @property
    def writes(self) -> bool:
        reads = ("GetItem", "Query", "GetSecretValue", "novita GET")
        return not any(read in self.name for read in reads)


Hook = Callable[[Made], None]


class Wire:
    """`before` and `after` are asked about every call; what they raise is raised in the handler."""

    def __init__(self) -> None:
        self.calls: list[Made] = []
        self.has_messages: set[str] = set()  # queues that a message without delay was sent to
        self.news = False  # an event was written, so that the stream has something for the announcer
        self.handler = self.about = ""
        self.invocation = 0
        self.before: Hook | None = None
        self.after: Hook | None = None
        self.rights: Rights | None = None
        self.settings_read = SettingsRead()
        self.illegal_moves: list[tuple[Status, Status]] = []

    def leaving(self, name: str, params: Any) -> Made:
        made = Made(self.handler, self.about, self.invocation, name, params)
        self.calls.append(made)
        if self.before:
            self.before(made)
        return made

    def arrived(self, made: Made) -> None:
        if made.name.startswith("SendMessage ") and not made.params["DelaySeconds"]:
            self.has_messages.add(made.name.removeprefix("SendMessage "))
        self.news |= made.writes and "/event" in made.name and made.handler != "announce"
        if self.after:
            self.after(made)

    @contextmanager
    def handling(self, handler: str, about: str = "") -> Iterator[None]:
        outer = self.handler, self.about
        self.handler, self.about = handler, about
        self.invocation += 1
        try:
            yield
        finally:
            self.handler, self.about = outer

    @contextmanager
    def silent(self) -> Iterator[None]:
        """Without hooks, for what a hook itself does."""
        hooks, self.before, self.after = (self.before, self.after), None, None
        try:
            yield
        finally:
            self.before, self.after = hooks


class WatchedSettings(Settings):
    """All of them, as one process is every function here; who reads which is told to the wire."""

    wire: Wire

    def __getattribute__(self, name: str) -> Any:
        value = super().__getattribute__(name)
        if name in Settings.__dataclass_fields__:
            self.wire.settings_read.note(self.wire.handler, {name})
        return value


class WatchedWiring(Wiring):
    """The real wiring, with every client's calls told to the wire."""

    wire: Wire
    tick: Callable[[], None]  # a call to Novita takes a moment, even where time is virtual
    true_now: Callable[[], datetime]  # by no environment's own clock

    def __getattribute__(self, name: str) -> Any:
        """What one handler has built, the next finds ready: it counts as having read the same settings."""
        if not isinstance(getattr(type(self), name, None), cached_property):
            return super().__getattribute__(name)
        with self.wire.settings_read.building(self, name, self.wire.handler):
            return super().__getattribute__(name)

    def client(self, service: Any) -> Any:
        return _watched(service, os.environ["AWS_ENDPOINT_URL"])

    @cached_property
    def table_clock(self) -> TableClock:
        return VirtualTableClock(self.clock, self.true_now)

    def reads_as(self) -> SlotClass:
        """One process is every function here."""
        return READS_AS.get(self.wire.handler, "looks")

    @cached_property
    def steps(self) -> StepRunner:
        runner, illegal = super().steps, self.wire.illegal_moves
        save = runner.save

        def noting(decision: Decision, also: Sequence[Write] = ()) -> Instance:
            illegal.extend(decision.illegal_moves)
            return save(decision, also)

        runner.save = noting  # type: ignore[method-assign]  # so that tests see what production only counts
        return runner

    @cached_property
    def novita(self) -> Novita:
        made = super().novita
        made._attempts._transport = _WatchedTransport(made._attempts._transport, self.wire, self.tick)
        return made


@cache
def _watched(service: str, _: str) -> Any:
    """Made once for each emulator: making a client takes longer than most tests."""
    return watch(send_quickly(boto3.client(service, config=LEAN)))  # type: ignore[call-overload]  # any service


def watch(client: Any) -> Any:
    """Its calls are told to the wire of the wiring in use."""
    client.meta.events.register("provide-client-params", _leaving)
    client.meta.events.register("after-call", _arrived)
    return client


def _leaving(params: Any, model: Any, context: Any, **_: Any) -> None:
    wire = _wire()
    if wire.rights:
        wire.rights.use(wire.handler, model.service_model.service_name, model.name, params)
    context["made"] = wire.leaving(described(model.name, params), params)


def _arrived(context: Any, **_: Any) -> None:
    _wire().arrived(context["made"])


def _wire() -> Wire:
    in_use = wiring("")
    assert isinstance(in_use, WatchedWiring)
    return in_use.wire


@dataclass(frozen=True)
class _WatchedTransport:
    inner: Any
    wire: Wire
    tick: Callable[[], None]

    def send(self, call: NovitaCall, **limits: Any) -> NovitaResponse | NoResponse:
        made = self.wire.leaving(f"novita {call.method} {call.path}", call.body or call.query)
        outcome: NovitaResponse | NoResponse = self.inner.send(call, **limits)
        self.tick()
        self.wire.arrived(made)
        return outcome


def described(operation: str, params: Any) -> str:
    """A name that is the same in every run: `GetItem instance record`, `SendMessage monitor`."""
    if "QueueUrl" in params:
        return f"{operation} {params['QueueUrl'].rpartition('-')[2]}"
    if "TransactItems" in params:
        parts = [next(iter(one.values())) for one in params["TransactItems"]]
        return f"{operation} {' '.join(_kind(part.get('Item') or part['Key']) for part in parts)}"
    key = params.get("Key") or params.get("Item")
    if key:
        return f"{operation} {_kind(key)}"
    if "KeyConditionExpression" in params:
        values = params["ExpressionAttributeValues"]
        about = values.get(":due") or values.get(":sk") or values.get(":key") or {"S": "?"}
        return f"{operation} {about['S']}"
    return operation


def _kind(key: Any) -> str:
    place = key["pk"]["S"].partition("#")[0].partition("_")[0]
    return f"{place}/{key['sk']['S'].partition('#')[0]}"


def sent(made: Made) -> dict[str, Any]:
    """The body of a SendMessage."""
    body: dict[str, Any] = json.loads(made.params["MessageBody"])
    return body
