"""The only place with rules: from a record and something learned to what comes next."""

from dataclasses import replace
from datetime import datetime, timedelta

from functions.shared.domain import health
from functions.shared.domain.decision import Decision, Policy
from functions.shared.domain.instance import Action, Duty, Fault, Instance
from functions.shared.domain.machine import Machine
from functions.shared.domain.observation import (
    Act,
    Books,
    Buy,
    Look,
    LookUp,
    Missing,
    NotThere,
    Observation,
    Postponed,
    Probe,
    Probed,
    Refused,
    Review,
    Seen,
    Taken,
    Tick,
    Unlisted,
    WriteOff,
)
from functions.shared.domain.purchase import Outcome, Purchase
from functions.shared.domain.reading import Reading, addressable, read
from functions.shared.domain.status import Status

_ON_THE_MOVE = frozenset({Status.STARTING, Status.STOPPING, Status.MIGRATING})


def decide(
    record: Instance,
    observation: Observation,
    now: datetime,
    policy: Policy,
    *,
    step: datetime | None = None,
    actor: str = "system",
) -> Decision:
    """Pure. `step` is when the step began that this decision belongs to; without it, a new one begins."""
    decision = Decision(record, now, policy, step or now, actor)
    match observation:
        case Tick():
            decision = _proceed(_deadline(decision))
        case Books(purchases):
            decision = _books(decision, purchases)
        case NotThere(purchase, began):
            decision = _not_there(decision, purchase, began)
        case Seen(machine, began):
            decision = _seen(decision, machine, began)
        case Missing(machine_id, began):
            decision = _missing(decision, machine_id, began)
        case Unlisted(machine_id, began):
            decision = _unlisted(decision, machine_id, began)
        case Taken(act, at):
            decision = _taken(decision, act, at)
        case Refused():
            decision = _refused(decision, observation)
        case Postponed(fault, wait_seconds):
            decision = _postponed(decision, fault, wait_seconds)
        case Probed(report, _):
            decision = _probed(decision, report)
    return decision


# What to do next


def _proceed(decision: Decision) -> Decision:
    record = decision.record
    if (record.status is Status.CREATING or record.unsettled) and record.reviewed_at != decision.step:
        return decision.ask(Review())
    for duty in record.duties:
        if duty.checked_at != decision.step:
            owed = duty.asked_at is None
            return decision.ask(Act(duty.action, duty.machine_id) if owed else Look(duty.machine_id))
    if record.machine_id and record.looked_at != decision.step:
        if record.pending:
            return decision.ask(Act(record.pending, record.machine_id))
        if record.status in _ON_THE_MOVE or record.missing_at:
            return decision.ask(Look(record.machine_id))
    if record.status is Status.HEALTH_CHECKING and record.probed_at != decision.step:
        return decision.ask(Probe())
    return _wait(decision)


def _wait(decision: Decision, at_most: datetime | None = None) -> Decision:
    """Nothing more can be done in this step: say when the next one is due."""
    decision = _settle_end(decision)
    record = decision.record
    if record.at_rest and not record.missing_at:
        return decision.due(None)
    due = decision.now + decision.policy.poll
    limits = [time for time in (at_most, record.deadline_at) if time and time > decision.now]
    return decision.due(min([due, *limits]))


def _settle_end(decision: Decision) -> Decision:
    """Deleting ends when nothing is owed any more and no purchase can turn up."""
    record = decision.record
    if record.status is Status.DELETING and not record.duties and not record.unsettled:
        return decision.move(Status.TERMINATED).operate("completed")
    return decision


# Time


def _deadline(decision: Decision) -> Decision:
    record = decision.record
    if record.deadline_at is None or decision.now < record.deadline_at:
        return decision
    if record.status is Status.CREATING:
        because = f"; last: {record.waiting.message}" if record.waiting else ""
        code = record.waiting.code if record.waiting else "PURCHASE_TIMEOUT"
        return fail(decision, Fault(code, f"No machine was bought in time{because}"))
    if record.status is Status.STARTING:
        return fail(decision, Fault("STARTUP_TIMEOUT", "The machine was not running in time"))
    if record.status is Status.HEALTH_CHECKING:
        return fail(decision, Fault("HEALTH_CHECK_FAILED", "The application did not answer in time"))
    return decision


