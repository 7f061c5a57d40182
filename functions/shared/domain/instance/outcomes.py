"""What follows from how a call of ours went."""

from dataclasses import replace
from datetime import datetime, timedelta

from functions.shared.domain.errors import Fault
from functions.shared.domain.instance import recovery
from functions.shared.domain.instance.billing import meter_ended, meter_started
from functions.shared.domain.instance.decision import Decision
from functions.shared.domain.instance.health import HealthCheck
from functions.shared.domain.instance.observations import (
    Act,
    CallPostponed,
    CallRefused,
    CallUnclear,
    HealthChecked,
    Look,
)
from functions.shared.domain.instance.progress import fail, give_up_restart, leave_as_it_was, postpone
from functions.shared.domain.instance.record import Action, Instance, Queue, Refusal
from functions.shared.domain.instance.sightings import found, ready
from functions.shared.domain.instance.status import Status

# What may change before the deadline: stock, prices, and a key that is just being rotated.
_MAY_PASS = frozenset({"NO_OPTIMAL_PRODUCT_ANY_REGION", "PRICE_CAP_EXCEEDED", "NOVITA_AUTHENTICATION_FAILED"})
_LONGEST_REFUSAL_WAIT = timedelta(hours=1)
_STUCK_AFTER = timedelta(minutes=10)  # from then on somebody should know


def action_taken(decision: Decision, act: Act, at: datetime) -> Decision:
    record = decision.record
    if task := record.cleanup.task(act.machine_id):
        taken = replace(task, asked_at=at, checked_at=decision.step, refusal=None, missing_at=None)
        decision = decision.with_task(taken)
    if act.machine_id != record.machine.id:
        return decision
    decision = found(decision).change_machine(acted_at=at, looked_at=decision.step).change(waiting=None)
    if act.action is Action.START:  # what was said of its last run is over
        decision = decision.change_machine(spot_status="", spot_reclaim_at=None)
        decision = meter_started(decision, act.machine_id, at)
    if recovery.is_start(record, act):
        return recovery.start_taken(decision)
    if act.action is not record.pending:
        deleting = record.status is Status.DELETING
        return decision.move_operation("monitoring") if deleting else decision
    coming_up = record.status is Status.STARTING
    deadline = decision.now + decision.policy.boot_wait if coming_up else None
    decision = decision.change_operation(pending=False, refusal=None).change(deadline_at=deadline)
    return decision.move_operation("monitoring")


def call_refused(decision: Decision, refusal: CallRefused) -> Decision:
    record, fault, act = decision.record, refusal.fault, refusal.act
    if reasons := (fault.details or {}).get("regions"):
        decision = decision.change_purchases(reasons=tuple(reasons.items()))
    ends = act is not None and act.action in (Action.STOP, Action.DELETE)
    if fault.code in _MAY_PASS and not ends:
        return postpone(decision, fault, refusal.wait_seconds)
    if act is None:
        return fail(decision, fault) if record.status is Status.CREATING else decision
    if record.cleanup.task(act.machine_id):
        return _refused_end(decision, act, refusal)
    if recovery.is_start(record, act):
        return recovery.start_refused(decision, refusal)
    if act.action is not record.pending or act.machine_id != record.machine.id:
        return decision
    if refusal.wrong_state and act.action is Action.START:  # it runs already, or is still being stopped
        return decision.change_machine(needs_look=True).change(waiting=fault).ask(Look(act.machine_id))
    if refusal.wrong_state:  # perhaps done already: the next look tells
        return action_taken(decision, act, decision.now)
    if act.action is Action.STOP:
        return _refused_end(decision, act, refusal)
    return leave_as_it_was(decision, fault) if refusal.capacity else fail(decision, fault)


def _refused_end(decision: Decision, act: Act, refused: CallRefused) -> Decision:
    """It may go on costing money, so Novita is asked again, after waits that grow; a look tells whether it is
    done already, where the refusal leaves that open."""
    noted = refused_again(refusal_of(decision.record, act), decision.now, decision.policy.poll)
    decision = _note_refusal(decision.change(waiting=refused.fault), act, noted, refused.fault)
    return decision.ask(Look(act.machine_id)) if refused.wrong_state else decision


def call_postponed(decision: Decision, postponed: CallPostponed) -> Decision:
    """Of what Novita refuses, few are asked for at a time: one that finds no room is refused still."""
    act, now, poll = postponed.act, decision.now, decision.policy.poll
    known = refusal_of(decision.record, act) if act else None
    if act is None or known is None:
        return postpone(decision, postponed.fault, postponed.wait_seconds)
    stuck = known.announced or now - known.since >= _STUCK_AFTER
    noted, why = replace(known, again_at=now + poll, announced=stuck), decision.record.waiting
    return _note_refusal(decision, act, noted, why or postponed.fault)


