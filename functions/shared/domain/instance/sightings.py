"""What follows from what Novita shows of a machine, or does not show."""

from dataclasses import replace
from datetime import datetime, timedelta

from functions.shared.domain.errors import Fault
from functions.shared.domain.ids import timestamp
from functions.shared.domain.instance import recovery
from functions.shared.domain.instance.billing import meter_ended, meter_leaving, meter_seen
from functions.shared.domain.instance.boot_times import BootTime
from functions.shared.domain.instance.decision import Decision
from functions.shared.domain.instance.health import probe_targets
from functions.shared.domain.instance.limits import EndedBy
from functions.shared.domain.instance.machine import (
    Endpoint,
    Machine,
    MachineState,
    ShownError,
    has_addresses,
    machine_state,
)
from functions.shared.domain.instance.observations import Look, NotFoundById
from functions.shared.domain.instance.progress import end_startup, fail, postpone
from functions.shared.domain.instance.reclaim import UNTIMED, reclaim_notice
from functions.shared.domain.instance.record import Action, CleanupTask, Instance
from functions.shared.domain.instance.status import COMING_UP, OFF, UP, Status

# Novita's words.
_BEING_REMOVED = frozenset({"toRemove", "removing", "removed"})
_LEAVING = frozenset({"toRemove", "removing", "toStop", "stopping"})


_MOST_TOLD = 5  # errors of one boot that are announced
_ANOTHER_TIME = timedelta(minutes=10)  # one that moves at every look by less is announced once
_LONGEST_GAP = timedelta(hours=1)  # a longer time without a not-found does not count as missing


def seen(decision: Decision, machine: Machine, began: datetime) -> Decision:
    if machine.status in _BEING_REMOVED:
        decision = meter_leaving(decision, machine, began)
    if machine_state(machine) is MachineState.GONE:
        return _removed(decision, machine.id, began)
    if task := decision.record.cleanup.task(machine.id):
        decision = _task_seen(decision, task, machine, began)
    decision = _follow_machine(decision, machine, began)
    current = not (machine.id == decision.record.machine.id and stale(decision, began))
    return meter_seen(decision, machine, began) if current else decision


def _follow_machine(decision: Decision, machine: Machine, began: datetime) -> Decision:
    record, known = decision.record, decision.record.machine
    if machine.id != record.live_machine_id:
        return decision
    decision = decision.change_machine(looked_at=decision.step)
    if stale(decision, began):
        return decision
    error = _shown_error(machine, known.shown_error, began)
    waits_for = error.fault if error and record.coming_up else None
    waits = record.recovery is not None and record.status is Status.EXITED
    busy = record.pending or record.cleanup.tasks or waits
    decision = (
        found(decision)
        .change_machine(
            seen_at=max(began, known.seen_at or began),
            needs_look=False,
            novita_status=machine.status,
            region=machine.region or known.region,
            endpoints=known_endpoints(machine.endpoints, known.endpoints),
            shown_error=error,
        )
        .change(waiting=record.waiting if busy else waits_for)
    )
    decision = _tell_notice(_tell_error(decision, began), machine, began)
    if record.pending:
        if not _as_asked(record, machine):
            return decision
        decision = decision.change_operation(pending=False)
    after = _follow(decision, machine, began)
    running = machine_state(machine) is MachineState.RUNNING
    came_up = record.status is Status.STARTING and running and after.record.status is not record.status
    if came_up:
        return replace(after, boot_time=_boot_time(record, began))
    return _judge_error(after, machine, began)


def is_news(record: Instance, machine: Machine) -> bool:
    """Whether a step would learn more than that its machine is still on its way."""
    known = record.machine
    as_known = replace(machine, status=known.novita_status or "", endpoints=known.endpoints)
    state, expected = machine_state(machine), known.expects_endpoints
    if state is not machine_state(as_known) or (machine.error and not known.shown_error):
        return True
    reached = has_addresses(machine, expected=expected) and not has_addresses(as_known, expected=expected)
    return state is MachineState.RUNNING and reached


def notice_seen(decision: Decision, machine: Machine, began: datetime) -> Decision:
    """For whoever has only the list at hand, while the instance's own step is under way."""
    own = machine.id == decision.record.live_machine_id and not stale(decision, began)
    return _tell_notice(decision, machine, began) if own else decision