def fail(decision: Decision, fault: Fault) -> Decision:
    """Failed, and the machine stops costing money unless the request said to keep it."""
    record = decision.record
    again = record.starting_again
    decision = decision.move(
        Status.FAILED, fault.code, fault, error=fault, deadline_at=None, pending=None, health_check=None
    )
    if decision.record.status is not Status.FAILED:
        return decision
    if again:
        decision = decision.operate("failed", fault).note("startup.failed", fault.code, fault)
    if record.machine_id and not record.spec.keep_on_failure:
        was_ready = again or record.ready_at is not None
        decision = decision.owe(record.machine_id, Action.STOP if was_ready else Action.DELETE)
    return decision.due(decision.now)


# Purchases


def _books(decision: Decision, purchases: tuple[Purchase, ...]) -> Decision:
    for purchase in purchases:
        if purchase.outcome is Outcome.BOUGHT and purchase.machine_id:
            decision = _bought(decision, purchase, purchase.machine_id)
    record, now = decision.record, decision.now
    open_ones = [p for p in purchases if not p.settled]
    if held := [p.lease_until for p in open_ones if p.under_way(now)]:
        decision = decision.having(reviewed_at=decision.step)
        return _proceed(decision) if record.status is not Status.CREATING else _wait(decision, min(held))
    if open_ones:
        return decision.ask(LookUp(open_ones[0]))
    decision = decision.having(unsettled=False, reviewed_at=decision.step)
    if record.status is Status.CREATING:
        return decision.ask(Buy())
    return _proceed(decision)


def _bought(decision: Decision, purchase: Purchase, machine_id: str) -> Decision:
    record = decision.record
    if machine_id == record.machine_id or machine_id in record.gone:
        return decision
    wanted = record.machine_id is None and (
        record.status is Status.CREATING or (record.status is Status.FAILED and record.spec.keep_on_failure)
    )
    if not wanted:
        return decision.owe(machine_id, Action.DELETE)
    bought_at = purchase.ended_at or decision.now
    asked_wait = record.spec.boot_wait_seconds
    wait = decision.policy.boot_wait if asked_wait is None else timedelta(seconds=asked_wait)
    decision = decision.having(
        machine_id=machine_id,
        region=purchase.region or record.region,
        product_id=purchase.product_id or record.product_id,
        price=purchase.price,
        expects_endpoints=purchase.expects_endpoints,
        bought_at=bought_at,
        seen_at=bought_at,
        acted_at=bought_at,
    )
    if record.status is Status.FAILED:
        return decision
    return decision.move(Status.STARTING, deadline_at=bought_at + wait)


def _not_there(decision: Decision, purchase: Purchase, began: datetime) -> Decision:
    shows_by = purchase.unclear_since + decision.policy.settle
    if began >= shows_by:
        return decision.ask(WriteOff(purchase))
    decision = decision.having(reviewed_at=decision.step, unsettled=True)
    if decision.record.status is Status.CREATING:
        return _wait(decision, shows_by)
    return _proceed(decision)


# What Novita shows


def _seen(decision: Decision, machine: Machine, began: datetime) -> Decision:
    record = decision.record
    duty = next((d for d in record.duties if d.machine_id == machine.id), None)
    if duty is not None:
        decision = _duty_seen(decision, duty, machine, began)
    if machine.id != record.machine_id:
        return _proceed(decision)
    if record.acted_at and began <= record.acted_at:
        return _proceed(decision.having(looked_at=decision.step))
    if read(machine) is Reading.GONE:
        return _proceed(_gone(decision, machine.id))
    decision = decision.having(
        looked_at=decision.step,
        seen_at=max(began, record.seen_at or began),
        missing_at=None,
        novita_status=machine.status,
        region=machine.region or record.region,
        endpoints=machine.endpoints or record.endpoints,
        spot_status=machine.spot_status,
        spot_reclaim_at=machine.spot_reclaim_at,
    )
    if not record.pending:
        decision = _follow(decision, machine, began)
    return _proceed(decision)


