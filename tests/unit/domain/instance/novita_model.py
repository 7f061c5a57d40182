"""A small Novita and a small worker: purchases with every outcome, crashes, and the real decisions."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from functions.shared.domain.errors import Fault
from functions.shared.domain.instance.boot_times import BootEstimate
from functions.shared.domain.instance.decide import decide
from functions.shared.domain.instance.decision import Decision
from functions.shared.domain.instance.observations import (
    Act,
    ActionTaken,
    Buy,
    Call,
    CallPostponed,
    CallRefused,
    CheckHealth,
    DeadLettered,
    FindByName,
    HealthChecked,
    Look,
    NameNotListed,
    NotFoundById,
    NotListed,
    Observation,
    PurchasesRead,
    ReadPurchases,
    RoundHeld,
    Seen,
    Tick,
    UnknownMachine,
    WriteOffPurchase,
)
from functions.shared.domain.instance.outcomes import begin_round
from functions.shared.domain.instance.purchases import intend
from functions.shared.domain.instance.record import Action, Instance, Purchase, PurchaseOutcome, Queue, Spec
from functions.shared.domain.instance.status import Status
from functions.shared.engine.step import combined
from tests.unit.builders import HTTP, NOW, POLICY, changed, created, new_machine, new_report
from tests.unit.domain.instance.promises import (
    assert_due_unless_at_rest,
    assert_follows,
    assert_nothing_forgotten,
)

MOST_CALLS = 12  # of one step: two machines to delete, a look-up, a purchase, and what follows from them
LEASE = timedelta(seconds=180)
DOWN = Fault("NOVITA_UNAVAILABLE", "down")
# What each function can do: functions/*/handler.py.
STEP_CALLS = (ReadPurchases, FindByName, WriteOffPurchase, Look, Act)
MEANS: dict[Queue, tuple[type, ...]] = {
    Queue.CREATE: (*STEP_CALLS, Buy),
    Queue.MONITOR: STEP_CALLS,
    Queue.STARTUP: (CheckHealth,),
}
# What may go wrong with a call; each call takes the first that concerns it, and none means that it goes well.
FAULTS = (
    "ok",
    "down",
    "down after it was done",
    "refused",
    "wrong state",
    "no capacity",
    "sold out",
    "not sent",
    "unclear: none",
    "unclear: bought",
    "unclear: bought, shown late",
    "unclear: bought, shown too late",
    "bought, shown late",
    "dies before buying",
    "dies after buying",
    "deleted before buying",
    "deleted while buying",
    "unhealthy",
    "timed out",
    "held",
    "dies while asking",
)
SHOWN_AFTER = {
    "unclear: bought, shown late": 100,
    "unclear: bought, shown too late": 500,
    "bought, shown late": 100,
    "dies after buying": 20,
}


class Crash(Exception):
    """The function is no more."""


class Overtaken(Exception):
    """Another writer won."""


@dataclass
class Sim:
    """One machine at Novita: what it is to become, and from when on it is shown."""

    id: str
    name: str
    shown_from: datetime
    plan: list[tuple[datetime, str]] = field(default_factory=list)
    by_hand: bool = False

    @property
    def purchase(self) -> int:
        return int(self.name.removeprefix("ours-"))

    def status(self, now: datetime) -> str:
        return [word for at, word in self.plan if at <= now][-1]

    def becomes(self, now: datetime, *words: str) -> None:
        self.plan = [(now, self.status(now))] if self.plan else []
        self.plan += [(now + timedelta(seconds=20 * n), word) for n, word in enumerate(words)]

    def exists(self, now: datetime) -> bool:
        return self.status(now) != "not found"

    def live(self, now: datetime) -> bool:
        return self.status(now) not in ("removed", "not found")


class Model:
    def __init__(self, spec: Spec, boot: BootEstimate | None = None) -> None:
        self.now = NOW
        first = created()
        self.record: Instance = changed(first.record, spec=spec, boot=boot)
        self.machines: dict[str, Sim] = {}
        self.purchases: dict[int, Purchase] = {}
        self.told: set[str] = set()
        self.faults: list[str] = []
        self.delete: Callable[[], None] = lambda: None

    # The worker, as the StepRunner has it

    def step(
        self, faults: list[str], *, dies: bool = False, overtaken_by: Callable[[], None] | None = None
    ) -> None:
        self.faults = list(faults)
        step, queue = self.now, self.record.queue
        told: set[str] = set()
        try:
            decision = decide(self.record, Tick(), step, POLICY)
            for _ in range(MOST_CALLS):
                if decision.call is None or not isinstance(decision.call, MEANS[queue]):
                    break
                decision, observation = self._make(decision, decision.call)
                if isinstance(observation, PurchasesRead):
                    told |= {one.machine_id for one in observation.purchases if one.machine_id}
                after = decide(decision.record, observation, self.now, POLICY, step=step)
                decision = combined(decision, after)
            if decision.call is not None:
                assert decision.record.queue is not queue, f"{queue} has {decision.call} left"
                decision = replace(decision.due(self.now), call=None)
            if overtaken_by:
                overtaken_by()
            if not dies:
                self.save(decision, told)
        except (Crash, Overtaken):
            return

    def observe(self, observation: Observation) -> None:
        """What a read of the API or a sweep has learned."""
        decision = decide(self.record, observation, self.now, POLICY)
        if decision.call is not None:
            decision = replace(decision.due(self.now), call=None)
        self.save(decision)

    def save(self, decision: Decision, told: frozenset[str] | set[str] = frozenset()) -> Instance:
        before, record = self.record, decision.record
        if record.version != before.version:
            raise Overtaken
        assert_follows(before, decision)
        if decision.call is None:
            assert_due_unless_at_rest(decision)
        self.told |= told
        assert_nothing_forgotten(record, self.told)
        if record.status is Status.TERMINATED is not before.status:
            assert not record.cleanup.tasks
            assert not record.purchases.unsettled
            bought = {one.machine_id for one in self.purchases.values() if one.machine_id}
            assert bought <= set(record.cleanup.gone), "terminated with a machine that nobody saw gone"
            assert all(one.settled for one in self.purchases.values())
        self.record = replace(record, version=record.version + 1)
        return self.record

    # Novita

    def _make(self, decision: Decision, call: Call) -> tuple[Decision, Observation]:
        leaving = decision.record.status in (Status.DELETING, Status.TERMINATED)
        assert not leaving or isinstance(call, (ReadPurchases, FindByName, WriteOffPurchase, Look, Act)), call
        assert not (leaving and isinstance(call, Act) and call.action is not Action.DELETE), call
        fault = self._fault(call)
        began = self.now
        self.now += timedelta(seconds=0.5)
        match call:
            case Buy():
                return self._buy(decision, fault)
            case ReadPurchases():
                return decision, self._read_purchases()
            case FindByName():
                return decision, self._look_up(call.purchase, began, fault)
            case WriteOffPurchase():
                self._settle(replace(call.purchase, outcome=PurchaseOutcome.ABSENT))
                return decision, self._read_purchases()
            case Look():
                return decision, self._look(call.machine_id, began, fault)
            case Act():
                return decision, self._act(call, began, fault)
            case CheckHealth():
                return self._ask(decision, began, fault)

    def _ask(self, decision: Decision, began: datetime, fault: str) -> tuple[Decision, Observation]:
        if decision.record.rounds.under_way(began):
            raise Overtaken
        if fault == "held":
            return decision, RoundHeld(9)
        stored = self.save(begin_round(decision, began + LEASE))
        decision = replace(decision, record=stored, events=(), operations=())
        if fault == "dies while asking":
            raise Crash
        report = new_report(healthy=fault == "ok", timed_out=fault == "timed out")
        return decision, HealthChecked(report, began)

    def _fault(self, call: Call) -> str:
        concerned: dict[type, tuple[str, ...]] = {
            Buy: FAULTS[5:-4],
            FindByName: ("down",),
            Look: ("down",),
            Act: ("down", "down after it was done", "refused", "wrong state", "no capacity"),
            CheckHealth: FAULTS[-4:],
        }
        fault = next((one for one in self.faults if one in concerned.get(type(call), ())), "ok")
        if fault != "ok":
            self.faults.remove(fault)
        return fault

    def _read_purchases(self) -> PurchasesRead:
        return PurchasesRead(tuple(self.purchases.values()))

    def _settle(self, purchase: Purchase) -> None:
        if not self.purchases[purchase.number].settled:
            self.purchases[purchase.number] = purchase

    def _buy(self, decision: Decision, fault: str) -> tuple[Decision, Observation]:
        assert decision.record.status is Status.CREATING
        assert all(one.settled for one in self.purchases.values()), "bought beside an open purchase"
        if fault == "sold out":
            return decision, CallPostponed(Fault("NO_OPTIMAL_PRODUCT_ANY_REGION", "none"), 30)
        number = decision.record.purchases.count + 1
        purchase = Purchase(
            "inst", number, f"ours-{number}", PurchaseOutcome.INTENDED, self.now, self.now + LEASE
        )
        intending = intend(decision, purchase)
        assert number not in self.purchases
        stored = self.save(replace(intending, call=None))
        self.purchases[number] = purchase
        decision = replace(decision, record=stored, events=(), operations=())
        if fault == "dies before buying":
            raise Crash
        if fault == "deleted before buying":
            self.delete()
            self._settle(replace(purchase, outcome=PurchaseOutcome.REFUSED, ended_at=self.now))
            return decision, self._read_purchases()
        if fault == "deleted while buying":
            self.delete()
        return decision, self._bought(purchase, fault)

    def _bought(self, purchase: Purchase, fault: str) -> Observation:
        def ended(outcome: PurchaseOutcome, **more: Any) -> None:
            self._settle(replace(purchase, outcome=outcome, ended_at=self.now, **more))

        refusal = Fault("RESOURCE_CONSTRAINTS" if fault == "no capacity" else "NOVITA_REJECTED", fault)
        if fault in ("refused", "not sent", "no capacity"):
            ended(PurchaseOutcome.REFUSED, fault=refusal)
            return CallRefused(refusal) if fault == "refused" else CallPostponed(refusal, 5)
        if fault == "unclear: none":
            ended(PurchaseOutcome.UNCLEAR)
            return self._read_purchases()
        machine = Sim(
            f"m-{purchase.number}", purchase.name, self.now + timedelta(seconds=SHOWN_AFTER.get(fault, 0))
        )
        machine.becomes(self.now, "creating", "pulling", "running")
        self.machines[machine.id] = machine
        if fault == "dies after buying":
            raise Crash
        if fault.startswith("unclear"):
            ended(PurchaseOutcome.UNCLEAR)
        else:
            ended(PurchaseOutcome.BOUGHT, machine_id=machine.id, expects_endpoints=True)
        return self._read_purchases()

    def _look_up(self, purchase: Purchase, began: datetime, fault: str) -> Observation:
        if fault == "down":
            return CallPostponed(DOWN, 10)
        for machine in self.shown():
            if machine.name == purchase.name:
                self._settle(
                    replace(purchase, outcome=PurchaseOutcome.BOUGHT, machine_id=machine.id, ended_at=began)
                )
                return self._read_purchases()
        return NameNotListed(purchase, began)

    def shown(self) -> list[Sim]:
        return [one for one in self.machines.values() if one.shown_from <= self.now and one.live(self.now)]

    def _look(self, machine_id: str, began: datetime, fault: str = "ok") -> Observation:
        if fault == "down":
            return CallPostponed(DOWN, 10)
        machine = self.machines[machine_id]
        if machine.shown_from > self.now or not machine.exists(self.now):
            return NotFoundById(machine_id, began)
        word = machine.status(self.now)
        return Seen(new_machine(word, machine_id, endpoints=(HTTP,) if word == "running" else ()), began)

    def _act(self, act: Act, began: datetime, fault: str) -> Observation:
        machine = self.machines[act.machine_id]
        word = machine.status(self.now)
        if fault == "down":
            return CallPostponed(DOWN, 10)
        if machine.shown_from > self.now or not machine.exists(self.now):
            return NotFoundById(act.machine_id, began)
        right = {Action.START: ("exited",), Action.RESTART: ("running",), Action.STOP: ("running", "pulling")}
        if fault == "wrong state" or word not in right.get(act.action, (word,)):
            return CallRefused(Fault("NOVITA_REJECTED", "wrong state"), act, wrong_state=True)
        if fault == "no capacity" and act.action in (Action.START, Action.RESTART):
            return CallRefused(Fault("RESOURCE_CONSTRAINTS", "full"), act, capacity=True)
        if fault in ("refused", "no capacity"):
            return CallRefused(Fault("NOVITA_REJECTED", "no"), act)
        if act.action is not Action.DELETE or machine.live(self.now):
            machine.becomes(self.now, *_COURSES[act.action])
        machine.by_hand = False
        return CallPostponed(DOWN, 10) if fault == "down after it was done" else ActionTaken(act, self.now)

    # What else happens

    def sweep(self) -> None:
        """Novita's list against the record."""
        record, shown = self.record, {one.id: one for one in self.shown()}
        own = record.machine.id if record.machine.id not in record.cleanup.gone else None
        if own and own in shown:
            self.observe(self._look(own, self.now))
        elif own:
            self.observe(NotListed(own, self.now))
        for machine in shown.values():
            known = {
                self.record.machine.id,
                *self.record.cleanup.gone,
                *(d.machine_id for d in self.record.cleanup.tasks),
            }
            if machine.id not in known:
                purchase = self.purchases[machine.purchase]
                self.purchases[purchase.number] = replace(
                    purchase, outcome=PurchaseOutcome.BOUGHT, machine_id=machine.id, ended_at=self.now
                )
                self.observe(UnknownMachine(machine.id))

    def last_retry_failed(self) -> None:
        if self.record.next_check_at is not None:
            self.observe(DeadLettered(self.record.queue, Fault("INTERNAL_ERROR", "a bug")))

    def run_to_rest(self, most_steps: int) -> int:
        """With a Novita that behaves: whatever is due is done, until nothing is."""
        for steps in range(most_steps):
            if self.record.next_check_at is None:
                return steps
            self.now = max(self.now, self.record.next_check_at)
            self.step([])
        raise AssertionError(f"never at rest: {self.record}")


_COURSES = {
    Action.START: ("toStart", "starting", "running"),
    Action.RESTART: ("toRestart", "restarting", "running"),
    Action.STOP: ("toStop", "stopping", "exited"),
    Action.DELETE: ("toRemove", "removing", "removed", "not found"),
}