def notice_is_new(record: Instance, machine: Machine) -> bool:
    """Either its time is another one than the last, or there was none before. What stays shown after the
    machine was taken away is no notice."""
    notice, told, at = reclaim_notice(machine), record.machine.told_notice, machine.spot_reclaim_at
    runs = machine_state(machine) is not MachineState.EXITED and record.status in COMING_UP | UP
    if not notice or not runs:
        return False
    if at is None or told in ("", *UNTIMED):
        return not told or at is not None
    return abs(at - datetime.fromisoformat(told)) >= _ANOTHER_TIME


def _tell_notice(decision: Decision, machine: Machine, began: datetime) -> Decision:
    """A get shows no spot fields, by Novita's own documents: that takes nothing back."""
    if not machine.spot_status and machine.spot_reclaim_at is None:
        return decision
    new, at = notice_is_new(decision.record, machine), machine.spot_reclaim_at
    decision = decision.change_machine(spot_status=machine.spot_status, spot_reclaim_at=at)
    acted_at = decision.record.machine.acted_at
    if not new or (at is None and acted_at and began < acted_at + decision.policy.settle):
        return decision
    decision = decision.change_machine(told_notice=reclaim_notice(machine))
    reclaim = {"reclaimTime": timestamp(at)} if at else {}
    data = {"spotStatus": machine.spot_status, **reclaim}
    return decision.add_event("instance.reclaim_notified", "Novita will take the machine away", data=data)


def _shown_error(machine: Machine, known: ShownError | None, began: datetime) -> ShownError | None:
    """Of what cannot mend itself the words may differ at every look, by a request's id or a time."""
    if not machine.error:
        return None
    shown = ShownError(machine.error, began)
    lasts = known and (known.text == shown.text or (known.for_good and shown.for_good))
    return replace(shown, since=known.since) if known and lasts else shown


def _tell_error(decision: Decision, began: datetime) -> Decision:
    """Once for each error of a boot, and not endlessly: Novita may show another one at every look."""
    error, told = decision.record.machine.shown_error, decision.record.machine.told_errors
    if error is None or error.gist in told or len(told) >= _MOST_TOLD or _left_over(decision, error, began):
        return decision
    decision = decision.change_machine(told_errors=(*told, error.gist))
    return decision.add_event("instance.machine_error", error.fault.code, error.fault)


def _left_over(decision: Decision, error: ShownError, began: datetime) -> bool:
    """Known from before Novita took our start: it may be that of the boot before."""
    acted_at = decision.record.machine.acted_at
    return acted_at is not None and error.since <= acted_at and began < acted_at + decision.policy.settle


def _judge_error(decision: Decision, machine: Machine, began: datetime) -> Decision:
    """A boot whose image cannot be pulled fails now, instead of costing money until the deadline. Only a
    boot: what runs, or ran and is moved, is never ended for an error. It has to be seen twice, the second
    time at once and by its id, since a list or a single answer may be wrong."""
    record, error = decision.record, decision.record.machine.shown_error
    on_its_way = machine_state(machine) is MachineState.ON_ITS_WAY and machine.status not in _LEAVING
    booting = record.coming_up and record.status is not Status.HEALTH_CHECKING
    if error is None or not (error.for_good and booting and on_its_way):
        return decision
    if _left_over(decision, error, began):
        return decision
    if error.since < began:
        return fail(decision, error.fault)
    return decision.change_machine(needs_look=True).ask(Look(machine.id))


def _as_asked(record: Instance, machine: Machine) -> bool:
    """Whether the call that is still to be made is no longer needed. That it runs is only believed after
    `needs_look`, from a get by id: a list may show it as it was before the stop."""
    if record.pending is Action.START:
        return record.machine.needs_look and machine_state(machine) is MachineState.RUNNING
    return record.pending is Action.STOP and machine_state(machine) is MachineState.EXITED


def not_found(decision: Decision, missed: NotFoundById) -> Decision:
    """Novita knows no such machine: twice, well apart, it is gone if its end was asked for, else missing."""
    machine_id, began = missed.machine_id, missed.began
    task = decision.record.cleanup.task(machine_id)
    ending = task if task and task.action is Action.DELETE else None
    if not missed.with_reason and not (missed.unlisted and ending and ending.asked_at):
        fault = missed.fault or Fault("NOVITA_UNAVAILABLE", "Novita's not-found has no reason")
        return postpone(decision, fault, None)
    if ending:
        return _end_missed(decision, ending, began)
    if task:
        decision = decision.with_task(replace(task, checked_at=decision.step))
    return _missed(decision, began) if machine_id == decision.record.live_machine_id else decision


