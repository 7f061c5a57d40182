"""What a decision consists of, and how one grows: moves, notes, calls, due times."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from functions.shared.domain.errors import Fault
from functions.shared.domain.instance.boot_times import BootTime
from functions.shared.domain.instance.observations import Call, LastUse
from functions.shared.domain.instance.record import Action, CleanupTask, Event, Instance, Operation
from functions.shared.domain.instance.status import OFF, UP, Status


@dataclass(frozen=True)
class Policy:
    """The waits that decisions are made with."""

    poll: timedelta = timedelta(seconds=30)
    purchase_wait: timedelta = timedelta(minutes=60)
    boot_wait: timedelta = timedelta(minutes=20)
    settle: timedelta = timedelta(seconds=120)
    gone_confirm: timedelta = timedelta(seconds=10)
    vanished_after: timedelta = timedelta(hours=24)
    expiry_notice: timedelta = timedelta(minutes=10)

    @property
    def gone_after(self) -> timedelta:
        """How long a machine must stay not found until that is believed."""
        return max(self.gone_confirm, self.settle)


@dataclass(frozen=True)
class Decision:
    record: Instance
    now: datetime
    policy: Policy
    step: datetime  # when the step began: what was asked in it is not asked again
    actor: str = "system"
    events: tuple[Event, ...] = ()
    operations: tuple[Operation, ...] = ()  # every operation that changed, as it is now
    call: Call | None = None  # to be made before anything else is decided
    pause: datetime | None = None  # nothing more can be done in this step; go on then
    boot_time: BootTime | None = None  # it has just come up: something to learn from
    owns: str | None = None  # a machine that is its own from now on: stored with the record
    commits: bool = False  # it is about to spend money: stored only within caps and budgets
    illegal_moves: tuple[tuple[Status, Status], ...] = ()  # a mistake in the rules: logged and counted
    unused: LastUse | None = None  # it is stored only if there was no other use since this one

    def change(self, **changes: Any) -> "Decision":
        return replace(self, record=replace(self.record, **changes))

    def change_machine(self, **changes: Any) -> "Decision":
        return self.change(machine=replace(self.record.machine, **changes))

    def change_purchases(self, **changes: Any) -> "Decision":
        return self.change(purchases=replace(self.record.purchases, **changes))

    def change_cleanup(self, **changes: Any) -> "Decision":
        return self.change(cleanup=replace(self.record.cleanup, **changes))

    def change_operation(self, **changes: Any) -> "Decision":
        """Of the operation under way, if there is one."""
        operation = self.record.operation
        if operation is None or operation.ended:
            return self
        return self.change(operation=replace(operation, **changes))

    def ask(self, call: Call) -> "Decision":
        return replace(self, call=call)

    def wait_until(self, at: datetime) -> "Decision":
        return replace(self, pause=at)

    def commit(self) -> "Decision":
        """For a create, a start, a recovery, a purchase; what others began is counted and not refused."""
        return replace(self, commits=True)

    def own(self, machine_id: str) -> "Decision":
        return replace(self.change_machine(owned=True), owns=machine_id)

    def with_task(self, task: CleanupTask) -> "Decision":
        tasks = (task if one.machine_id == task.machine_id else one for one in self.record.cleanup.tasks)
        return self.change_cleanup(tasks=tuple(tasks))

    def without_task(self, machine_id: str) -> "Decision":
        tasks = (one for one in self.record.cleanup.tasks if one.machine_id != machine_id)
        return self.change_cleanup(tasks=tuple(tasks))

    def due(self, at: datetime | None) -> "Decision":
        return self.change(next_check_at=at)

    def move(
        self,
        status: Status,
        reason: str | None = None,
        fault: Fault | None = None,
        data: Mapping[str, Any] | None = None,
        **changes: Any,
    ) -> "Decision":
        """The one way a status changes. A move that the table does not allow changes nothing and is noted."""
        if not self.record.may_become(status):
            return replace(self, illegal_moves=(*self.illegal_moves, (self.record.status, status)))
        comes_back = self.record.recovery is not None and self.record.status in OFF  # which is no start
        clock = self.record.clock
        clock = clock if comes_back else clock.moved(self.record.status, status, self.now)
        ended_by = None if status in UP else self.record.ended_by
        own: dict[str, Any] = {"clock": clock, "ended_by": ended_by, "updated_at": self.now}
        own |= {"waiting": None, "paused_at": None}
        changed = self.change(**own | changes | {"status": status})
        health = self.record.health if status in (Status.READY, Status.FAILED) else None
        if changed.record.ended_by:
            data = {**(data or {}), "endedBy": changed.record.ended_by.value}
        return changed.add_event(f"instance.{status}", reason, fault, health, data)

    def add_event(
        self,
        type_: str,
        reason: str | None = None,
        error: Fault | None = None,
        health: Mapping[str, Any] | None = None,
        data: Mapping[str, Any] | None = None,
    ) -> "Decision":
        record = self.record
        operation = self._operation_concerned()
        began = operation.began_at if operation else record.created_at
        event = Event(
            instance_id=record.id,
            sequence=record.sequence + 1,
            type=type_,
            at=self.now,
            status=record.status,
            actor=self.actor,
            correlation_id=record.correlation_id,
            machine_id=record.machine.id,
            region=record.machine.region,
            elapsed_ms=max(0, int((self.now - began).total_seconds() * 1000)),
            reason=reason,
            error=error,
            health=health,
            operation_id=operation.id if operation else None,
            operation_kind=operation.kind if operation else None,
            startup_phases=operation.phases if operation and operation.brings_up else None,
            webhook_url=record.webhook_url,
            operation_webhook_url=operation.webhook_url if operation else None,
            data=data,
        )
        return replace(self.change(sequence=event.sequence), events=(*self.events, event))

    def _operation_concerned(self) -> Operation | None:
        """The operation that an event belongs to: under way, or ended by this very decision."""
        operation = self.record.operation
        ended_before = operation and operation.ended and all(operation.id != o.id for o in self.operations)
        return None if ended_before else operation

    def move_operation(self, status: str, error: Fault | None = None) -> "Decision":
        """Move the operation under way, if there is one, to its next phase."""
        operation = self.record.operation
        if operation is None or operation.ended:
            return self
        return self._with_operation(operation.to(status, self.now, error))

    def count_attempt(self, action: Action, by: int = 1) -> "Decision":
        """Count a call to Novita for the operation under way, or one that was not made after all."""
        operation = self.record.operation
        if operation is None or operation.ended or operation.kind is not action:
            return self
        return self._with_operation(replace(operation, attempts=operation.attempts + by))

    def _with_operation(self, operation: Operation) -> "Decision":
        others = tuple(one for one in self.operations if one.id != operation.id)
        return replace(self.change(operation=operation), operations=(*others, operation))

    def add_cleanup(self, machine_id: str, action: Action) -> "Decision":
        """A machine is to be deleted or stopped; deleting outdoes stopping. Stored first, then done: whoever
        is overtaken before that has ended nothing."""
        record = self.record
        held = record.cleanup.task(machine_id)
        if machine_id in record.cleanup.gone or (held and held.action in (action, Action.DELETE)):
            return self
        seen_at = (record.machine.seen_at if machine_id == record.machine.id else None) or self.now
        added = self.without_task(machine_id)
        tasks = (*added.record.cleanup.tasks, CleanupTask(machine_id, action, seen_at))
        return added.change_cleanup(tasks=tasks).due(self.now).wait_until(self.now)


def leave_to_its_step(record: Instance, decision: Decision) -> Decision:
    """For whoever only looked, such as GET and the sweep. A call that is needed is left to the instance's own
    step, which is due now. And looking never postpones a step: somebody may look all the time, and a delete
    must still be sent, a passed deadline still be noticed."""
    due = decision.record.next_check_at
    if decision.call is not None:
        due = decision.now
    elif due and record.next_check_at and not decision.record.at_rest:  # then nothing but a limit is due
        due = min(due, record.next_check_at)
    return replace(decision.due(due), call=None)
