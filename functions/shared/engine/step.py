"""One step of an instance: load, decide, make the calls, save, and queue the next one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from functions.shared.domain.errors import (
    Fault,
    InvalidState,
    MachineNotFound,
    NoCapacity,
    NotNow,
    NovitaForNow,
    NovitaRefused,
    OstlerError,
    OutcomeUnclear,
    StaleInstance,
)
from functions.shared.domain.instance.boot_times import BootTime
from functions.shared.domain.instance.decide import decide
from functions.shared.domain.instance.decision import Decision, Policy
from functions.shared.domain.instance.observations import (
    Act,
    ActionTaken,
    CallPostponed,
    CallRefused,
    FindByName,
    Look,
    NameNotListed,
    NotFoundById,
    Observation,
    PurchasesRead,
    ReadPurchases,
    Seen,
    Tick,
    WriteOffPurchase,
)
from functions.shared.domain.instance.record import Action, Event, Instance, PurchaseOutcome, Queue
from functions.shared.domain.instance.status import Status
from functions.shared.domain.messages import StepMessage
from functions.shared.platform.log import correlated, logger
from functions.shared.platform.metrics import INSTANCES_FAILED, TIME_TO_READY, measure

if TYPE_CHECKING:
    from functions.shared.engine.shared_polling import SharedPolling
    from functions.shared.novita.client import Novita
    from functions.shared.platform.aws import Queues
    from functions.shared.stores.boot_times import BootTimes
    from functions.shared.stores.instances import Instances
    from functions.shared.stores.table import Write

# How each kind of call is made; the decision comes back too, since buying stores its intent first.
CallHandlers = Mapping[type, Callable[[Decision, Any], tuple[Decision, Observation]]]

_MOST_CALLS = 40  # far above what any step needs: a bound on a mistake, not a plan


class StepRunner:
    def __init__(
        self,
        instances: Instances,
        queues: Queues,
        clock: Callable[[], datetime],
        policy: Policy,
        learn: Callable[[BootTime], None] = lambda _: None,
    ) -> None:
        self._instances = instances
        self._queues = queues
        self._clock = clock
        self._policy = policy
        self._learn = learn

    def take(self, message: StepMessage, queue: Queue, handlers: CallHandlers) -> None:
        """Take the step that the message asks for, unless it has been taken."""
        record = self._instances.get(message.instance_id)
        with correlated(
            record.correlation_id if record else message.correlation_id, instance_id=message.instance_id
        ):
            if record is None or record.token != message.token:
                logger.info("message out of date", known=record is not None)
                return
            if record.queue is not queue:  # another function has the means for it
                self.enqueue(record, record.next_check_at or self._clock())
                return
            self.step(record, handlers)

    def step(self, record: Instance, handlers: CallHandlers) -> None:
        step = self._clock()
        decision = decide(record, Tick(), step, self._policy)
        for _ in range(_MOST_CALLS):
            if decision.call is None or type(decision.call) not in handlers:
                break
            try:
                decision, observation = handlers[type(decision.call)](decision, decision.call)
            except StaleInstance:
                logger.info("step overtaken")
                return
            after = decide(decision.record, observation, self._clock(), self._policy, step=step)
            decision = combined(decision, after)
        if decision.call is not None:  # for another function to make, or one call too many for this step
            decision = decision.due(self._clock())
        if self.store(decision) is None and record.status is Status.CREATING:
            self._enqueue_winner(record.id)

    def _enqueue_winner(self, instance_id: str) -> None:
        """What an overtaken purchase came to is in the books, and the winner may not know that it is due.

        Whatever else was overtaken sends nothing: two chains that hurry each other never become one again.
        """
        fresh = self._instances.get(instance_id)
        if fresh is not None and fresh.next_check_at is not None:
            self.enqueue(fresh, fresh.next_check_at)

    def store(self, decision: Decision) -> Instance | None:
        """Save, and queue the next step; whoever was overtaken leaves both to the winner."""
        try:
            return self.save(decision)
        except StaleInstance:
            logger.info("step overtaken")
            return None

    def save(self, decision: Decision, also: Sequence[Write] = ()) -> Instance:
        saved = self._instances.save(decision, also)
        for event in decision.events:
            logger.info(event.type, sequence=event.sequence, reason=event.reason)
        _measure_events(decision.events, saved)
        self.enqueue(saved, decision.now)
        if decision.boot_time:
            self._learn(decision.boot_time)
        return saved

    def enqueue(self, record: Instance, now: datetime) -> None:
        if record.next_check_at is None:
            return
        message = StepMessage(record.id, record.token, record.correlation_id)
        self._queues.send(record.queue, message, (record.next_check_at - now).total_seconds())


def _measure_events(events: Sequence[Event], record: Instance) -> None:
    for event in events:
        if event.type == "instance.failed" and event.error:
            measure(INSTANCES_FAILED, by=event.error.code)
    ready_at = record.ready_at  # set once, the first time
    if ready_at and any(event.at == ready_at and not event.operation_id for event in events):
        measure(TIME_TO_READY, (ready_at - record.created_at).total_seconds())


def combined(before: Decision, after: Decision) -> Decision:
    """The later decision with what the earlier one had already noted."""
    changed = {operation.id: operation for operation in (*before.operations, *after.operations)}
    return replace(
        after,
        events=(*before.events, *after.events),
        operations=tuple(changed.values()),
        boot_time=before.boot_time or after.boot_time,
    )


_LONGEST_PURCHASE = timedelta(seconds=60)  # from the intent to an answer; what took longer was looked up
# Where Novita does not say whether it made them. More would only throw out whoever uses the machine.
_MOST_RESTARTS = 2


def _attempts(decision: Decision) -> int:
    operation = decision.record.operation
    return operation.attempts if operation else 0


def fault_of(error: OstlerError) -> Fault:
    return Fault(error.code, error.message)


class StepCalls:
    """The calls that every function can make: reading the books, looking, starting, stopping, deleting."""

    def __init__(
        self,
        instances: Instances,
        novita: Novita,
        clock: Callable[[], datetime],
        time_left: Callable[[], float],
        poll_seconds: float,
        shared_polling: SharedPolling,
        boot_times: BootTimes,
    ) -> None:
        self._instances = instances
        self._novita = novita
        self._clock = clock
        self._time_left = time_left
        self._poll_seconds = poll_seconds
        self._shared_polling = shared_polling
        self._boots = boot_times

    def handlers(self) -> CallHandlers:
        return {
            ReadPurchases: self._review,
            FindByName: self._look_up,
            WriteOffPurchase: self._write_off,
            Look: self._look,
            Act: self._act,
        }

    def postponed(self, error: OstlerError) -> CallPostponed:
        return CallPostponed(fault_of(error), error.retry_after or self._poll_seconds)

    def _review(self, decision: Decision, _: ReadPurchases) -> tuple[Decision, Observation]:
        return decision, PurchasesRead(self._instances.purchases(decision.record.id))

    def _look_up(self, decision: Decision, call: FindByName) -> tuple[Decision, Observation]:
        began = self._clock()
        try:
            listed = self._novita.list(name=call.purchase.name, within=self._within())
        except (NovitaForNow, NovitaRefused) as error:
            return decision, self.postponed(error)
        found = next((machine for machine in listed if machine.name == call.purchase.name), None)
        if found is None:
            return decision, NameNotListed(call.purchase, began)
        bought = replace(call.purchase, outcome=PurchaseOutcome.BOUGHT, machine_id=found.id, ended_at=began)
        self._instances.settle(bought)
        return self._review(decision, ReadPurchases())

    def _write_off(self, decision: Decision, call: WriteOffPurchase) -> tuple[Decision, Observation]:
        self._instances.settle(replace(call.purchase, outcome=PurchaseOutcome.ABSENT))
        return self._review(decision, ReadPurchases())

    def _look(self, decision: Decision, call: Look) -> tuple[Decision, Observation]:
        record = decision.record
        if self._just_bought(record, decision.step):
            boot = self._boots.expected("create", record.product_id, record.region)
            return decision.having(boot=boot, looked_at=decision.step), Tick()
        began = self._clock()
        try:
            if shared := self._shared_polling.look(record, call.machine_id, self._within()):
                return decision, shared
            began = self._clock()
            return decision, Seen(self._novita.get(call.machine_id, within=self._within()), began)
        except MachineNotFound:
            return decision, NotFoundById(call.machine_id, began)
        except (NovitaForNow, NovitaRefused) as error:
            return decision, self.postponed(error)

    def _just_bought(self, record: Instance, step: datetime) -> bool:
        """In this very step, so that there is nothing to see yet; one that turned up late may run already."""
        if record.status is not Status.STARTING or record.bought_at is None or record.bought_at < step:
            return False
        purchases = self._instances.purchases(record.id)
        began = (one.intended_at for one in purchases if one.machine_id == record.machine_id)
        return any(record.bought_at - intended_at < _LONGEST_PURCHASE for intended_at in began)

    def _act(self, decision: Decision, call: Act) -> tuple[Decision, Observation]:
        before, decision, began = decision, decision.attempted(call.action), self._clock()
        act = {
            Action.START: self._novita.start,
            Action.RESTART: self._novita.restart,
            Action.STOP: self._novita.stop,
            Action.DELETE: self._novita.delete,
        }[call.action]
        try:
            act(call.machine_id, within=self._within())
        except MachineNotFound:
            return decision, NotFoundById(call.machine_id, began)
        except InvalidState as error:
            return decision, CallRefused(fault_of(error), call, wrong_state=True)
        except NovitaRefused as error:
            if error.code == "NOVITA_AUTHENTICATION_FAILED":  # perhaps the key is just being rotated
                return decision, self.postponed(error)
            return decision, CallRefused(fault_of(error), call, capacity=isinstance(error, NoCapacity))
        except OutcomeUnclear as error:  # a restart, perhaps made
            if _attempts(decision) < _MOST_RESTARTS:
                return decision, self.postponed(error)
            return decision, CallRefused(fault_of(error), call, unclear=True)
        except NotNow as error:  # it was not sent, or not taken: no attempt
            return before, self.postponed(error)
        except NovitaForNow as error:
            return decision, self.postponed(error)
        return decision, ActionTaken(call, self._clock())

    def _within(self) -> float:
        """Leave the function time to save what it learned; with too little left, nothing is sent."""
        return min(20.0, self._time_left() - 10.0)