def _removed(decision: Decision, machine_id: str, began: datetime) -> Decision:
    """Novita's own word for a machine that is no more. Where its end was asked for, that is all there is to
    know; where not, it is missing like any other."""
    task = decision.record.cleanup.task(machine_id)
    if task and task.action is Action.DELETE and (task.asked_at is None or began > task.asked_at):
        return gone(decision, machine_id, _ended_at(decision.record, task, task.missing_at or began))
    return not_found(decision, NotFoundById(machine_id, began))


def _end_missed(decision: Decision, task: CleanupTask, began: datetime) -> Decision:
    current = began >= task.seen_at and (task.asked_at is None or began > task.asked_at)
    if current and task.missing_at and began - task.missing_at >= decision.policy.gone_after:
        return gone(decision, task.machine_id, _ended_at(decision.record, task, task.missing_at))
    missing_at = task.missing_at or began if current else task.missing_at
    decision = decision.with_task(
        replace(task, missing_at=missing_at, checked_at=decision.step, refusal=None)
    )
    own = task.machine_id == decision.record.live_machine_id
    return decision.change_machine(looked_at=decision.step) if own else decision


def _ended_at(record: Instance, task: CleanupTask, missed_at: datetime) -> datetime:
    """When it was last billed: Novita removes what it was told to in seconds, and nobody may have been able
    to look for long after that. One that it never took a delete of may have been missing before."""
    if task.asked_at is not None:
        return min(missed_at, max(task.asked_at, task.seen_at))
    own = task.machine_id == record.machine.id
    return (record.machine.first_missed_at if own else None) or missed_at


def _missed(decision: Decision, began: datetime) -> Decision:
    """Counted from the first not-found, not from when it was last seen: sweeps that see a machine at rest do
    not write that down."""
    decision = decision.change_machine(looked_at=decision.step)
    machine = decision.record.machine
    last, first = machine.last_missed_at or began, machine.first_missed_at or began
    if stale(decision, began) or began < last:
        return decision
    gap = began - last
    decision = decision.change_machine(
        needs_look=True,
        first_missed_at=first,
        last_missed_at=began,
        missed_seconds=machine.missed_seconds + (gap.total_seconds() if gap <= _LONGEST_GAP else 0),
    )
    if decision.record.machine.missed_seconds >= decision.policy.vanished_after.total_seconds():
        return _vanished(decision)
    if machine.missing_since is None and began - first >= decision.policy.gone_after:
        decision = decision.change_machine(missing_since=first)
        decision = decision.add_event("instance.missing", "Novita does not find its machine")
        lost = machine.notified and recovery.missed(decision.record)
        return recovery.taken_away(decision) if lost else decision
    return decision


def found(decision: Decision) -> Decision:
    """Its machine is there, whatever was thought."""
    machine = decision.record.machine
    if machine.first_missed_at is None:
        return decision
    decision = decision.change_machine(
        first_missed_at=None, last_missed_at=None, missed_seconds=0, missing_since=None
    )
    return decision.add_event("instance.found") if machine.missing_since else decision


def not_listed(decision: Decision, machine_id: str, began: datetime) -> Decision:
    """Absence from a list proves nothing: it makes a get by id due."""
    if machine_id != decision.record.live_machine_id or stale(decision, began):
        return decision
    return decision.change_machine(needs_look=True)


def gone(decision: Decision, machine_id: str, since: datetime | None = None) -> Decision:
    """Novita has confirmed that a machine is no more whose end was asked for."""
    decision = meter_ended(decision.without_task(machine_id), machine_id, since or decision.now)
    decision = decision.change_cleanup(gone=(*decision.record.cleanup.gone, machine_id))
    if machine_id != decision.record.machine.id:
        return decision
    if decision.record.status is Status.CREATING:
        return recovery.room_made(decision)
    decision = decision.change_machine(novita_status="removed", needs_look=False)
    if not decision.record.coming_up:
        return decision
    return fail(decision, Fault("STARTUP_FAILED", "The machine vanished at Novita before it was ready"))


def _vanished(decision: Decision) -> Decision:
    """It was looked for long enough, and nobody had asked for its end."""
    machine_id, coming_up = decision.record.machine.id or "", decision.record.coming_up
    decision = gone(decision, machine_id, decision.record.machine.missing_since)
    decision = decision.change_cleanup(vanished=(*decision.record.cleanup.vanished, machine_id))
    record = decision.record
    if coming_up:  # it has failed by that
        return decision
    fault = Fault("INSTANCE_NOT_FOUND", "Its machine vanished at Novita")
    decision = recovery.ended(decision, fault)
    unfinished = record.cleanup.tasks or record.purchases.unsettled  # terminated means that nothing is left
    after = Status.DELETING if unfinished else Status.TERMINATED
    decision = decision.move_operation("failed", fault)
    return decision.move(after, "vanished", deadline_at=None, ended_by=EndedBy.VANISHED)


