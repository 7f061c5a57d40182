"""What an instance needs next, what happens when its time is up, and when it is due again."""

from dataclasses import replace
from datetime import datetime, timedelta

from functions.shared.domain.errors import Fault
from functions.shared.domain.instance.boot_times import next_look, plan_looks
from functions.shared.domain.instance.decision import Decision
from functions.shared.domain.instance.observations import Act, Call, CheckHealth, Look, ReadPurchases
from functions.shared.domain.instance.record import Action, Instance
from functions.shared.domain.instance.status import ON_THE_MOVE, OVER, WITH_BOOT_DEADLINE, Status

_LONGEST_STEP = timedelta(minutes=2)  # as long as a function may live
_MOST_LOST_ROUNDS = 5  # in a row, when the deadline has passed


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
    under_way = due is not None and timedelta() <= now - due < _LONGEST_STEP
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
        if task.checked_at != step:
            asked = task.asked_at is not None
            call = Look(task.machine_id) if asked else Act(task.action, task.machine_id)
            return call, decision.with_task(replace(task, checked_at=step))
    if machine.id and machine.looked_at != step:
        if record.pending:
            return Act(record.pending, machine.id), decision.change_machine(looked_at=step)
        checking = record.status is Status.HEALTH_CHECKING  # and the last look is too old for a round
        if record.status in ON_THE_MOVE or machine.needs_look or checking:
            return Look(machine.id), decision.change_machine(looked_at=step)
    return None


def _finish(decision: Decision) -> Decision:
    record = decision.record
    if record.status is Status.DELETING and not record.cleanup.tasks and not record.purchases.unsettled:
        decision = _end(decision)
    record = decision.record
    if record.at_rest:
        return decision.change(waiting=None).due(None)
    due = decision.pause or decision.again_at or _next_look(decision)
    deadline = record.deadline_at
    if deadline and deadline > decision.now:
        due = min(due, deadline)
    elif deadline and record.status in WITH_BOOT_DEADLINE and not _may_be_up(decision, deadline):
        due = decision.now  # it was looked at, and is not up: the next step says so
    return decision.due(due)


def _next_look(decision: Decision) -> datetime:
    """When it is likely to be up, or can be confirmed to be gone, where nothing else is waited for."""
    record, machine, interval = decision.record, decision.record.machine, decision.policy.poll.total_seconds()
    if gone_at := _all_gone_at(decision):
        return max(gone_at, decision.now)
    other_work = record.pending or record.cleanup.tasks or record.purchases.unsettled
    if other_work or record.status is not Status.STARTING or machine.boot is None or machine.acted_at is None:
        return decision.now + decision.policy.poll
    elapsed = (decision.now - machine.acted_at).total_seconds()
    at = next_look(plan_looks(machine.boot, interval), elapsed, interval)
    return machine.acted_at + timedelta(seconds=at)


def _all_gone_at(decision: Decision) -> datetime | None:
    """Where all that is left is to confirm that machines are gone: when a look can first do that."""
    record, tasks = decision.record, decision.record.cleanup.tasks
    if record.status not in OVER or record.purchases.unsettled or not all(task.missing_at for task in tasks):
        return None
    missing = (task.missing_at + decision.policy.gone_after for task in tasks if task.missing_at)
    return min(missing, default=None)


def _end(decision: Decision) -> Decision:
    """Terminated is said of a machine only when Novita has confirmed that it is gone."""
    machine_id = decision.record.live_machine_id
    if machine_id and machine_id not in decision.record.cleanup.vanished:
        return decision.add_cleanup(machine_id, Action.DELETE)
    return decision.move(Status.TERMINATED).move_operation("completed")


def check_deadline(decision: Decision) -> Decision:
    record = decision.record
    if record.status is Status.CREATING:
        return decision if record.purchases.unsettled else give_up_buying(decision)
    if record.deadline_at is None or decision.now < record.deadline_at:
        return decision
    if record.status not in WITH_BOOT_DEADLINE or _may_be_up(decision, record.deadline_at):
        return decision
    if record.status is Status.HEALTH_CHECKING:
        return fail(decision, Fault("HEALTH_CHECK_FAILED", "The application did not answer in time"))
    return fail(decision, Fault("STARTUP_TIMEOUT", "The machine was not running in time"))


def give_up_buying(decision: Decision) -> Decision:
    """Once the deadline has passed; where a purchase is open, when the purchases have been read."""
    record = decision.record
    in_time = record.deadline_at is None or decision.now < record.deadline_at
    if record.status is not Status.CREATING or in_time:
        return decision
    because = f"; last: {record.waiting.message}" if record.waiting else ""
    code = record.waiting.code if record.waiting else "PURCHASE_TIMEOUT"
    return fail(decision, Fault(code, f"No machine was bought in time{because}"))


def _may_be_up(decision: Decision, deadline: datetime) -> bool:
    """Nobody has looked since the deadline: it may have come up in time. Novita may not let us look, and the
    machine bills, so that this is not waited for long; the application can always be asked, unless whoever
    asks dies of it every time."""
    record = decision.record
    if record.status is Status.HEALTH_CHECKING:
        asked = record.probed_at is not None and record.probed_at >= deadline
        return not asked and record.rounds.lost < _MOST_LOST_ROUNDS
    looked = record.machine.seen_at is not None and record.machine.seen_at >= deadline
    return not record.pending and not looked and decision.now < deadline + decision.policy.settle


def fail(decision: Decision, fault: Fault) -> Decision:
    """Failed, and the machine stops costing money unless the request said to keep it. What is in use, or at
    its end already, cannot fail any more."""
    record = decision.record
    if not record.may_become(Status.FAILED):
        return decision
    decision = decision.move(Status.FAILED, fault.code, fault, error=fault, deadline_at=None)
    if record.starting_again:
        decision = end_startup(decision, fault)
    return decision if record.spec.keep_on_failure else give_up_machine(decision)


def give_up_machine(decision: Decision) -> Decision:
    """What never was of use is deleted; what was keeps its disk."""
    record = decision.record
    if record.machine.id is None:
        return decision
    was_ready = (record.operation and record.operation.brings_up) or record.ready_at is not None
    return decision.add_cleanup(record.machine.id, Action.STOP if was_ready else Action.DELETE)


def end_startup(decision: Decision, fault: Fault) -> Decision:
    return decision.move_operation("failed", fault).add_event("startup.failed", fault.code, fault)
