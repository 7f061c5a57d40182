"""What follows from what Novita shows of a machine, or does not show."""

from dataclasses import replace
from datetime import datetime, timedelta

from functions.shared.domain import health
from functions.shared.domain.decision import Decision, Policy
from functions.shared.domain.estimate import Booted
from functions.shared.domain.instance import Action, Duty, Fault, Instance
from functions.shared.domain.machine import Endpoint, Machine
from functions.shared.domain.reading import Reading, addressable, read
from functions.shared.domain.rules.progress import end_startup, fail
from functions.shared.domain.status import Status

_OFF = frozenset({Status.STOPPED, Status.EXITED})
_COMES_UP = _OFF | {Status.STARTING, Status.MIGRATING}
_LEAVING = frozenset({"toRemove", "removing", "toStop", "stopping"})


def seen(decision: Decision, machine: Machine, began: datetime) -> Decision:
    if duty := _duty(decision, machine.id):
        decision = _duty_seen(decision, duty, machine, began)
    record = decision.record
    if machine.id != record.machine_id or machine.id in record.gone:
        return decision
    decision = decision.having(looked_at=decision.step)
    if stale(decision, began):
        return decision
    if read(machine) is Reading.GONE:
        return gone(decision, machine.id)
    decision = decision.having(
        seen_at=max(began, record.seen_at or began),
        missing_at=None,
        doubted=False,
        novita_status=machine.status,
        region=machine.region or record.region,
        endpoints=told(machine.endpoints, record.endpoints),
        spot_status=machine.spot_status,
        spot_reclaim_at=machine.spot_reclaim_at,
        waiting=record.waiting if record.pending or record.duties else None,
    )
    if record.pending:
        if not _as_asked(record, machine):
            return decision
        decision = decision.having(pending=None)
    after = _follow(decision, machine, began)
    came_up = record.status is Status.STARTING and read(machine) is Reading.RUNNING and after.events
    return replace(after, booted=_booted(record, began)) if came_up else after


def _as_asked(record: Instance, machine: Machine) -> bool:
    """What is still to be asked for is so already. That it runs is only believed of a look by id, which
    Novita's refusal to start it made due: what a list shows may be from before it was stopped."""
    if record.pending is Action.START:
        return record.doubted and read(machine) is Reading.RUNNING
    return record.pending is Action.STOP and read(machine) is Reading.EXITED


def missing(decision: Decision, machine_id: str, began: datetime) -> Decision:
    record, policy = decision.record, decision.policy
    if duty := _duty(decision, machine_id):
        current = began >= duty.seen_at and (duty.asked_at is None or began > duty.asked_at)
        if current and _confirmed_gone(duty.missing_at, began, policy):
            return gone(decision, machine_id)
        missing_at = duty.missing_at or began if current else duty.missing_at
        decision = decision.with_duty(replace(duty, missing_at=missing_at, checked_at=decision.step))
    if machine_id != record.machine_id or machine_id in record.gone:
        return decision
    decision = decision.having(looked_at=decision.step)
    if stale(decision, began):
        return decision
    if _confirmed_gone(record.missing_at, began, policy):
        return gone(decision, machine_id)
    return decision.having(missing_at=record.missing_at or began, doubted=True)


def unlisted(decision: Decision, machine_id: str, began: datetime) -> Decision:
    """Absence from a list proves nothing: it makes a get by id due."""
    record = decision.record
    if machine_id != record.machine_id or machine_id in record.gone or stale(decision, began):
        return decision
    return decision.having(doubted=True)


def gone(decision: Decision, machine_id: str) -> Decision:
    """Novita has confirmed that the machine is no more."""
    duty = _duty(decision, machine_id)
    duties = tuple(one for one in decision.record.duties if one is not duty)
    decision = decision.having(duties=duties, gone=(*decision.record.gone, machine_id))
    if duty is None or duty.action is not Action.DELETE:
        decision = decision.having(vanished=(*decision.record.vanished, machine_id))
    if machine_id != decision.record.machine_id:
        return decision
    decision = decision.having(missing_at=None, doubted=False, novita_status="removed", pending=None)
    if decision.record.coming_up:
        return fail(decision, Fault("STARTUP_FAILED", "The machine vanished at Novita before it was ready"))
    if decision.record.status in (Status.FAILED, Status.DELETING):
        return decision
    fault = Fault("INSTANCE_NOT_FOUND", "The machine is gone at Novita")
    owing = decision.record.duties or decision.record.unsettled  # terminated means that nothing is owed
    after = Status.DELETING if owing else Status.TERMINATED
    return decision.operate("failed", fault).move(after, fault.message, deadline_at=None)


def ready(decision: Decision) -> Decision:
    record = decision.record
    again = record.starting_again
    decision = decision.move(
        Status.READY, ready_at=record.ready_at or decision.now, deadline_at=None, health_check=None
    )
    return (
        decision.operate("completed").note("startup.completed", health=record.health) if again else decision
    )