def _follow(decision: Decision, machine: Machine, began: datetime) -> Decision:
    """Let our status follow what the machine is seen to be."""
    status = decision.record.status
    match read(machine):
        case Reading.RUNNING if status in (Status.STARTING, Status.MIGRATING, Status.STOPPED, Status.EXITED):
            endpoints = replace(machine, endpoints=decision.record.endpoints)
            if addressable(endpoints, expected=decision.record.expects_endpoints):
                return _running(decision)
        case Reading.EXITED if status is Status.STOPPING:
            return decision.move(Status.STOPPED).operate("completed")
        case Reading.EXITED if status not in (Status.FAILED, Status.STOPPED, Status.EXITED):
            return _exited(decision, machine, began)
        case Reading.MIGRATING if status not in (Status.FAILED, Status.STOPPING):
            return decision.move(Status.MIGRATING, deadline_at=None)
        case Reading.RUNNING if status is Status.STOPPING:
            return _stop_again(decision, began)
    return decision


def _stop_again(decision: Decision, began: datetime) -> Decision:
    """Still running long after Novita took the stop: ask once more."""
    acted_at = decision.record.acted_at
    if acted_at and began - acted_at < decision.policy.settle:
        return decision
    return decision.having(pending=Action.STOP)


def _running(decision: Decision) -> Decision:
    record, now = decision.record, decision.now
    first_boot = record.status is Status.STARTING and not record.starting_again
    again = record.status is Status.STARTING and record.starting_again
    check = record.health_check if again else record.spec.health_check if first_boot else None
    if check is None:
        return decision.move(
            Status.RUNNING, ready_at=record.ready_at or now, deadline_at=None, error=None
        ).operate("completed")
    decision = decision.move(Status.RUNNING, deadline_at=None, error=None)
    if not health.targets(record.endpoints, check):
        return _ready(decision)
    deadline = now + timedelta(milliseconds=check.max_wait_time_ms)
    return decision.move(Status.HEALTH_CHECKING, deadline_at=deadline).operate("health_checking")


def _ready(decision: Decision) -> Decision:
    record = decision.record
    decision = decision.move(
        Status.READY, ready_at=record.ready_at or decision.now, deadline_at=None, health_check=None
    )
    if record.starting_again:
        return decision.operate("completed").note("startup.completed", health=record.health)
    return decision


def _exited(decision: Decision, machine: Machine, began: datetime) -> Decision:
    """Novita's own stop or reclaim; right after a start of ours it may only be an old answer."""
    record = decision.record
    again = record.starting_again
    if again and record.acted_at and began < record.acted_at + decision.policy.settle:
        return decision
    reason = "spot reclaim" if machine.spot_status or machine.spot_reclaim_at else "stopped at Novita"
    decision = decision.move(Status.EXITED, reason, deadline_at=None, health_check=None)
    if not again:
        return decision
    fault = Fault("STARTUP_FAILED", f"The machine exited while it was starting: {reason}")
    return decision.operate("failed", fault).note("startup.failed", fault.code, fault)


def _missing(decision: Decision, machine_id: str, began: datetime) -> Decision:
    record = decision.record
    duty = next((d for d in record.duties if d.machine_id == machine_id), None)
    if duty is not None:
        changed = replace(duty, missing_at=duty.missing_at or began, checked_at=decision.step)
        if _is_gone(duty.missing_at, duty.seen_at, began, decision.policy):
            decision = _gone(decision, machine_id)
        else:
            decision = _with_duty(decision, changed)
    if machine_id != record.machine_id or machine_id in decision.record.gone:
        return _proceed(decision)
    if record.acted_at and began <= record.acted_at:
        return _proceed(decision.having(looked_at=decision.step))
    if _is_gone(record.missing_at, record.seen_at or record.created_at, began, decision.policy):
        return _proceed(_gone(decision, machine_id))
    return _proceed(decision.having(looked_at=decision.step, missing_at=record.missing_at or began))


def _is_gone(missing_at: datetime | None, seen_at: datetime, began: datetime, policy: Policy) -> bool:
    """Not found twice, well apart, and long after it was last seen."""
    return (
        missing_at is not None
        and began - missing_at >= policy.gone_confirm
        and began - seen_at >= policy.settle
    )


def _gone(decision: Decision, machine_id: str) -> Decision:
    duties = tuple(d for d in decision.record.duties if d.machine_id != machine_id)
    gone = tuple(dict.fromkeys((*decision.record.gone, machine_id)))
    decision = decision.having(duties=duties, gone=gone)
    record = decision.record
    if machine_id != record.machine_id:
        return decision
    decision = decision.having(
        missing_at=None, looked_at=decision.step, novita_status="removed", pending=None
    )
    if record.status in (Status.STARTING, Status.HEALTH_CHECKING):
        return fail(decision, Fault("STARTUP_FAILED", "The machine vanished at Novita before it was ready"))
    if record.status in (Status.FAILED, Status.DELETING):
        return decision
    fault = Fault("INSTANCE_NOT_FOUND", "The machine is gone at Novita")
    return decision.operate("failed", fault).move(Status.TERMINATED, fault.message, deadline_at=None)


