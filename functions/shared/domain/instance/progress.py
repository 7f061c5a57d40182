"""What an instance needs next, what happens when its time is up, and when it is due again."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from functions.shared.domain.errors import Fault
from functions.shared.domain.instance import recovery
from functions.shared.domain.instance.boot_times import first_look
from functions.shared.domain.instance.decision import Decision
from functions.shared.domain.instance.expiry import next_due
from functions.shared.domain.instance.limits import EndedBy
from functions.shared.domain.instance.observations import Act, Call, CheckHealth, Look, ReadPurchases
from functions.shared.domain.instance.record import Action, CleanupTask, Instance, Refusal
from functions.shared.domain.instance.status import ON_THE_MOVE, WITH_BOOT_DEADLINE, Status

LONGEST_STEP = timedelta(minutes=2)  # as long as a function may live
# Waits between looks for a missing machine grow to this. Below an hour, as a longer time without a not-found
# does not count towards `vanished_after`.
_LONGEST_LOOK_WAIT = timedelta(minutes=45)
# Restarts whose outcome stays unclear. More of them would only interrupt whoever uses the machine.
_MOST_RESTARTS = 2
_MOST_LOST_ROUNDS = 5  # in a row, when the deadline has passed
PURCHASES_PAUSED = Fault("PURCHASES_PAUSED", "An admin has paused purchases and starts")


def proceed(decision: Decision) -> Decision:
    """The next call of this step; when there is none, when the next step is due."""
    if decision.pause is None and (needed := _needed(decision)):
        return decision.ask(needed[0])
    return _finish(decision)


def set_aside(decision: Decision) -> Decision:
    """The call that was asked for could not be made: it has had its turn in this step."""
    needed = _needed(decision)
    return needed[1] if needed else decision


def more_to_do(decision: Decision) -> bool:
    return _needed(decision) is not None


def left_to_its_step(record: Instance, now: datetime) -> bool:
    """Whether GET and the sweep leave it alone: its step is under way and their write would make that stale,
    or its status is one that only its own step may judge."""
    due = record.next_check_at
    under_way = due is not None and timedelta() <= now - due < LONGEST_STEP
    return under_way or record.status in (Status.HEALTH_CHECKING, Status.DELETING)


def _needed(decision: Decision) -> tuple[Call, Decision] | None:
    """The next call of this step, and the decision as it is when that call has had its turn."""
    record, machine, step = decision.record, decision.record.machine, decision.step
    if record.round_is_next and record.probed_at != step:
        return CheckHealth(), decision
    unsettled = record.status is Status.CREATING or record.purchases.unsettled
    if unsettled and record.purchases.read_at != step:
        return ReadPurchases(), decision.change_purchases(read_at=step)
    for task in record.cleanup.tasks:
        if task.checked_at != step and not _put_off(task.refusal, step):
            if recovery.may_be_back(record, task) and machine.looked_at != step:
                return Look(task.machine_id), decision.change_machine(looked_at=step)
            asked = task.asked_at is not None
            call = Look(task.machine_id) if asked else Act(task.action, task.machine_id)
            return call, decision.with_task(replace(task, checked_at=step))
    if machine.id and machine.looked_at != step and not record.leaving:
        put_off = record.operation is not None and _put_off(record.operation.refusal, step)
        if record.pending and not put_off and not (machine.needs_look and _start_overdue(record, step)):
            return Act(record.pending, machine.id), decision.change_machine(looked_at=step)
        if recovery.start_is_next(record, decision.now):
            return Act(Action.START, machine.id), decision.change_machine(looked_at=step)
        checking = record.status is Status.HEALTH_CHECKING  # and the last look is too old for a round
        if record.status in ON_THE_MOVE or machine.needs_look or checking:
            return Look(machine.id), decision.change_machine(looked_at=step)
    if record.recovery and (more := recovery.next_call(record, step)):
        return more, decision.change(recovery=replace(record.recovery, checked_at=step))
    return None


def _put_off(refusal: Refusal | None, step: datetime) -> bool:
    return refusal is not None and step < refusal.again_at


def _finish(decision: Decision) -> Decision:
    record = decision.record
    if record.status is Status.DELETING and not record.cleanup.tasks and not record.purchases.unsettled:
        decision = _end(decision)
    record = decision.record
    limit = next_due(record, decision.policy.expiry_notice)
    if record.at_rest:
        return decision.change(waiting=None).due(limit)
    due = decision.pause or _next_look(decision)
    deadline = None if record.paused_at else record.deadline_at
    if deadline and deadline > decision.now:
        due = min(due, deadline)
    elif deadline and record.status in WITH_BOOT_DEADLINE and not _may_be_up(decision, deadline):
        due = decision.now  # it was looked at, and is not up: the next step says so
    return decision.due(min(due, limit) if limit else due)


def _next_look(decision: Decision) -> datetime:
    """The first time at which something can be done or learned."""
    record, now = decision.record, decision.now
    times = [_task_due(decision, task) for task in record.cleanup.tasks]
    if record.purchases.unsettled:
        times.append(now + decision.policy.poll)
    if record.operation and record.pending:
        times.append(_refused_until(record.operation.refusal, now) or _machine_due(decision))
    elif (record.status in ON_THE_MOVE or record.machine.needs_look) and not record.leaving:
        times.append(_machine_due(decision))
    if due := recovery.due_at(decision):
        times.append(due)
    return max(now, min(times, default=now + decision.policy.poll))


def _task_due(decision: Decision, task: CleanupTask) -> datetime:
    """When Novita can be asked again, or a look can confirm that it is gone."""
    if again_at := _refused_until(task.refusal, decision.now):
        return again_at
    if task.missing_at and task.action is Action.DELETE:
        return task.missing_at + decision.policy.gone_after
    own = task.machine_id == decision.record.machine.id
    return (own and look_again_at(decision)) or decision.now + decision.policy.poll


def _refused_until(refusal: Refusal | None, now: datetime) -> datetime | None:
    return refusal.again_at if refusal and refusal.again_at > now else None


def _machine_due(decision: Decision) -> datetime:
    """When it may be up; or, if it was not found, when it is looked for again."""
    if again_at := look_again_at(decision):
        return again_at
    earliest = earliest_up(decision.record) if booting(decision.record) else None
    return earliest if earliest and decision.now < earliest else decision.now + decision.policy.poll


def booting(record: Instance) -> bool:
    """Nothing is waited for but that its machine comes up."""
    return record.status is Status.STARTING and record.machine.id is not None and not record.pending


def earliest_up(record: Instance) -> datetime | None:
    """Before that it is hardly up; None where nobody knows."""
    machine = record.machine
    if machine.boot is None or machine.acted_at is None:
        return None
    return machine.acted_at + timedelta(seconds=first_look(machine.boot))


def look_again_at(decision: Decision) -> datetime | None:
    """For a machine that was not found: when a second look can confirm that, then after waits that grow."""
    machine, policy = decision.record.machine, decision.policy
    if machine.first_missed_at is None:
        return None
    if machine.missing_since is None:
        return max(decision.now, machine.first_missed_at + policy.gone_after)
    missing_for = decision.now - machine.missing_since
    return decision.now + min(max(missing_for, policy.poll), max(_LONGEST_LOOK_WAIT, policy.poll))


def _end(decision: Decision) -> Decision:
    """Terminated is said of a machine only when Novita has confirmed that it is gone."""
    machine_id = decision.record.live_machine_id
    if machine_id and machine_id not in decision.record.cleanup.vanished:
        return decision.add_cleanup(machine_id, Action.DELETE)
    return decision.move(Status.TERMINATED).move_operation("completed")


def after_pause(decision: Decision) -> Decision:
    """What a pause held back is asked for again. The time in between counts for nothing that waits for it."""
    record = decision.record
    if record.paused_at is None:
        return decision
    held_for = decision.now - record.paused_at
    deadline = record.deadline_at and record.deadline_at + held_for
    return recovery.moved(decision.change(paused_at=None, deadline_at=deadline), held_for)


def check_time(decision: Decision) -> Decision:
    """What time has brought about: a restart that is given up, a deadline."""
    decision = recovery.check_window(give_up_restart(decision))
    record = decision.record
    if record.status is Status.CREATING:
        return decision if record.purchases.unsettled else give_up_buying(decision)
    if record.deadline_at is None or decision.now < record.deadline_at:
        return decision
    if record.status not in WITH_BOOT_DEADLINE:
        return decision
    if _may_be_up(decision, record.deadline_at):
        overdue = _start_overdue(record, decision.now)
        return decision.change_machine(needs_look=True) if overdue else decision
    if record.status is Status.HEALTH_CHECKING:
        return _late(decision, Fault("HEALTH_CHECK_FAILED", "The application did not answer in time"))
    error = record.machine.shown_error
    because = f"; {error.fault.message}" if error else ""
    late = Fault("STARTUP_TIMEOUT", f"The machine was not running in time{because}")
    # What was to be restarted, and was perhaps never asked, may run on: somebody may be using it.
    return leave_as_it_was(decision, late) if record.pending is Action.RESTART else _late(decision, late)


def _late(decision: Decision, fault: Fault) -> Decision:
    again = recovery.may_try_again(decision.record)
    return recovery.not_up_in_time(decision, fault) if again else fail(decision, fault)


def give_up_restart(decision: Decision) -> Decision:
    """Counted before each was sent, so that a function that died in between has counted, too."""
    operation = decision.record.operation
    if decision.record.pending is not Action.RESTART or not operation or operation.attempts < _MOST_RESTARTS:
        return decision
    fault = decision.record.waiting or Fault("NOVITA_UNAVAILABLE", "Nobody knows whether it was restarted")
    return leave_as_it_was(decision, fault)


def give_up_buying(decision: Decision) -> Decision:
    """Once the deadline has passed; where a purchase is open, when the purchases have been read."""
    record = decision.record
    in_time = record.deadline_at is None or decision.now < record.deadline_at
    if record.status is not Status.CREATING or in_time:
        return decision
    because = f"; last: {record.waiting.message}" if record.waiting else ""
    code = record.waiting.code if record.waiting else "PURCHASE_TIMEOUT"
    details = record.waiting.details if record.waiting else None
    return fail(decision, Fault(code, f"No machine was bought in time{because}", details))


def _may_be_up(decision: Decision, deadline: datetime) -> bool:
    """Nobody has looked since the deadline, so it may have come up in time: a deadline ends nothing unseen,
    however long Novita does not let us look. Nor does our own lack of slots. The application can always be
    asked, unless whoever asks dies of it every time."""
    record = decision.record
    if record.status is Status.HEALTH_CHECKING:
        asked = record.probed_at is not None and record.probed_at >= deadline
        return not asked and record.rounds.lost < _MOST_LOST_ROUNDS
    if record.pending is Action.RESTART or _short_of_slots(record):
        return _short_of_slots(record)
    machine = record.machine  # of which one not-found says nothing
    looks = (machine.seen_at, machine.last_missed_at if machine.missing_since else None)
    return not any(looked and looked >= deadline for looked in looks)


def _start_overdue(record: Instance, now: datetime) -> bool:
    """Its answer may have been lost, and the machine may run since: a look tells, before another call."""
    late = record.deadline_at is not None and now >= record.deadline_at
    return late and record.pending is Action.START and not _short_of_slots(record)


def _short_of_slots(record: Instance) -> bool:
    return bool(record.pending and record.waiting and record.waiting.code == "RATE_LIMIT_EXCEEDED")


def leave_as_it_was(decision: Decision, fault: Fault) -> Decision:
    """Nothing was done, as far as anybody knows. What was to be restarted may run on: the next look tells."""
    operation = decision.record.operation
    if decision.record.pending is Action.RESTART:
        decision = decision.change(deadline_at=decision.now + decision.policy.boot_wait)
    else:
        stopped = operation is not None and operation.began_in is Status.STOPPED
        before = Status.STOPPED if stopped else Status.EXITED
        decision = decision.move(before, fault.code, fault, deadline_at=None, ended_by=EndedBy.FAILURE)
    return end_startup(decision, fault)


def postpone(decision: Decision, fault: Fault, wait_seconds: float | None) -> Decision:
    """What could not be done waits; what else there is to do, such as another machine to delete, does not."""
    decision = recovery.held(decision.change(waiting=fault), fault)
    if fault == PURCHASES_PAUSED:
        decision = decision.change(paused_at=decision.now)
    if decision.record.status is not Status.CREATING:
        decision = set_aside(decision)
        if more_to_do(decision):
            return decision
    poll = decision.policy.poll
    wait = poll if wait_seconds is None else max(timedelta(seconds=wait_seconds), poll / 30)
    return decision.wait_until(decision.now + wait)


def fail(decision: Decision, fault: Fault, by: EndedBy = EndedBy.FAILURE) -> Decision:
    """Failed, and the machine stops costing money unless the request said to keep it. What is in use, or at
    its end already, cannot fail any more."""
    record = decision.record
    if not record.may_become(Status.FAILED):
        return decision
    fault = recovery.failure(record, fault)
    if record.starting_again:  # first, so that every event of this moment says so
        decision = decision.move_operation("failed", fault)
    changes: Any = {"error": fault, "deadline_at": None, "ended_by": by}
    decision = decision.move(Status.FAILED, fault.code, fault, **changes)
    if record.starting_again:
        decision = end_startup(decision, fault)
    decision = recovery.ended(decision, fault)
    return decision if record.spec.keep_on_failure else give_up_machine(decision)


def give_up_machine(decision: Decision) -> Decision:
    """What never was of use is deleted; what was keeps its disk."""
    record = decision.record
    if record.machine.id is None:
        return decision
    used = record.was_ready or (record.operation and record.operation.brings_up)
    was_ready = used and not record.machine.untried
    return decision.add_cleanup(record.machine.id, Action.STOP if was_ready else Action.DELETE)


def end_startup(decision: Decision, fault: Fault) -> Decision:
    return decision.move_operation("failed", fault).add_event("startup.failed", fault.code, fault)
