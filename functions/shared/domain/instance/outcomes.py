"""What follows from how a call of ours went."""

from dataclasses import replace
from datetime import datetime, timedelta

from functions.shared.domain.errors import Fault
from functions.shared.domain.instance.decision import Decision
from functions.shared.domain.instance.health import HealthCheck
from functions.shared.domain.instance.observations import (
    Act,
    CallRefused,
    CallUnclear,
    HealthChecked,
    Look,
)
from functions.shared.domain.instance.progress import end_startup, fail, more_to_do, set_aside
from functions.shared.domain.instance.record import Action, Queue
from functions.shared.domain.instance.sightings import ready
from functions.shared.domain.instance.status import Status

# What may change before the deadline: stock, prices, and a key that is just being rotated.
_MAY_PASS = frozenset({"NO_OPTIMAL_PRODUCT_ANY_REGION", "PRICE_CAP_EXCEEDED", "NOVITA_AUTHENTICATION_FAILED"})
# Restarts whose outcome stays unclear. More of them would only interrupt whoever uses the machine.
_MOST_RESTARTS = 2


def action_taken(decision: Decision, act: Act, at: datetime) -> Decision:
    record = decision.record
    if task := record.cleanup.task(act.machine_id):
        decision = decision.with_task(replace(task, asked_at=at, checked_at=decision.step))
    if act.machine_id != record.machine.id:
        return decision
    decision = decision.change_machine(acted_at=at, looked_at=decision.step).change(waiting=None)
    if act.action is not record.pending:
        deleting = record.status is Status.DELETING
        return decision.move_operation("monitoring") if deleting else decision
    coming_up = record.status is Status.STARTING
    deadline = decision.now + decision.policy.boot_wait if coming_up else None
    decision = decision.change_operation(pending=False).change(deadline_at=deadline)
    return decision.move_operation("monitoring")


def call_refused(decision: Decision, refusal: CallRefused) -> Decision:
    record, fault, act = decision.record, refusal.fault, refusal.act
    if fault.code in _MAY_PASS:
        return call_postponed(decision, fault, refusal.wait_seconds)
    if act is None:
        return fail(decision, fault) if record.status is Status.CREATING else decision
    if record.cleanup.task(act.machine_id):
        return _ask_again(decision, act, fault)
    if act.action is not record.pending or act.machine_id != record.machine.id:
        return decision
    if refusal.wrong_state and act.action is Action.START:  # it runs already, or is still being stopped
        return _ask_again(decision.change_machine(needs_look=True), act, fault)
    if refusal.wrong_state:  # perhaps done already: the next look tells
        return action_taken(decision, act, decision.now)
    if act.action is Action.STOP:
        return _ask_again(decision, act, fault)
    return _as_it_was(decision, act, fault) if refusal.capacity else fail(decision, fault)


def call_unclear(decision: Decision, unclear: CallUnclear) -> Decision:
    operation = decision.record.operation
    if operation is None or operation.attempts < _MOST_RESTARTS:
        return call_postponed(decision, unclear.fault, unclear.wait_seconds)
    if unclear.act.action is not decision.record.pending:
        return decision
    return _as_it_was(decision, unclear.act, unclear.fault)


def _ask_again(decision: Decision, act: Act, fault: Fault) -> Decision:
    """It may go on costing money, so the next step asks again, unless a look shows that it is done."""
    return decision.change(waiting=fault).ask(Look(act.machine_id))


def _as_it_was(decision: Decision, act: Act, fault: Fault) -> Decision:
    """Nothing was done, as far as anybody knows. What was to be restarted may run on: the next look tells."""
    if act.action is not Action.RESTART:
        decision = decision.move(Status.EXITED, fault.code, fault, deadline_at=None)
    return end_startup(decision, fault)


def call_postponed(decision: Decision, fault: Fault, wait_seconds: float | None) -> Decision:
    """What could not be done waits; what else there is to do, such as another machine to delete, does not."""
    decision = decision.change(waiting=fault)
    if decision.record.status is not Status.CREATING:
        decision = set_aside(decision)
        if more_to_do(decision):
            return decision
    poll = decision.policy.poll
    wait = poll if wait_seconds is None else max(timedelta(seconds=wait_seconds), poll / 30)
    return decision.wait_until(decision.now + wait)


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