def _booted(record: Instance, began: datetime) -> Booted | None:
    """It came up at some time between the sighting before and this one; None if no call of ours, or one for
    something else, was what it came up after."""
    operation = record.operation if record.starting_again else None
    if record.acted_at is None or not record.product_id:
        return None
    answers_us = record.acted_at >= operation.began_at if operation else record.ready_at is None
    if not answers_us:
        return None
    not_before = max(record.acted_at, record.seen_at or record.acted_at)
    seconds = (not_before - record.acted_at + (began - not_before) / 2).total_seconds()
    kind = str(operation.kind) if operation else "create"
    return Booted(kind, record.product_id, record.region or "", seconds)


def told(shown: tuple[Endpoint, ...], known: tuple[Endpoint, ...]) -> tuple[Endpoint, ...]:
    """A list may leave addresses out; what a get has told stays known."""
    return shown if all(end.address for end in shown) and shown else known or shown


def stale(decision: Decision, began: datetime) -> bool:
    """Asked before Novita took our last action, so that what it says may be from before, too; or asked
    before something newer that is known already."""
    acted_at, seen_at = decision.record.acted_at, decision.record.seen_at
    return (acted_at is not None and began <= acted_at) or (seen_at is not None and began < seen_at)


def _confirmed_gone(missing_at: datetime | None, began: datetime, policy: Policy) -> bool:
    """Not found, and still not long after. Until it was first not found it counts as there, whenever it was
    last seen: sweeps that see a machine at rest do not write that down."""
    return missing_at is not None and began - missing_at >= policy.gone_after


def _follow(decision: Decision, machine: Machine, began: datetime) -> Decision:
    """Let our status follow what the machine is seen to be."""
    record = decision.record
    match read(machine):
        case Reading.RUNNING if record.status in _COMES_UP:
            shown = replace(machine, endpoints=record.endpoints)
            if addressable(shown, expected=record.expects_endpoints):
                return _running(decision)
            # Nobody waits for what is off: a look by id is due, which knows more than a list.
            return decision.having(doubted=True) if record.status in _OFF else decision
        case Reading.RUNNING if record.status is Status.STOPPING:
            return _stop_again(decision, began)
        case Reading.RUNNING if record.status is Status.FAILED and not record.spec.keep_on_failure:
            # By hand, or by a start that came late; what has failed must not cost money.
            return decision.owe(machine.id, Action.STOP)
        case Reading.EXITED if record.status is Status.STOPPING:
            return decision.move(Status.STOPPED, pending=None).operate("completed")
        case Reading.EXITED if record.status not in _OFF | {Status.FAILED}:
            return _exited(decision, machine, began)
        case Reading.MIGRATING if record.status not in (Status.FAILED, Status.STOPPING):
            return _migrating(decision)
    return decision


def _running(decision: Decision) -> Decision:
    record = decision.record
    check = record.health_check if record.starting_again else record.spec.health_check
    check = check if record.coming_up else None
    if check is None:
        ready_at = record.ready_at or decision.now
        return decision.move(Status.RUNNING, ready_at=ready_at, deadline_at=None).operate("completed")
    decision = decision.move(Status.RUNNING, deadline_at=None)
    if not health.targets(record.endpoints, check):
        return ready(decision)
    deadline = decision.now + timedelta(milliseconds=check.max_wait_time_ms)
    decision = decision.move(Status.HEALTH_CHECKING, deadline_at=deadline).operate("health_checking")
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
    again = record.starting_again
    if again and record.acted_at and began < record.acted_at + decision.policy.settle:
        return decision
    reclaimed = machine.spot_status not in ("", "running") or machine.spot_reclaim_at is not None
    reason = "reclaimed by Novita" if reclaimed else "stopped at Novita"
    decision = decision.move(Status.EXITED, reason, deadline_at=None, health_check=None)
    if not again:
        return decision
    return end_startup(decision, Fault("STARTUP_FAILED", f"The machine exited while starting: {reason}"))


def _stop_again(decision: Decision, began: datetime) -> Decision:
    """Still running long after Novita took the stop: ask once more."""
    acted_at = decision.record.acted_at
    overdue = acted_at is None or began - acted_at >= decision.policy.settle
    return decision.having(pending=Action.STOP) if overdue else decision


def _duty(decision: Decision, machine_id: str) -> Duty | None:
    return next((duty for duty in decision.record.duties if duty.machine_id == machine_id), None)


def _duty_seen(decision: Decision, duty: Duty, machine: Machine, began: datetime) -> Decision:
    if duty.asked_at and began <= duty.asked_at:
        return decision.with_duty(replace(duty, checked_at=decision.step))
    reading = read(machine)
    if reading is Reading.GONE:
        return gone(decision, machine.id)
    if duty.action is Action.STOP and reading is Reading.EXITED:
        return decision.having(duties=tuple(d for d in decision.record.duties if d is not duty))
    # Still there long after Novita took the call: ask once more.
    overdue = duty.asked_at is not None and began - duty.asked_at >= decision.policy.settle
    asked_at = None if overdue and machine.status not in _LEAVING else duty.asked_at
    return decision.with_duty(
        replace(
            duty,
            seen_at=max(began, duty.seen_at),
            missing_at=None,
            checked_at=decision.step,
            asked_at=asked_at,
        )
    )
