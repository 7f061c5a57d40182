"""One step of an instance: load, decide, make the calls, save, and queue the next one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from functions.shared.domain.errors import (
    AbsentWithoutReason,
    Fault,
    InvalidState,
    MachineNotFound,
    NoCapacity,
    NoLongerOurs,
    NotNow,
    NovitaForNow,
    NovitaRefused,
    OstlerError,
    OutcomeUnclear,
    SpendingRefused,
    StaleInstance,
)
from functions.shared.domain.instance.boot_times import BootTime
from functions.shared.domain.instance.decide import decide
from functions.shared.domain.instance.decision import Decision, Policy
from functions.shared.domain.instance.gpu_use import sample_interval
from functions.shared.domain.instance.observations import (
    Act,
    ActionTaken,
    BeginRecovery,
    CallPostponed,
    CallRefused,
    CallUnclear,
    FindByName,
    GpuUseRead,
    Look,
    NameNotListed,
    NotFoundById,
    Observation,
    OwnedByAnother,
    PurchasesRead,
    ReadGpuUse,
    ReadPurchases,
    ReadUse,
    RecoveryMayBegin,
    Seen,
    Tick,
    UseRead,
    WriteOffPurchase,
)
from functions.shared.domain.instance.outcomes import refusal_of
from functions.shared.domain.instance.progress import PURCHASES_PAUSED, booting
from functions.shared.domain.instance.record import Action, Event, Instance, PurchaseOutcome, Queue
from functions.shared.domain.instance.recovery import superseded
from functions.shared.domain.instance.sightings import end_taken
from functions.shared.domain.instance.status import Status
from functions.shared.domain.messages import LONGEST_DELAY, JobOutcome, StepMessage
from functions.shared.platform.observability import (
    ILLEGAL_MOVES,
    INSTANCES_FAILED,
    RECOVERIES_FAILED,
    TIME_TO_READY,
    correlated,
    logger,
    measure,
)

if TYPE_CHECKING:
    from functions.shared.engine.shared_polling import SharedPolling
    from functions.shared.novita.client import Novita
    from functions.shared.platform.aws import Queues
    from functions.shared.platform.invocation import TimeBudget
    from functions.shared.stores.instances import Instances
    from functions.shared.stores.last_used import LastUsed
    from functions.shared.stores.machines import KeyTrust, PurchaseSwitch
    from functions.shared.stores.table import Write

# How each kind of call is made; the decision comes back too, since buying stores its intent first.
CallHandlers = Mapping[type, Callable[[Decision, Any], tuple[Decision, Observation]]]

UNPROVEN_KEY = Fault(
    "NOVITA_AUTHENTICATION_FAILED",
    "The Novita key has shown no machine of ours yet: is it the right account?",
)
_FAILURES = ("instance.failed", "startup.failed")
_MOST_CALLS = 40  # far more than any step needs: it only stops a mistake in the rules


class StepRunner:
    def __init__(
        self,
        instances: Instances,
        queues: Queues,
        clock: Callable[[], datetime],
        policy: Policy,
        learn: Callable[[BootTime], None] = lambda _: None,
        plan_looks: Callable[[Instance], None] = lambda _: None,
    ) -> None:
        self._instances = instances
        self._queues = queues
        self._clock = clock
        self._policy = policy
        self._learn = learn
        self._plan_looks = plan_looks

    def take(self, message: StepMessage, queue: Queue, handlers: CallHandlers) -> JobOutcome:
        """Take the step that the message asks for, unless it has been taken."""
        record = self._instances.get(message.instance_id)
        with correlated(
            record.correlation_id if record else message.correlation_id, instance_id=message.instance_id
        ):
            if record is None or record.token != message.token:
                logger.info("message out of date", known=record is not None)
                return JobOutcome.DONE
            if record.queue is not queue:  # another function can make its calls
                self.enqueue(record, record.next_check_at or self._clock())
                return JobOutcome.DONE
            if self._is_early(record):
                logger.info("nothing is due yet")
                self.enqueue(record, self._clock())
                return JobOutcome.DONE
            return self.step(record, handlers)

    def _is_early(self, record: Instance) -> bool:
        """At rest only a limit can be due: until then there is nothing to do or to write."""
        due = record.next_check_at
        return record.at_rest and (due is None or self._clock() < due)

    def step(self, record: Instance, handlers: CallHandlers) -> JobOutcome:
        step = self._clock()
        decision = decide(record, Tick(), step, self._policy)
        for _ in range(_MOST_CALLS):
            if decision.call is None or type(decision.call) not in handlers:
                break
            try:
                decision, observation = handlers[type(decision.call)](decision, decision.call)
            except StaleInstance:
                logger.info("step overtaken")
                return JobOutcome.DONE
            after = decide(decision.record, observation, self._clock(), self._policy, step=step)
            decision = combined(decision, after)
        if decision.call is not None:  # for another function to make, or one call too many for this step
            decision = decision.due(self._clock())
        try:
            stored = self.store(decision)
        except SpendingRefused as refused:  # what it was about to begin waits, and its deadline runs on
            waits = CallPostponed(refused.fault)
            decision = decide(record, waits, self._clock(), self._policy, step=step)
            stored = self.store(decision)
        if stored is not None:
            if booting(stored):
                self._plan_looks(stored)
            return _outcome(record, decision)
        if record.status is Status.CREATING:
            self._enqueue_winner(record.id)
        return JobOutcome.DONE

    def _enqueue_winner(self, instance_id: str) -> None:
        """The outcome of a purchase is stored apart from the record: the winner may not have read it yet.

        Any other step that was overtaken sends nothing: otherwise two chains of messages would never join.
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
        for before, after in decision.illegal_moves:
            logger.error("illegal move", before=before, after=after)
            measure(ILLEGAL_MOVES)
        self.enqueue(saved, decision.now)
        if decision.boot_time:
            self._learn(decision.boot_time)
        return saved

    def enqueue(self, record: Instance, now: datetime) -> None:
        """A limit that is further away than a message can wait is left to the index, and so to the sweep."""
        if record.next_check_at is None or (record.at_rest and record.next_check_at - now > LONGEST_DELAY):
            return
        message = StepMessage(record.id, record.token, record.correlation_id)
        self._queues.send(record.queue, message, (record.next_check_at - now).total_seconds())


