"""What an instance needs next, what happens when its time is up, and when it is due again."""

from dataclasses import replace
from datetime import datetime, timedelta

from functions.shared.domain.errors import Fault
from functions.shared.domain.instance.boot_times import next_look, plan_looks
from functions.shared.domain.instance.decision import Decision
from functions.shared.domain.instance.observations import Act, Call, CheckHealth, Look, ReadPurchases
from functions.shared.domain.instance.record import Action, Instance
from functions.shared.domain.instance.status import Status

_COMING = frozenset({Status.STARTING, Status.MIGRATING})
_ON_THE_MOVE = _COMING | {Status.STOPPING}
_OVER = frozenset({Status.DELETING, Status.FAILED, Status.TERMINATED})
_JUDGED = _COMING | {Status.HEALTH_CHECKING}  # by a look after the deadline


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


def _needed(decision: Decision) -> tuple[Call, Decision] | None:
    """The next call of this step, and the decision as it is when that call has had its turn."""
    record, step = decision.record, decision.step
    if (record.status is Status.CREATING or record.unsettled) and record.reviewed_at != step:
        return ReadPurchases(), decision.having(reviewed_at=step)
    for task in record.duties:
        if task.checked_at != step:
            asked = task.asked_at is not None
            call = Look(task.machine_id) if asked else Act(task.action, task.machine_id)
            return call, decision.with_cleanup(replace(task, checked_at=step))
    if record.machine_id and record.looked_at != step:
        if record.pending:
            return Act(record.pending, record.machine_id), decision.having(looked_at=step)
        if record.status in _ON_THE_MOVE or record.needs_look or _silent(record, step):
            return Look(record.machine_id), decision.having(looked_at=step)
    if record.status is Status.HEALTH_CHECKING and record.probed_at != step:
        return CheckHealth(), decision.having(probed_at=step)
    return None


def _silent(record: Instance, step: datetime) -> bool:
    """The application did not answer the last time: Novita may have stopped or moved the machine since."""
    checking = record.status is Status.HEALTH_CHECKING and record.health is not None
    return checking and record.probed_at != step


def _finish(decision: Decision) -> Decision:
    record = decision.record
    if record.status is Status.DELETING and not record.duties and not record.unsettled:
        decision = _end(decision)
    record = decision.record
    if record.at_rest:
        return decision.having(waiting=None).due(None)
    due = decision.pause or decision.again_at or _next_look(decision)
    if record.deadline_at and record.deadline_at > decision.now:
        due = min(due, record.deadline_at)
    elif record.deadline_at and record.status in _JUDGED and not _may_be_up(decision, record.deadline_at):
        due = decision.now  # it was looked at, and is not up: the next step says so
    return decision.due(due)


def _next_look(decision: Decision) -> datetime:
    """When it is likely to be up, or can be confirmed to be gone, where nothing else is waited for."""
    record, interval = decision.record, decision.policy.poll.total_seconds()
    if gone_at := _all_gone_at(decision):
        return max(gone_at, decision.now)
    busy = record.status is not Status.STARTING or record.pending or record.duties or record.unsettled
    if busy or record.boot is None or record.acted_at is None:
        return decision.now + decision.policy.poll
    elapsed = (decision.now - record.acted_at).total_seconds()
    at = next_look(plan_looks(record.boot, interval), elapsed, interval)
    return record.acted_at + timedelta(seconds=at)


def _all_gone_at(decision: Decision) -> datetime | None:
    """Where only machines are to be seen gone, and none was found: when a look can first confirm that."""
    record, policy = decision.record, decision.policy
    if record.status not in _OVER or record.unsettled or not all(task.missing_at for task in record.duties):
        return None
    missing = (task.missing_at + policy.gone_after for task in record.duties if task.missing_at)
    return min(missing, default=None)


def _end(decision: Decision) -> Decision:
    """Terminated is said of a machine only when Novita has confirmed that it is gone."""
    machine_id = decision.record.machine
    if machine_id and machine_id not in decision.record.vanished:
        return decision.add_cleanup(machine_id, Action.DELETE)
    return decision.move(Status.TERMINATED).operate("completed")


def check_deadline(decision: Decision) -> Decision:
    record = decision.record
    if record.status is Status.CREATING:
        return decision if record.unsettled else give_up_buying(decision)
    if record.deadline_at is None or decision.now < record.deadline_at:
        return decision
    if record.status not in _JUDGED or _may_be_up(decision, record.deadline_at):
        return decision
    if record.status is Status.HEALTH_CHECKING:
        return fail(decision, Fault("HEALTH_CHECK_FAILED", "The application did not answer in time"))
    return fail(decision, Fault("STARTUP_TIMEOUT", "The machine was not running in time"))


def give_up_buying(decision: Decision) -> Decision:
    """Once the deadline has passed; where a purchase is open, when the books have been read."""
    record = decision.record
    if (
        record.status is not Status.CREATING
        or record.deadline_at is None
        or decision.now < record.deadline_at
    ):
        return decision
    because = f"; last: {record.waiting.message}" if record.waiting else ""
    code = record.waiting.code if record.waiting else "PURCHASE_TIMEOUT"
    return fail(decision, Fault(code, f"No machine was bought in time{because}"))


def _may_be_up(decision: Decision, deadline: datetime) -> bool:
    """Nobody has looked since the deadline: it may have come up in time. Novita may not let us look, and the
    machine bills, so that this is not waited for long; the application can always be asked."""
    record = decision.record
    if record.status is Status.HEALTH_CHECKING:
        return record.probed_at is None or record.probed_at < deadline
    looked = record.seen_at is not None and record.seen_at >= deadline
    return not record.pending and not looked and decision.now < deadline + decision.policy.settle


def fail(decision: Decision, fault: Fault) -> Decision:
    """Failed, and the machine stops costing money unless the request said to keep it."""
    record = decision.record
    again = record.starting_again
    decision = decision.move(
        Status.FAILED,
        fault.code,
        fault,
        error=fault,
        deadline_at=None,
        pending=None,
        health_check=None,
    )
    if decision.record.status is not Status.FAILED:
        return decision
    if again:
        decision = end_startup(decision, fault)
    return decision if record.spec.keep_on_failure else give_up_machine(decision)


def give_up_machine(decision: Decision) -> Decision:
    """What never was of use is deleted; what was keeps its disk."""
    record = decision.record
    if record.machine_id is None:
        return decision
    started_again = record.operation is not None and record.operation.kind in (Action.START, Action.RESTART)
    was_ready = started_again or record.ready_at is not None
    return decision.add_cleanup(record.machine_id, Action.STOP if was_ready else Action.DELETE)


def end_startup(decision: Decision, fault: Fault) -> Decision:
    return decision.operate("failed", fault).note("startup.failed", fault.code, fault)
