"""What the real functions are given here: the table, the client's wire, queues, and what nobody looks at."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from functools import partial
from typing import Any, cast

from functions.shared.domain.errors import CallerError
from functions.shared.domain.ids import Mark
from functions.shared.domain.instance.decision import Decision
from functions.shared.domain.instance.fleet import FleetEntry, fleet_summary
from functions.shared.domain.instance.health import HealthReport
from functions.shared.domain.instance.machine import Machine
from functions.shared.domain.instance.observations import LastUse
from functions.shared.domain.instance.record import Instance, Purchase, Queue
from functions.shared.domain.market import Choice, Offer, Template
from functions.shared.domain.messages import StepMessage
from functions.shared.domain.resilience import CallPermit, Permit, RefusedPermit
from functions.shared.engine.shared_polling import ListSnapshot
from functions.shared.novita.calls import NovitaCall, NovitaKey
from functions.shared.novita.client import Novita
from functions.shared.stores.machines import KeyTrust, SwitchState
from functions.shared.stores.table import Write
from tests.explorer import store
from tests.explorer.replay import Replay
from tests.explorer.small_novita import Answer
from tests.explorer.world import Call, HeldKey, KeyState, Weather, Worker, World
from tests.unit.builders import new_report

_OFFERS = tuple(
    Offer("4090", "RTX 4090 24GB", region, region.lower(), Decimal(1)) for region in ("CN-HK-01", "AS-SGP-02")
)
_TEMPLATE = Template("107672", "test", "image", ports=((8188, "http"),))
SHARED_FROM = 6  # so many share one list


class StoredInstances:
    def __init__(self, run: Replay) -> None:
        self._run = run

    def get(self, _: str) -> Instance:
        return cast(Instance, self._run.see(lambda world: world.record))

    def get_with_use(self, instance_id: str) -> tuple[Instance, LastUse]:
        """A GET shows its last use, and decides nothing by it."""
        return self.get(instance_id), LastUse(None)

    def save(self, decision: Decision, _: Any = ()) -> Instance:
        return cast(Instance, self._run.make(Call("save", value=decision)))

    def require_room(self, _: Instance) -> None: ...

    def intend(self, decision: Decision, purchase: Purchase) -> Instance:
        return cast(Instance, self._run.make(Call("intend", name=purchase.name, value=(decision, purchase))))

    def purchases(self, _: str) -> tuple[Purchase, ...]:
        return cast(tuple[Purchase, ...], self._run.see(lambda world: world.purchases))

    def settle(self, purchase: Purchase) -> None:
        self._run.make(Call("settle", name=purchase.name, value=purchase))

    def turned_out_bought(self, mark: Mark, machine: Machine, seen_at: datetime, *, wanted: bool) -> bool:
        call = Call("note purchase", machine.id, machine.name, (mark, machine, seen_at, wanted))
        return cast(bool, self._run.make(call))

    def fleet(self) -> list[FleetEntry]:
        self._swept = self.get("")
        if not self._swept.may_have_machine:
            return []
        return [FleetEntry(self._swept.id, fleet_summary(self._swept))]

    def whole(self, ids: Iterable[str]) -> list[Instance]:
        """As it was when the fleet was read."""
        return [self._swept for _ in ids]

    def had_machines(self, _: datetime) -> bool:
        """Here the instance is older than any key but the first."""
        record = self.get("")
        had = record.live_machine_id or record.purchases.unsettled or record.cleanup.tasks
        return record.may_have_machine and bool(had)

    def owner(self, _: str) -> None:
        return None


class ModelLastUsed:
    def __init__(self, run: Replay) -> None:
        self._run = run

    def read(self, _: str) -> LastUse:
        return LastUse(self._run.see(lambda world: world.used_at))


class InstancesToBuyFor(StoredInstances):
    """Whether it is still to be bought is read right before the call: much may have happened by then."""

    def get(self, _: str) -> Instance:
        return cast(Instance, self._run.make(Call("read again")))


class Sender:
    """The wire of the real client. An attempt that is made again meets what the first one met."""

    def __init__(self) -> None:
        self.run: Replay
        self._last: tuple[NovitaCall, Answer] | None = None

    def send(self, call: NovitaCall, **_: float) -> Answer:
        if self._last is None or self._last[0] is not call:
            self._last = call, self.run.make(self._asked(call))
        return self._last[1]

    def _asked(self, call: NovitaCall) -> Call:
        body = call.body or {}
        kind = call.path.rpartition("/")[2]
        if call.method == "GET":
            name = call.query.get("name", "")
            kind = "get" if kind == "instance" else "find" if name else "list"
            return Call(kind, call.query.get("instanceId", ""), name, key=held_key(self.run))
        named = body.get("instanceId", ""), body.get("name", "")
        return Call(kind, *named, self.run.deciding, key=held_key(self.run))

    # Circuits and limiter

    def ask(self, name: str, *, must_pass: bool = False, **_: bool) -> Permit:
        open_ = self.run.see(lambda world: world.weather is Weather.CIRCUIT_OPEN)
        if not open_:
            return CallPermit(name, 1)
        return CallPermit(name, None) if must_pass else RefusedPermit(name, 60)

    def succeeded(self, _: Permit) -> None: ...

    def failed(self, _: Permit) -> None: ...

    def unused(self, _: Permit) -> None: ...

    def enter(self, *_: object, **__: object) -> None: ...

    def pause(self, _: float) -> None: ...


SENDER = Sender()


def _client() -> Novita:
    """The real one, made once: it takes longer than all that is done with it."""
    client = Novita(
        "http://novita.invalid",
        key=lambda: NovitaKey("key", key_version(SENDER.run)),
        believes=lambda version: key_trust(SENDER.run).believes(version),
        correlation=str,
        circuits=SENDER,
        limiter=SENDER,
        wait=lambda _: None,
        clock=lambda: 0.0,  # how long calls take is nothing that rules look at
        random=lambda: 0.0,
    )
    client._attempts._transport = SENDER
    return client


NOVITA = _client()


def held_key(run: Replay) -> HeldKey:
    """As it was when this function first read it, whatever is put in while it is under way."""
    if run.key is None:
        run.key = cast(HeldKey, run.see(lambda world: HeldKey(world.key, world.account)))
    return run.key


def key_version(run: Replay) -> str:
    return str(held_key(run).state.version)


def key_trust(run: Replay) -> KeyTrust:
    table: Any = KeyTable(run)
    return KeyTrust(table, partial(key_version, run), StoredInstances(run).had_machines, run.clock)


class KeyTable:
    """Where the trust in a key is stored. Of a key that was replaced, whoever still uses it is all that
    knows."""

    def __init__(self, run: Replay) -> None:
        self._run = run

    def get(self, pk: str, _: str) -> Any:
        return self._run.see(partial(_key_item, pk, held_key(self._run).state))

    def put(self, write: Write) -> None:
        self._note(str(write.item["pk"]), first_used_at=write.item["firstUsedAt"])

    def update(self, pk: str, *_: Any, **__: Any) -> None:
        self._note(pk, proven=True)

    def _note(self, pk: str, **changes: Any) -> None:
        def note(world: World) -> World:
            current = pk == _key_pk(world.key)
            return replace(world, key=replace(world.key, **changes)) if current else world

        self._run.change(note)


def _key_pk(key: KeyState) -> str:
    return f"novita-key#{key.version}"


def _key_item(pk: str, held: KeyState, world: World) -> Any:
    key = world.key if pk == _key_pk(world.key) else held
    if pk != _key_pk(key) or key.first_used_at is None:
        return None
    proven = {"provenAt": 1} if key.proven else {}
    return {"firstUsedAt": key.first_used_at, **proven}


class ModelQueues:
    def __init__(self, run: Replay) -> None:
        self._run = run

    def send(self, _: Queue, message: StepMessage, delay_seconds: float) -> None:
        self._run.change(lambda world: store.send(world, message.token, delay_seconds))


class ModelProbes:
    def __init__(self, run: Replay) -> None:
        self._run = run

    def check(self, *_: Any) -> HealthReport:
        return new_report(healthy=self._run.make(Call("probe")))


class FreeSlots:
    """Whoever asks a slow application finds a slot."""

    def take(self, *_: datetime) -> str:
        return "slot"

    def release(self, _: str) -> None: ...


class ModelSharedList:
    def __init__(self, run: Replay) -> None:
        self._run = run

    def newest(self) -> None:
        return None

    def shared(self, within: float, _: datetime | None) -> tuple[ListSnapshot, bool]:
        began = self._run.clock()
        machines = NOVITA.list(within=within)
        return ListSnapshot(began, {one.id: one for one in machines}, 1, key_version(self._run)), False


class Waiting:
    """Many others are due as well, or nobody is."""

    def __init__(self, worker: Worker) -> None:
        self._many = worker.shares_list

    def overdue(self, *_: Any) -> list[Any]:
        return [None] * SHARED_FROM if self._many else []


class TwoOffers:
    def template_to_buy(self, *_: Any) -> Template:
        return _TEMPLATE

    def offers(self, _: Any, *, excluded: frozenset[tuple[str, str]], **__: float) -> Choice:
        left = tuple(one for one in _OFFERS if (one.product_id, one.region) not in excluded)
        if not left:
            raise CallerError("NO_OPTIMAL_PRODUCT_ANY_REGION", "none is to be had")
        return Choice(left, {})


class NoBootTimes:
    def expected(self, *_: Any) -> None:
        return None


class NoOrphans:
    """What is announced is not looked at here."""

    def known(self, _: str) -> None:
        return None

    def announce(self, *_: Any) -> bool:
        return True


class Unused:
    """Stands for what a function has and this model does not look at."""

    def last_shown(self, record: Instance, _: float) -> Instance:
        return record

    def is_paused(self) -> bool:
        return False

    def require_on(self) -> None: ...

    def read(self) -> SwitchState:
        return SwitchState()

    def count(self, *_: Any, **__: Any) -> None: ...

    def count_set(self, _: str) -> None: ...

    def note(self) -> None: ...

    def is_on(self) -> bool:
        return False

    def is_open(self, _: str) -> bool:
        return False

    def once(self, _: Any, attempt: Callable[[], Any], **__: str) -> Any:
        return attempt()
