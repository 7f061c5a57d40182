"""What follows from how a call of ours went."""

from dataclasses import replace
from datetime import datetime, timedelta

from functions.shared.domain.decision import Decision
from functions.shared.domain.health import Report
from functions.shared.domain.instance import Action, Fault
from functions.shared.domain.observation import Act, Refused
from functions.shared.domain.rules.progress import end_startup, fail
from functions.shared.domain.rules.sightings import ready
from functions.shared.domain.status import Status


def taken(decision: Decision, act: Act, at: datetime) -> Decision:
    record = decision.record
    for duty in record.duties:
        if duty.machine_id == act.machine_id:
            decision = decision.with_duty(replace(duty, asked_at=at, checked_at=decision.step))
    if act.machine_id != record.machine_id:
        return decision
    decision = decision.having(acted_at=at, looked_at=decision.step, waiting=None)
    if act.action is not record.pending:
        return decision
    coming_up = record.status is Status.STARTING
    deadline = decision.now + decision.policy.boot_wait if coming_up else None
    return decision.having(pending=None, deadline_at=deadline).operate("monitoring")


def refused(decision: Decision, refusal: Refused) -> Decision:
    record, fault, act = decision.record, refusal.fault, refusal.act
    if act is None:
        return fail(decision, fault) if record.status is Status.CREATING else decision
    for duty in record.duties:
        if duty.machine_id == act.machine_id:  # it goes on costing money, so it is asked for again
            return decision.with_duty(replace(duty, checked_at=decision.step)).having(waiting=fault)
    if act.action is not record.pending or act.machine_id != record.machine_id:
        return decision
    if refusal.wrong_state:  # perhaps done already: the next look tells
        return taken(decision, act, decision.now)
    if act.action is Action.STOP:  # as above
        return decision.having(waiting=fault, looked_at=decision.step)
    if refusal.capacity:  # it is as it was, and may be started again
        decision = decision.move(
            Status.EXITED, fault.code, fault, pending=None, deadline_at=None, health_check=None
        )
        return end_startup(decision, fault)
    return fail(decision, fault)


def postponed(decision: Decision, fault: Fault, wait_seconds: float) -> Decision:
    wait = max(timedelta(seconds=wait_seconds), decision.policy.poll / 30)
    return decision.having(waiting=fault).wait_until(decision.now + wait)


def probed(decision: Decision, report: Report) -> Decision:
    if decision.record.status is not Status.HEALTH_CHECKING:
        return decision
    decision = decision.having(probed_at=decision.step, health=report.as_json())
    return ready(decision) if report.overall == "healthy" else decision