def _outcome(before: Instance, decision: Decision) -> JobOutcome:
    if not any(event.type in _FAILURES for event in decision.events):
        return JobOutcome.DONE
    late = before.deadline_at is not None and decision.now >= before.deadline_at
    return JobOutcome.GAVE_UP if late else JobOutcome.REFUSED


def _measure_events(events: Sequence[Event], record: Instance) -> None:
    for event in events:
        if event.type == "instance.failed" and event.error:
            measure(INSTANCES_FAILED, by=event.error.code)
        if event.type == "recovery.failed" and not superseded(event.error):
            measure(RECOVERIES_FAILED)
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
        owns=before.owns or after.owns,
        commits=before.commits or after.commits,
        illegal_moves=(*before.illegal_moves, *after.illegal_moves),
        unused=before.unused or after.unused,
    )


@dataclass(frozen=True)
class StepCalls:
    """The calls of create and monitor: reading purchases, looking, starting, stopping, deleting.

    Nothing is decided here: what came of a call goes to `decide`.
    """

    instances: Instances
    novita: Novita
    shared_polling: SharedPolling
    key_trust: KeyTrust
    purchase_switch: PurchaseSwitch
    clock: Callable[[], datetime]
    budget: TimeBudget
    last_used: LastUsed

    def handlers(self) -> CallHandlers:
        return {
            ReadPurchases: self._read_purchases,
            FindByName: self._find_by_name,
            WriteOffPurchase: self._write_off,
            Look: self._look,
            Act: self._act,
            BeginRecovery: self._begin_recovery,
            ReadUse: self._read_use,
            ReadGpuUse: self._read_gpu_use,
        }

    def _read_purchases(self, decision: Decision, _: ReadPurchases) -> tuple[Decision, Observation]:
        return decision, PurchasesRead(self.instances.purchases(decision.record.id))

    def _read_use(self, decision: Decision, _: ReadUse) -> tuple[Decision, Observation]:
        return decision, UseRead(self.last_used.read(decision.record.id))

    def _read_gpu_use(self, decision: Decision, call: ReadGpuUse) -> tuple[Decision, Observation]:
        """Whatever keeps us from knowing is no answer, and that means in use."""
        now = self.clock()
        try:
            series = self.novita.gpu_use(
                call.machine_id,
                now - call.window,
                now,
                sample_interval(call.window),
                within=self.budget.to_call(),
            )
        except (NovitaForNow, NovitaRefused) as error:
            logger.info("gpu use not known", code=error.code)
            return decision, GpuUseRead(call, None)
        return decision, GpuUseRead(call, series)

    def _find_by_name(self, decision: Decision, call: FindByName) -> tuple[Decision, Observation]:
        began = self.clock()
        try:
            listed = self.novita.list(name=call.purchase.name, within=self.budget.to_call())
        except (NovitaForNow, NovitaRefused) as error:
            return decision, postponed(error)
        found = next((machine for machine in listed if machine.name == call.purchase.name), None)
        if found is None and not self.key_trust.believes(self.novita.key_version()):  # another account's?
            return decision, CallPostponed(UNPROVEN_KEY)
        if found is None:
            return decision, NameNotListed(call.purchase, began)
        bought = replace(call.purchase, outcome=PurchaseOutcome.BOUGHT, machine_id=found.id, ended_at=began)
        self.instances.settle(bought)
        return self._read_purchases(decision, ReadPurchases())

    def _write_off(self, decision: Decision, call: WriteOffPurchase) -> tuple[Decision, Observation]:
        self.instances.settle(replace(call.purchase, outcome=PurchaseOutcome.ABSENT))
        return self._read_purchases(decision, ReadPurchases())

    def _look(self, decision: Decision, call: Look) -> tuple[Decision, Observation]:
        began, ending = self.clock(), end_taken(decision.record, call.machine_id)
        try:
            if shared := self.shared_polling.look(decision.record, call.machine_id, self.budget.to_call()):
                return decision, shared
            began = self.clock()
            shown = self.novita.get(call.machine_id, within=self.budget.to_call(), absence_expected=ending)
            return decision, Seen(shown, began)
        except MachineNotFound:
            return decision, NotFoundById(call.machine_id, began)
        except AbsentWithoutReason as error:
            unlisted = ending and self._unlisted(call.machine_id, began)
            return decision, NotFoundById(call.machine_id, began, False, unlisted, error.fault)
        except (NovitaForNow, NovitaRefused) as error:
            return decision, postponed(error)

    def _unlisted(self, machine_id: str, after: datetime) -> bool:
        """Whether a complete list, read later than that with a key that is proven, lacks the machine."""
        try:
            listed, _ = self.shared_polling.shared_list.shared(self.budget.to_call(), after)
        except (NovitaForNow, NovitaRefused) as error:
            logger.info("no list beside a bare 404", code=error.code)
            return False
        return machine_id not in listed.machines and self.key_trust.believes(self.novita.key_version())

    def _intend(self, decision: Decision) -> Decision:
        """Counted before it is sent: whoever dies after the call has counted it all the same."""
        stored = self.instances.save(decision)
        return replace(decision, record=stored, events=(), operations=(), owns=None)

    def _act(self, decision: Decision, call: Act) -> tuple[Decision, Observation]:
        before, decision, began = decision, decision.count_attempt(call.action), self.clock()
        if call.action in (Action.START, Action.RESTART) and self.purchase_switch.read().paused:
            return before, CallPostponed(PURCHASES_PAUSED)
        if call.action is Action.RESTART:  # the one action that is not the same twice
            decision = self._intend(decision)
            before = decision.count_attempt(call.action, -1)
        anothers = partial(self._owned_by_another, decision, call.machine_id)
        refused = refusal_of(decision.record, call) is not None
        acts: dict[Action, Callable[..., None]] = {
            Action.START: self.novita.start,
            Action.RESTART: self.novita.restart,
            Action.STOP: partial(self.novita.stop, refused_before=refused),
            Action.DELETE: partial(self.novita.delete, unless=anothers, refused_before=refused),
        }
        try:
            acts[call.action](call.machine_id, within=self.budget.to_call())
        except NoLongerOurs:
            return before, OwnedByAnother(call.machine_id)
        except MachineNotFound:
            return decision, NotFoundById(call.machine_id, began)
        except AbsentWithoutReason as error:
            return decision, NotFoundById(call.machine_id, began, with_reason=False, fault=error.fault)
        except InvalidState as error:
            return decision, CallRefused(error.fault, call, wrong_state=True)
        except NovitaRefused as error:
            no_room = isinstance(error, NoCapacity)
            return decision, CallRefused(error.fault, call, capacity=no_room, wait_seconds=error.retry_after)
        except OutcomeUnclear as error:  # a restart, perhaps made
            return decision, CallUnclear(error.fault, call, error.retry_after)
        except NotNow as error:  # it was not sent, or not taken: no attempt
            return before, replace(postponed(error), act=call)
        except NovitaForNow as error:
            return decision, postponed(error)
        return decision, ActionTaken(call, self.clock())

    def _begin_recovery(self, decision: Decision, _: BeginRecovery) -> tuple[Decision, Observation]:
        paused = self.purchase_switch.read().paused
        return decision, CallPostponed(PURCHASES_PAUSED) if paused else RecoveryMayBegin()

    def _owned_by_another(self, decision: Decision, machine_id: str) -> bool:
        """Read right before it is deleted, and consistently: it may have been imported meanwhile."""
        return self.instances.owner(machine_id) not in (None, decision.record.id)


def postponed(error: OstlerError) -> CallPostponed:
    return CallPostponed(error.fault, error.retry_after or None)