def ready(decision: Decision) -> Decision:
    record = decision.record
    again = record.starting_again
    if again:  # first, so that every event of this moment says so
        decision = decision.move_operation("completed")
    decision = decision.move(Status.READY, ready_at=record.ready_at or decision.now, deadline_at=None)
    decision = recovery.completed(decision.change_machine(untried=False))
    return decision.add_event("startup.completed", health=record.health) if again else decision


def _boot_time(record: Instance, began: datetime) -> BootTime | None:
    """It came up between the sighting before and this one. None if it did not come up because of our last
    call: then the time since that call teaches nothing."""
    operation, machine = record.operation if record.starting_again else None, record.machine
    if machine.acted_at is None or not machine.product_id or record.recovery:
        return None
    answers_us = machine.acted_at >= operation.began_at if operation else record.ready_at is None
    if not answers_us:
        return None
    not_before = max(machine.acted_at, machine.seen_at or machine.acted_at)
    seconds = (not_before - machine.acted_at + (began - not_before) / 2).total_seconds()
    kind = str(operation.kind) if operation else "create"
    return BootTime(kind, machine.product_id, machine.region or "", seconds)


def known_endpoints(shown: tuple[Endpoint, ...], known: tuple[Endpoint, ...]) -> tuple[Endpoint, ...]:
    """A list may leave addresses out; what a get has shown stays known."""
    return shown if all(end.address for end in shown) and shown else known or shown


def last_action_at(record: Instance, machine_id: str) -> datetime:
    """When Novita last took an action on the machine: what it showed before that is out of date."""
    asked = [
        task.asked_at for task in record.cleanup.tasks if task.machine_id == machine_id and task.asked_at
    ]
    acted = [record.machine.acted_at] if machine_id == record.machine.id and record.machine.acted_at else []
    return max((*asked, *acted), default=record.created_at)


def end_taken(record: Instance, machine_id: str) -> bool:
    """Novita took its delete: that it is not there any more is what is waited for."""
    task = record.cleanup.task(machine_id)
    return task is not None and task.action is Action.DELETE and task.asked_at is not None


def list_suffices(record: Instance, machine: Machine) -> bool:
    """Whether the list's word is enough. It may lack addresses, and it may lag: that a machine runs is only
    believed where it never ran before, and that it is gone never."""
    state = machine_state(machine)
    if state is MachineState.GONE:
        return False
    if state is not MachineState.RUNNING or machine.id != record.machine.id:
        return True
    if record.status is Status.STARTING and not record.starting_again:
        shown = replace(machine, endpoints=known_endpoints(machine.endpoints, record.machine.endpoints))
        return has_addresses(shown, expected=record.machine.expects_endpoints)
    return record.status is not Status.STARTING and record.status is not Status.MIGRATING


def stale(decision: Decision, began: datetime) -> bool:
    """Asked before Novita took our last action, so that what it says may be from before, too; or asked
    before something newer that is known already."""
    acted_at, seen_at = decision.record.machine.acted_at, decision.record.machine.seen_at
    return (acted_at is not None and began <= acted_at) or (seen_at is not None and began < seen_at)


def _follow(decision: Decision, machine: Machine, began: datetime) -> Decision:
    """Let our status follow what the machine is seen to be."""
    record = decision.record
    match machine_state(machine):
        case MachineState.RUNNING if record.status in OFF and (task := record.cleanup.task(machine.id)):
            # It is to be stopped; or it is back, late, and Novita has not let us stop it before that.
            late = record.recovery is not None and task.refusal is not None
            return _running(decision.without_task(machine.id)) if late else decision
        case MachineState.RUNNING if record.status in COMING_UP | OFF:
            shown = replace(machine, endpoints=record.machine.endpoints)
            if has_addresses(shown, expected=record.machine.expects_endpoints):
                return _running(decision)
            # Nobody waits for what is off: a look by id is due, which knows more than a list.
            return decision.change_machine(needs_look=True) if record.status in OFF else decision
        case MachineState.RUNNING if record.status in (Status.RUNNING, Status.READY):
            return recovery.completed(decision)  # of one that was missing
        case MachineState.RUNNING if record.status is Status.STOPPING:
            return _stop_again(decision, began)
        case MachineState.RUNNING if record.status is Status.FAILED and not record.spec.keep_on_failure:
            # By hand, or by a start that came late; what has failed must not cost money.
            return decision.add_cleanup(machine.id, Action.STOP)
        case MachineState.EXITED if record.status is Status.STOPPING:
            if record.machine.may_start_until and began < record.machine.may_start_until:
                return decision
            return _run_over(decision).move(Status.STOPPED).move_operation("completed")
        case MachineState.EXITED if record.may_become(Status.EXITED):
            return _exited(decision, machine, began)
        case MachineState.ON_ITS_WAY if recovery.is_starting(record, machine.status):
            return recovery.seen_starting(decision)
        case MachineState.MIGRATING if record.may_become(Status.MIGRATING):
            return _migrating(decision)
    return decision


