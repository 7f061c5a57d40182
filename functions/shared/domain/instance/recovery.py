"""Bringing a spot machine back that was taken away: whether, for how long, and when another replaces it."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from functions.shared.domain.errors import Fault
from functions.shared.domain.ids import timestamp
from functions.shared.domain.instance.decision import Decision
from functions.shared.domain.instance.limits import EndedBy
from functions.shared.domain.instance.observations import (
    Act,
    BeginRecovery,
    Call,
    CallRefused,
    FindOffer,
    Look,
    OfferFound,
    OfferNotFound,
)
from functions.shared.domain.instance.reclaim import ON_DEMAND, ReclaimAction, Recovery
from functions.shared.domain.instance.record import Action, CleanupTask, Instance, RentedMachine, Spec
from functions.shared.domain.instance.status import OFF, UP, Status

_LONGEST_WAIT = timedelta(minutes=5)  # between two starts
_TIME_TO_BUY = timedelta(minutes=10)  # at least, once a machine has been given back for another
FAILED = "RECOVERY_FAILED"
_NO_MONEY = ("CAP_EXCEEDED", "BUDGET_EXCEEDED")


# When it begins and ends


def taken_away(decision: Decision) -> Decision:
    """Its machine does not run any more, and nobody here asked for that. One that was taken away again
    before it was back goes on as it was."""
    record, asked = decision.record, decision.record.spec.on_reclaim
    if record.recovery is not None:
        return _try_later(decision)
    if asked is None or not record.is_spot or record.coming_up:
        return decision
    lately = len(record.recoveries.lately(decision.now))
    if lately >= asked.max_recoveries:
        fault = Fault(FAILED, f"It was taken away again, after {lately} recoveries within 24 hours")
        return decision.add_event("recovery.failed", fault.code, fault)
    return decision.change(recovery=Recovery(decision.now)).wait_until(decision.now)  # stored, then begun


def held(decision: Decision, fault: Fault) -> Decision:
    """It may not begin yet. A pause holds it for as long as it lasts; a cap or budget for no longer than room
    is waited for: what comes back weeks later, when a budget's next month begins, nobody expects."""
    recovery = decision.record.recovery
    if recovery is None or recovery.since is not None:
        return decision
    if fault.code in _NO_MONEY:
        return _changed(decision, held_since=recovery.held_since or decision.now)
    return _changed(decision, held_since=None) if fault.code == "PURCHASES_PAUSED" else decision


def moved(decision: Decision, held_for: timedelta) -> Decision:
    """A pause has held it for so long, which takes nothing from its window."""
    recovery = decision.record.recovery
    if recovery is None or recovery.since is None:
        return decision
    until, try_at = (at and at + held_for for at in (recovery.until, recovery.try_at))
    return _changed(decision, until=until, try_at=try_at, paused_for=recovery.paused_for + held_for)


def begun(decision: Decision) -> Decision:
    """Nothing forbids it, unless a cap or budget does when this is stored: before anything is started."""
    record, now = decision.record, decision.now
    recovery, asked = record.recovery, record.spec.on_reclaim
    if recovery is None or asked is None:
        return decision
    until = now + asked.window
    count = replace(record.recoveries, begun=(*record.recoveries.lately(now), now))
    decision = decision.change(
        recovery=replace(recovery, since=now, until=until, try_at=now), recoveries=count, waiting=None
    )
    data = {"action": asked.action.value, "until": timestamp(until)}
    return decision.add_event("recovery.started", data=data).commit().wait_until(now)


def completed(decision: Decision) -> Decision:
    """It is back, by whatever did it."""
    record, recovery = decision.record, decision.record.recovery
    if recovery is None:
        return decision
    decision = decision.change(recovery=None, clock=record.clock.brought_back(decision.now))
    if recovery.since is None:
        return decision
    count = replace(record.recoveries, completed=record.recoveries.completed + 1)
    how = ReclaimAction.REPLACE if recovery.given_back else ReclaimAction.RESTART
    data = {"action": how.value, "recoveries": count.completed}
    return decision.change(recoveries=count).add_event("recovery.completed", data=data)


def ended(decision: Decision, fault: Fault) -> Decision:
    """It was not brought back. Of what had not begun, nobody was told."""
    recovery = decision.record.recovery
    if recovery is None:
        return decision
    decision = _given_up(decision)
    return decision.add_event("recovery.failed", fault.code, fault) if recovery.since else decision


def _given_up(decision: Decision) -> Decision:
    """What stays off is so from now on."""
    clock = decision.record.clock
    if decision.record.status in OFF:
        clock = replace(clock, off_since=decision.now)
    return decision.change(recovery=None, clock=clock)


def superseded(fault: Fault | None) -> bool:
    """It ended because somebody asked for something else, which nobody need look into."""
    return fault is not None and fault.code == "OPERATION_SUPERSEDED"