def refusal_of(record: Instance, act: Act) -> Refusal | None:
    if task := record.cleanup.task(act.machine_id):
        return task.refusal
    return record.operation.refusal if record.operation and act.action is record.pending else None


def _note_refusal(decision: Decision, act: Act, noted: Refusal, why: Fault) -> Decision:
    """Somebody has to know if it stays so."""
    task, known = decision.record.cleanup.task(act.machine_id), refusal_of(decision.record, act)
    if task:
        decision = decision.with_task(replace(task, refusal=noted, checked_at=decision.step))
    else:
        decision = decision.change_operation(refusal=noted)
    if act.machine_id == decision.record.machine.id:
        decision = decision.change_machine(looked_at=decision.step)
    if not noted.announced or (known and known.announced):
        return decision
    return decision.add_event("cleanup.stuck", why.code, why)


def refused_again(known: Refusal | None, now: datetime, poll: timedelta) -> Refusal:
    """The next wait is twice as long, and after ten minutes it is to be announced."""
    count, since = (known.count + 1, known.since) if known else (1, now)
    wait = min(poll * 2 ** min(count - 1, 20), max(_LONGEST_REFUSAL_WAIT, poll))
    stuck_at = since + _STUCK_AFTER
    again_at = now + wait if now >= stuck_at else min(now + wait, stuck_at)
    return Refusal(since, count, again_at, now >= stuck_at)


def call_unclear(decision: Decision, unclear: CallUnclear) -> Decision:
    """The next step asks once more, unless that has been done."""
    after = give_up_restart(decision.change(waiting=unclear.fault))
    return after if after.events else postpone(decision, unclear.fault, unclear.wait_seconds)


def owned_by_another(decision: Decision, machine_id: str) -> Decision:
    """It was imported by somebody else meanwhile: not ours to end any more."""
    decision = meter_ended(decision.without_task(machine_id), machine_id, decision.now)
    return decision.change_cleanup(released=(*decision.record.cleanup.released, machine_id))


def dead_lettered(decision: Decision, queue: Queue, fault: Fault) -> Decision:
    """Nobody goes on with it. Where looks are taken, and machines given back, the deadline decides."""
    stuck = queue is decision.record.queue and queue is not Queue.MONITOR
    return fail(decision, fault) if stuck else decision


def begin_round(decision: Decision, until: datetime) -> Decision:
    """The application is about to be asked. Due when the lease ends: whoever asks may die before it is known
    what came of it, and until then nobody else asks."""
    decision = decision.change(rounds=decision.record.rounds.begun(until))
    return replace(decision.due(until), call=None)


def round_held(decision: Decision, wait_seconds: float) -> Decision:
    """Waiting is not failing: no round was made, so that none is counted and no deadline has been judged."""
    rounds = decision.record.rounds
    decision = decision.change(rounds=replace(rounds, held=rounds.held + 1))
    return decision.wait_until(decision.now + timedelta(seconds=wait_seconds))


def health_checked(decision: Decision, checked: HealthChecked) -> Decision:
    record, report = decision.record, checked.report
    decision = decision.change(rounds=record.rounds.ended(slow=report.timed_out))
    if record.status is not Status.HEALTH_CHECKING:
        return decision
    acted_at = record.machine.acted_at
    if acted_at is not None and checked.began <= acted_at:  # the machine is not what it was
        return decision.wait_until(decision.now + decision.policy.poll)
    decision = decision.change(probed_at=decision.step, health=report.as_json())
    return ready(decision) if report.overall == "healthy" else _next_round(decision, checked.chance)


def _next_round(decision: Decision, chance: float) -> Decision:
    """Soon while the series lasts, then after the usual interval. Meanwhile Novita may have stopped or moved
    the machine: if the last look is as old as that interval by then, another comes before the round."""
    record, poll = decision.record, decision.policy.poll
    made = record.rounds.made + 1
    check = record.health_check or HealthCheck()
    goes_on = made <= check.retry_attempts
    wait = timedelta(seconds=check.pause_seconds(made, chance)) if goes_on else poll
    due, looked_at = decision.now + wait, record.machine.looked_at
    old_look = looked_at if looked_at and due - looked_at >= poll else None
    rounds = replace(record.rounds, made=made if goes_on else 0, old_look=old_look)
    return decision.change(rounds=rounds).wait_until(due)