def _running(decision: Decision) -> Decision:
    record = decision.record
    if record.recovery and record.status is Status.EXITED:
        decision = recovery.seen_up(decision)
    check = record.health_check if record.coming_up or record.recovery else None
    if check is None:
        ready_at = record.ready_at or decision.now
        decision = decision.move(Status.RUNNING, ready_at=ready_at, deadline_at=None)
        decision = recovery.completed(decision.change_machine(untried=False))
        return decision.move_operation("completed")
    decision = decision.move(Status.RUNNING, deadline_at=None)
    if not probe_targets(record.machine.endpoints, check):
        return ready(decision)
    deadline = decision.now + timedelta(milliseconds=check.max_wait_time_ms)
    decision = decision.move_operation("health_checking")
    decision = decision.move(Status.HEALTH_CHECKING, deadline_at=deadline, rounds=record.rounds.anew())
    return decision.wait_until(decision.now)  # at once, by the function that can ask the application


def _migrating(decision: Decision) -> Decision:
    """What was on its way up still has to come up within the time that a boot may take."""
    record = decision.record
    again = {
        Status.STARTING: record.deadline_at,
        Status.HEALTH_CHECKING: decision.now + decision.policy.boot_wait,
    }
    return decision.move(Status.MIGRATING, deadline_at=again.get(record.status))


def _exited(decision: Decision, machine: Machine, began: datetime) -> Decision:
    """Novita's own stop or reclaim; soon after a start of ours it may only be an old answer."""
    record = decision.record
    again, acted_at = record.starting_again, record.machine.acted_at
    if (again or record.recovery) and acted_at and began < acted_at + decision.policy.settle:
        return decision
    reclaimed = record.machine.notified
    reason = "reclaimed by Novita" if reclaimed else f"stopped at Novita{_because(machine.error)}"
    ended_by = EndedBy.RECLAIM if reclaimed else EndedBy.NOVITA
    decision = _run_over(decision).move(Status.EXITED, reason, deadline_at=None, ended_by=ended_by)
    if again:
        fault = Fault("STARTUP_FAILED", f"The machine exited while starting: {reason}")
        decision = end_startup(decision, fault)
    return recovery.taken_away(decision)


def _run_over(decision: Decision) -> Decision:
    """A notice without a time was of this run alone: the next one may have its own."""
    untimed = decision.record.machine.told_notice in UNTIMED
    return decision.change_machine(told_notice="") if untimed else decision


def _because(error: str) -> str:
    return f": {error}" if error else ""


def _stop_again(decision: Decision, began: datetime) -> Decision:
    """Still running long after Novita took the stop: ask once more."""
    acted_at = decision.record.machine.acted_at
    overdue = acted_at is None or began - acted_at >= decision.policy.settle
    return decision.change_operation(pending=True) if overdue else decision


def _task_seen(decision: Decision, task: CleanupTask, machine: Machine, began: datetime) -> Decision:
    if task.asked_at and began <= task.asked_at:
        return decision.with_task(replace(task, checked_at=decision.step))
    if task.action is Action.STOP and machine_state(machine) is MachineState.EXITED:
        return decision.without_task(machine.id)
    # Still there long after Novita took the call: ask once more.
    overdue = task.asked_at is not None and began - task.asked_at >= decision.policy.settle
    asked_at = None if overdue and machine.status not in _LEAVING else task.asked_at
    seen_at = max(began, task.seen_at)
    checked_at = decision.step if task.asked_at else task.checked_at  # to ask is still to be done
    return decision.with_task(
        replace(task, seen_at=seen_at, missing_at=None, checked_at=checked_at, asked_at=asked_at)
    )