def failure(record: Instance, fault: Fault) -> Fault:
    """Where its own machine was given back already, that is what its user has to know first."""
    if record.recovery is None or not record.recovery.given_back or fault.code == FAILED:
        return fault
    why = f"Its machine was taken away and given back, and no other took its place: {fault.message}"
    return Fault(FAILED, why, {**(fault.details or {}), "code": fault.code})


def check_window(decision: Decision) -> Decision:
    """Over when its time is, and a look has shown since that it is not back."""
    record, recovery, now = decision.record, decision.record.recovery, decision.now
    if recovery is None or not _waits(record):
        return decision
    if recovery.since is None:
        return _held_too_long(decision, recovery)
    if _out_of_time(record, now):
        if not _looked_since(record):
            return decision.change_machine(needs_look=True)
        because = f"; last: {record.waiting.message}" if record.waiting else ""
        fault = Fault(FAILED, f"Its machine was taken away and could not be started in time{because}")
        return ended(decision.change(waiting=None), fault)
    seeks = _may_replace(record, now) and (recovery.no_room or record.missing)
    return _changed(decision, seeks_offer=True) if seeks else decision


def _held_too_long(decision: Decision, recovery: Recovery) -> Decision:
    asked, waiting = decision.record.spec.on_reclaim, decision.record.waiting
    if asked is None or recovery.held_since is None or decision.now < recovery.held_since + asked.window:
        return decision
    because = f": {waiting.message}" if waiting else ""
    fault = Fault(FAILED, f"Its machine was taken away, and nothing may be spent on it{because}")
    decision = _given_up(decision.change(waiting=None))
    return decision.add_event("recovery.failed", fault.code, fault)


# What is asked of Novita, and when


def start_is_next(record: Instance, now: datetime) -> bool:
    recovery = record.recovery
    if recovery is None or recovery.since is None or recovery.try_at is None:
        return False
    due = recovery.try_at <= now and not _out_of_time(record, now)
    return due and record.status is Status.EXITED and not record.machine.needs_look and not _stops(record)


def next_call(record: Instance, step: datetime) -> Call | None:
    recovery = record.recovery
    if recovery is None or not _waits(record) or recovery.checked_at == step or record.leaving:
        return None
    if recovery.since is None:
        return BeginRecovery()
    tried = recovery.try_at is not None and recovery.try_at > step
    wanted = recovery.seeks_offer and (record.missing or (recovery.no_room and (tried or _stops(record))))
    return FindOffer() if wanted and _may_replace(record, step) else None


def due_at(decision: Decision) -> datetime | None:
    """When something can be done or learned; None where the recovery waits for nothing."""
    record, recovery, now = decision.record, decision.record.recovery, decision.now
    if recovery is None or not _waits(record):
        return None
    if start_is_next(record, now) or (_out_of_time(record, now) and _looked_since(record)):
        return now
    times = (recovery.try_at, recovery.until, _replace_at(record))
    return min((at for at in times if at and at > now), default=now + decision.policy.poll)


def is_start(record: Instance, act: Act | None) -> bool:
    """Of ours, and not of an operation that somebody asked for."""
    if act is None or record.recovery is None or record.pending:
        return False
    own = act.machine_id == record.machine.id and record.status is Status.EXITED
    return own and act.action is Action.START


def is_starting(record: Instance, novita_status: str) -> bool:
    """By a start of ours whose answer was lost, or by hand."""
    begun = record.recovery is not None and record.recovery.since is not None
    starting = novita_status in ("toStart", "starting") and not _stops(record)
    return begun and record.status is Status.EXITED and starting


def start_taken(decision: Decision) -> Decision:
    decision = _changed(decision, no_room=False, seeks_offer=False)
    decision = decision.change_machine(boot=None, told_errors=())
    deadline = decision.now + decision.policy.boot_wait
    return decision.move(Status.STARTING, "recovery", deadline_at=deadline, health=None)


def seen_starting(decision: Decision) -> Decision:
    """What was shown before that is out of date, as after a start whose answer came."""
    changes: Any = {"acted_at": decision.now, "spot_status": "", "spot_reclaim_at": None}
    return start_taken(decision.change_machine(**changes))


def seen_up(decision: Decision) -> Decision:
    """By a start whose answer was lost, or by hand: no other machine is looked for."""
    return _changed(decision, no_room=False, seeks_offer=False).move(Status.STARTING, "recovery")


def may_try_again(record: Instance) -> bool:
    """With the machine that was taken away: one that took its place, and did not come up, is given back."""
    recovery = record.recovery
    begun = recovery is not None and recovery.since is not None and not recovery.given_back
    return begun and not record.spec.keep_on_failure and record.may_become(Status.EXITED)


def not_up_in_time(decision: Decision, fault: Fault) -> Decision:
    """It is stopped, so that it costs nothing, and then as after a start that was refused."""
    changes: Any = {"deadline_at": None, "ended_by": EndedBy.FAILURE}
    decision = decision.move(Status.EXITED, fault.code, fault, **changes).change(waiting=fault)
    decision = _changed(_try_later(decision), no_room=True)
    machine_id = decision.record.machine.id
    return decision.add_cleanup(machine_id, Action.STOP) if machine_id else decision