def _unlisted(decision: Decision, machine_id: str, began: datetime) -> Decision:
    """Absence from a list proves nothing: it makes a get by id due."""
    record = decision.record
    if machine_id != record.machine_id or machine_id in record.gone:
        return decision
    if record.acted_at and began <= record.acted_at + decision.policy.settle:
        return decision
    return decision.having(missing_at=record.missing_at or began).due(decision.now)


# What Novita did with our calls


def _taken(decision: Decision, act: Act, at: datetime) -> Decision:
    record = decision.record
    duty = next((d for d in record.duties if d.machine_id == act.machine_id), None)
    if duty is not None:
        decision = _with_duty(decision, replace(duty, asked_at=at, checked_at=decision.step))
    if act.machine_id == record.machine_id:
        decision = decision.having(acted_at=at, looked_at=decision.step)
        if act.action is record.pending:
            boot = decision.now + decision.policy.boot_wait
            deadline = boot if record.status is Status.STARTING else None
            decision = decision.having(pending=None, deadline_at=deadline).operate("monitoring")
    return _proceed(decision)


def _refused(decision: Decision, refused: Refused) -> Decision:
    record, fault, act = decision.record, refused.fault, refused.act
    if act is None:  # the purchase
        return _wait(fail(decision, fault)) if record.status is Status.CREATING else _wait(decision)
    duty = next((d for d in record.duties if d.machine_id == act.machine_id), None)
    if duty is not None:  # it goes on costing money, so it is asked for again
        decision = _with_duty(decision, replace(duty, checked_at=decision.step)).having(waiting=fault)
        return _proceed(decision)
    if record.pending is not act.action or act.machine_id != record.machine_id:
        return _wait(decision)
    if fault.code == "NOVITA_INVALID_STATE":  # perhaps done already: the next look tells
        return _taken(decision, act, decision.now)
    if act.action is Action.STOP:
        return _wait(decision.having(waiting=fault, looked_at=decision.step))
    if refused.capacity:
        decision = decision.move(
            Status.EXITED, fault.code, fault, pending=None, deadline_at=None, health_check=None
        )
        return _wait(decision.operate("failed", fault).note("startup.failed", fault.code, fault))
    return _wait(fail(decision, fault))


def _postponed(decision: Decision, fault: Fault, wait_seconds: float) -> Decision:
    wait = max(timedelta(seconds=wait_seconds), decision.policy.poll / 30)
    return _wait(decision.having(waiting=fault)).due(decision.now + wait)


def _probed(decision: Decision, report: health.Report) -> Decision:
    if decision.record.status is not Status.HEALTH_CHECKING:
        return _wait(decision)
    shown = report.as_json()
    decision = decision.having(probed_at=decision.step, health=shown)
    if report.overall == "healthy":
        return _wait(_ready(decision))
    return _wait(decision)


# Duties


def _with_duty(decision: Decision, duty: Duty) -> Decision:
    duties = tuple(duty if d.machine_id == duty.machine_id else d for d in decision.record.duties)
    return decision.having(duties=duties)


def _duty_seen(decision: Decision, duty: Duty, machine: Machine, began: datetime) -> Decision:
    if duty.asked_at and began <= duty.asked_at:
        return _with_duty(decision, replace(duty, checked_at=decision.step))
    reading = read(machine)
    if reading is Reading.GONE:
        return _gone(decision, machine.id)
    if duty.action is Action.STOP and reading is Reading.EXITED:
        rest = tuple(d for d in decision.record.duties if d.machine_id != machine.id)
        return decision.having(duties=rest)
    # Still there long after Novita took the call: ask once more.
    overdue = duty.asked_at is not None and began - duty.asked_at >= decision.policy.settle
    leaving = machine.status in ("toRemove", "removing", "toStop", "stopping")
    asked_at = None if overdue and not leaving else duty.asked_at
    changed = replace(duty, seen_at=began, missing_at=None, checked_at=decision.step, asked_at=asked_at)
    return _with_duty(decision, changed)