def may_be_back(record: Instance, task: CleanupTask) -> bool:
    """Novita refused to stop it while it came up: a look tells whether it is up before it is asked again."""
    own = task.machine_id == record.machine.id and task.action is Action.STOP
    return own and record.recovery is not None and task.refusal is not None and task.asked_at is None


def start_refused(decision: Decision, refusal: CallRefused) -> Decision:
    """Asked again after waits that grow. Whatever the reason is, it may pass before the window ends."""
    decision = _try_later(decision).change(waiting=refusal.fault)
    decision = _changed(decision, no_room=refusal.capacity)
    if refusal.wrong_state and refusal.act:  # it runs already, or is still being stopped
        return decision.change_machine(needs_look=True).ask(Look(refusal.act.machine_id))
    return decision


# Another machine


def fallback(record: Instance) -> Spec | None:
    """What is bought where there is no such spot machine: the same at another price, within the same cap."""
    asked = record.spec.on_reclaim
    if record.recovery is None or asked is None or asked.fallback != ON_DEMAND:
        return None
    return replace(record.spec, billing_mode=ON_DEMAND)


def offer_found(decision: Decision, found: OfferFound) -> Decision:
    """Another can be had: the machine is given back, and when it is confirmed gone the other is bought. That
    is stored before anything is deleted, and only within caps and budgets."""
    record, recovery = decision.record, decision.record.recovery
    machine_id = record.live_machine_id
    if recovery is None or machine_id is None or not _may_replace(record, decision.now):
        return decision
    if record.status is not Status.EXITED:
        why = "reclaimed by Novita: not found after its notice"
        decision = decision.move(Status.EXITED, why, ended_by=EndedBy.RECLAIM)
    decision = _changed(decision, given_back=machine_id, seeks_offer=False)
    decision = decision.add_cleanup(machine_id, Action.DELETE)
    deadline = max(recovery.until or decision.now, decision.now + _TIME_TO_BUY)
    decision = decision.move(Status.CREATING, "replaced", deadline_at=deadline, health=None)
    return decision.change_purchases(price=found.price).commit().wait_until(decision.now)


def offer_not_found(decision: Decision, missed: OfferNotFound) -> Decision:
    decision = _changed(_try_later(decision), checked_at=decision.step)
    return decision.change(waiting=missed.fault)


def room_made(decision: Decision) -> Decision:
    """The machine that was given back is gone, so that another may be bought."""
    decision = decision.change(machine=RentedMachine(region=decision.record.spec.region))
    return decision.change_purchases(read_at=None)


def _changed(decision: Decision, **changes: Any) -> Decision:
    recovery = decision.record.recovery
    return decision.change(recovery=replace(recovery, **changes)) if recovery else decision


def _try_later(decision: Decision) -> Decision:
    """But not past the time from which on another is looked for, nor past the end."""
    recovery, now, poll = decision.record.recovery, decision.now, decision.policy.poll
    if recovery is None or recovery.since is None:
        return decision
    wait = min(poll * 2 ** min(recovery.refused, 10), max(_LONGEST_WAIT, poll))
    times = (now + wait, recovery.until, _replace_at(decision.record))
    try_at = min(at for at in times if at and at > now)
    return _changed(decision, refused=recovery.refused + 1, try_at=try_at)


def _waits(record: Instance) -> bool:
    """For room, for another offer, or for its machine to be found; not for a boot or a purchase."""
    return record.status is Status.EXITED or missed(record)


def missed(record: Instance) -> bool:
    """Its machine cannot be found, and it was to run: neither coming up, nor told to stop or go."""
    return record.missing and not record.coming_up and record.status in UP | {Status.MIGRATING}


def _stops(record: Instance) -> bool:
    """It was started, did not come up in time, and is not off again yet."""
    return record.cleanup.task(record.machine.id) is not None


def _out_of_time(record: Instance, now: datetime) -> bool:
    until = record.recovery.until if record.recovery else None
    return until is not None and now >= until


def _looked_since(record: Instance) -> bool:
    machine, until = record.machine, record.recovery.until if record.recovery else None
    looks = (machine.seen_at, machine.last_missed_at if machine.missing_since else None)
    return until is None or any(at is not None and at >= until for at in looks)


def _replace_at(record: Instance) -> datetime | None:
    recovery, asked = record.recovery, record.spec.on_reclaim
    if recovery is None or recovery.since is None or asked is None:
        return None
    at = recovery.since + asked.replace_after + recovery.paused_for
    return at if asked.action is ReclaimAction.REPLACE else None


def _may_replace(record: Instance, now: datetime) -> bool:
    at = _replace_at(record)
    return at is not None and now >= at and not _out_of_time(record, now)
