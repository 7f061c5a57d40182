"""What a caller may ask of an instance: the new record, or a refusal that names the status."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import Any

from functions.shared.domain.errors import CallerError, Conflict, Fault, FieldError, ValidationFailed
from functions.shared.domain.ids import timestamp
from functions.shared.domain.instance import recovery
from functions.shared.domain.instance.billing import meter_ended, meter_imported
from functions.shared.domain.instance.decision import Decision, Policy
from functions.shared.domain.instance.expiry import next_due, runs_since
from functions.shared.domain.instance.health import HealthCheck
from functions.shared.domain.instance.limits import (
    LIMIT_NAMES,
    NO_LIMITS,
    EndedBy,
    LimitChange,
    LimitClock,
    Limits,
)
from functions.shared.domain.instance.machine import Machine, MachineState, machine_state
from functions.shared.domain.instance.progress import LONGEST_STEP, end_startup, fail
from functions.shared.domain.instance.purchases import region_reasons
from functions.shared.domain.instance.reclaim import ON_DEMAND, OnReclaim, require_reclaimable
from functions.shared.domain.instance.record import (
    Action,
    Instance,
    Operation,
    PurchaseState,
    RentedMachine,
    Spec,
)
from functions.shared.domain.instance.status import RESTARTABLE, STARTABLE, STOPPABLE, Status

_SUPERSEDED = Fault("OPERATION_SUPERSEDED", "Another operation took its place")


def begin_create(
    *,
    instance_id: str,
    name: str,
    spec: Spec,
    webhook_url: str | None,
    actor: str,
    correlation_id: str,
    now: datetime,
    policy: Policy,
    reasons: Sequence[tuple[str, str]] = (),
    price: Decimal | None = None,
    capped: bool = False,
    limits: Limits = NO_LIMITS,
    ceilings: Limits = NO_LIMITS,
    protected: bool = False,
) -> Decision:
    """`reasons`: why regions had no offer, as far as that is known already; `price`: of the best offer."""
    record = Instance(
        id=instance_id,
        name=name,
        spec=spec,
        status=Status.CREATING,
        created_at=now,
        updated_at=now,
        deadline_at=now + policy.purchase_wait,
        next_check_at=now,
        actor=actor,
        correlation_id=correlation_id,
        webhook_url=webhook_url,
        machine=RentedMachine(region=spec.region),
        purchases=PurchaseState(
            reasons=tuple(reasons), price=price if spec.max_price is None else spec.max_price
        ),
        capped=capped,
        limits=limits,
        ceilings=ceilings,
        protected=protected,
    )
    decision = Decision(record, now, policy, now, actor)
    return decision.add_event("instance.creating", data=region_reasons(reasons)).commit()


def begin_import(
    *,
    instance_id: str,
    name: str,
    machine: Machine,
    webhook_url: str | None,
    actor: str,
    correlation_id: str,
    now: datetime,
    policy: Policy,
    capped: bool = False,
    limits: Limits = NO_LIMITS,
    ceilings: Limits = NO_LIMITS,
    on_reclaim: OnReclaim | None = None,
) -> Decision:
    """A machine that somebody else bought: looked after from now on, and kept whatever fails."""
    billing_mode = machine.billing_mode or ON_DEMAND
    require_reclaimable(on_reclaim, billing_mode, imported=True)
    state = machine_state(machine)
    status = {MachineState.RUNNING: Status.RUNNING, MachineState.EXITED: Status.EXITED}.get(
        state, Status.STARTING
    )
    record = Instance(
        id=instance_id,
        name=name,
        spec=Spec(
            product_name=machine.product_name,
            template_id="",
            gpu_num=machine.gpu_num or 1,
            rootfs_size=machine.rootfs_size or 0,
            billing_mode=billing_mode,
            keep_on_failure=True,
            on_reclaim=on_reclaim,
        ),
        status=status,
        created_at=now,
        updated_at=now,
        deadline_at=now + policy.boot_wait if status is Status.STARTING else None,
        next_check_at=now if status is Status.STARTING else None,
        actor=actor,
        correlation_id=correlation_id,
        webhook_url=webhook_url,
        machine=RentedMachine(
            id=machine.id,
            region=machine.region,
            product_id=machine.product_id,
            novita_status=machine.status,
            endpoints=machine.endpoints,
            seen_at=now,
            owned=True,
        ),
        ready_at=now if status is Status.RUNNING else None,
        capped=capped,
        limits=limits,
        ceilings=ceilings,
        clock=LimitClock(ran_at=now, off_since=now)
        if status is Status.EXITED
        else LimitClock(ran_at=now, running_since=now),
    )
    decision = meter_imported(Decision(record, now, policy, now, actor), machine)
    return _due_by_limits(decision.add_event(f"instance.{status}", "imported"))


def _due_by_limits(decision: Decision) -> Decision:
    """A limit may be the first thing that is due; at rest it is the only one."""
    record = decision.record
    limit = next_due(record, decision.policy.expiry_notice)
    known = None if record.at_rest else record.next_check_at
    return decision.due(min((one for one in (limit, known) if one), default=None))


def begin_start(
    decision: Decision,
    operation_id: str,
    check: HealthCheck,
    webhook_url: str | None = None,
    limits: LimitChange | None = None,
) -> Decision:
    record = decision.record
    refuse_missing(record)
    replaced = record.recovery is not None and record.status in (Status.CREATING, Status.STARTING)
    if record.starting_again or replaced:
        raise _in_progress(record)
    if record.status not in STARTABLE or _without_machine(record):
        raise _refusal("INSTANCE_NOT_STARTABLE", record, "started")
    decision = decision.change(clock=record.clock.started(decision.now), ended_by=None)
    if limits:
        decision = _change_limits(decision, limits)
    return _bring_up(decision, Action.START, operation_id, check, webhook_url).commit()


def begin_restart(
    decision: Decision, operation_id: str, check: HealthCheck, webhook_url: str | None = None
) -> Decision:
    record = decision.record
    refuse_missing(record)
    if record.starting_again:
        raise _in_progress(record)
    if record.status not in RESTARTABLE:
        raise _refusal("INSTANCE_NOT_RESTARTABLE", record, "restarted")
    return _bring_up(decision, Action.RESTART, operation_id, check, webhook_url)


@dataclass(frozen=True)
class ReclaimChange:
    to: OnReclaim | None


@dataclass(frozen=True)
class Update:
    """What a caller changes: what is not named stays; of tags and limits, None takes one away."""

    fields: Mapping[str, Any]  # of the record: name, webhook_url, protected
    limits: LimitChange | None = None
    tags: Mapping[str, str | None] | None = None
    only_tags: bool = False  # all others are taken away
    reclaim: ReclaimChange | None = None


_MOST_TAGS = 20


def begin_update(decision: Decision, update: Update) -> Decision:
    """Says what changed, by whom; without an event where nothing did."""
    before = decision.record
    if before.status in (Status.DELETING, Status.TERMINATED):
        why = f"{before.id} is {before.status}: it cannot be changed any more"
        raise Conflict("INSTANCE_ENDED", why, details={"status": before.status})
    decision = decision.change(**update.fields)
    if update.tags is not None:
        decision = decision.change(spec=replace(before.spec, tags=_merged_tags(before.spec.tags, update)))
    if update.limits:
        decision = _change_limits(decision, update.limits)
    if update.reclaim:
        decision = _change_reclaim(decision, update.reclaim.to)
    if not (data := _differences(before, decision.record)):
        return decision.change(ceilings=before.ceilings)
    decision = decision.change(updated_at=decision.now)
    return _due_by_limits(decision.add_event("instance.updated", data=data))


def _merged_tags(tags: tuple[tuple[str, str], ...], update: Update) -> tuple[tuple[str, str], ...]:
    merged = {**({} if update.only_tags else dict(tags)), **(update.tags or {})}
    left = tuple((name, value) for name, value in merged.items() if value is not None)
    if len(left) > _MOST_TAGS:
        raise ValidationFailed([FieldError("tags", "INVALID_TAGS", f"At most {_MOST_TAGS} in all")])
    return left


def _change_limits(decision: Decision, change: LimitChange) -> Decision:
    record = decision.record
    # A run that is over has no ceiling any more.
    counted = replace(record.clock, running_since=runs_since(record))
    limits = change.apply(record.limits, counted, decision.now)
    clock = record.clock if limits == record.limits else record.clock.changed()
    return decision.change(limits=limits, ceilings=change.rules.ceilings, clock=clock)


def _change_reclaim(decision: Decision, asked: OnReclaim | None) -> Decision:
    """What waits for room waits no longer where nobody wants it back; what is on its way comes."""
    record = decision.record
    require_reclaimable(asked, record.billing_mode, imported=record.imported)
    decision = decision.change(spec=replace(record.spec, on_reclaim=asked))
    if asked is None and record.status is not Status.CREATING and not record.coming_up:
        return recovery.ended(decision, _SUPERSEDED)
    return decision


def _differences(before: Instance, after: Instance) -> dict[str, Any]:
    """What changed, by name; before and after where it is short and no secret can be in it."""
    tags = [dict(one.spec.tags) for one in (before, after)]
    limits = [one.limits.as_json() for one in (before, after)]
    shown: dict[str, list[Any]] = {"name": [before.name, after.name]}
    shown["protected"] = [before.protected, after.protected]
    reclaim = [one.spec.on_reclaim for one in (before, after)]
    shown["onReclaim"] = [one.as_json() if one else None for one in reclaim]
    shown |= {f"limits.{name}": [one.get(name) for one in limits] for name in LIMIT_NAMES.values()}
    changes = {name: {"from": one[0], "to": one[1]} for name, one in shown.items() if one[0] != one[1]}
    unshown = [f"tags.{name}" for name in {**tags[0], **tags[1]} if tags[0].get(name) != tags[1].get(name)]
    unshown += ["webhookUrl"] if before.webhook_url != after.webhook_url else []
    changed = [*changes, *unshown]
    return {"changed": changed, "changes": changes} if changed else {}


def begin_stop(decision: Decision, operation_id: str, by: EndedBy = EndedBy.USER) -> Decision:
    record, recovering = decision.record, decision.record.recovery is not None
    if recovering and record.status is Status.CREATING:
        return _stop_replacing(decision, operation_id, by)
    stoppable = STOPPABLE | {Status.EXITED} if recovering else STOPPABLE
    if record.status not in stoppable or _without_machine(record):
        raise _refusal("INSTANCE_NOT_STOPPABLE", record, "stopped")
    decision = _begin_operation(decision, Action.STOP, operation_id)
    if recovering:  # a step may be at the call that starts it: what is off now may be on later
        decision = decision.change_machine(may_start_until=decision.now + LONGEST_STEP)
    changes: Any = {"deadline_at": None, "error": None, "next_check_at": decision.now, "ended_by": by}
    return decision.move(Status.STOPPING, **changes)


def _stop_replacing(decision: Decision, operation_id: str, by: EndedBy) -> Decision:
    """There is nothing to stop: its machine was given back, and no other is bought any more."""
    decision = _begin_operation(decision, Action.STOP, operation_id).move_operation("completed")
    why = "It was stopped before another machine took the place of the one that was taken away"
    return fail(decision, Fault(recovery.FAILED, why), by).due(decision.now)


def begin_delete(decision: Decision, operation_id: str, by: EndedBy = EndedBy.USER) -> Decision:
    """Idempotent: deleting what is being deleted changes nothing."""
    record = decision.record
    if record.status in (Status.DELETING, Status.TERMINATED):
        return decision
    _refuse_protected(record)
    decision = _begin_operation(decision, Action.DELETE, operation_id)
    changes: Any = {"deadline_at": None, "next_check_at": decision.now, "ended_by": by}
    decision = decision.move(Status.DELETING, **changes)
    decision = decision.change_cleanup(vanished=())  # now asked for: what reappears is deleted, too
    return decision.add_cleanup(record.machine.id, Action.DELETE) if record.machine.id else decision


def begin_release(decision: Decision, operation_id: str, *, admin: bool) -> Decision:
    """Its machines are no longer looked after, and Novita is asked nothing: for what Novita will not give
    back, or what is somebody else's business. Deleting what is gone changes nothing."""
    record = decision.record
    if record.status is Status.TERMINATED:
        return decision
    if record.status is not Status.DELETING:
        _refuse_protected(record)
    if not (record.imported or record.missing or record.stuck):
        why = f"{record.id} is neither imported nor missing, nor does Novita refuse to give its machine back"
        raise Conflict("INSTANCE_NOT_RELEASABLE", why, details={"status": record.status})
    if not (record.imported or record.missing or admin):
        raise CallerError("FORBIDDEN", "What Novita will not give back is released by admin alone")
    if record.status is not Status.DELETING:
        decision = _begin_operation(decision, Action.DELETE, operation_id)
        changes: Any = {"deadline_at": None, "next_check_at": decision.now, "ended_by": EndedBy.USER}
        decision = decision.move(Status.DELETING, "released", **changes)
    own = (record.live_machine_id,) if record.live_machine_id else ()
    left = dict.fromkeys((*record.cleanup.released, *own, *(one.machine_id for one in record.cleanup.tasks)))
    decision = decision.change_cleanup(tasks=(), released=tuple(left)).change_machine(needs_look=False)
    for machine_id in left:  # what they cost from now on is not this instance's
        decision = meter_ended(decision, machine_id, decision.now)
    if record.purchases.unsettled:  # one that turns up bought after all is given back
        return decision
    return decision.move(Status.TERMINATED, "released").move_operation("completed").due(None)


def begin_again(decision: Decision) -> Decision:
    """A machine is bought after all, for an instance that failed and has none: a purchase like the first."""
    if why := _not_again(decision.record):
        raise Conflict("NOT_REDRIVABLE", f"{decision.record.id} {why}")
    fresh = begin_create(
        instance_id=decision.record.id,
        name=decision.record.name,
        spec=decision.record.spec,
        webhook_url=decision.record.webhook_url,
        actor=decision.record.actor,
        correlation_id=decision.record.correlation_id,
        now=decision.now,
        policy=decision.policy,
        price=decision.record.purchases.price,
        capped=decision.record.capped,
        limits=decision.record.limits,
        ceilings=decision.record.ceilings,
        protected=decision.record.protected,
    ).record
    record = decision.record
    again = replace(
        fresh,
        status=record.status,
        created_at=record.created_at,
        version=record.version,
        token=record.token,
        sequence=record.sequence,
        purchases=replace(fresh.purchases, count=record.purchases.count),
        counted=record.counted,
        cleanup=replace(record.cleanup, tasks=()),
        ledger=record.ledger,
        operation=record.operation,
        recoveries=record.recoveries,
        last_used_at=record.last_used_at,
        clock=LimitClock(ran_at=record.clock.ran_at, start_at=decision.now),
        unknown=record.unknown,
    )
    return replace(decision, record=again).move(Status.CREATING).commit()


def _not_again(record: Instance) -> str | None:
    if record.status is not Status.FAILED:
        return f"is {record.status}, not failed"
    if record.live_machine_id:
        return f"has the machine {record.live_machine_id}: start or delete it"
    if record.cleanup.tasks or record.purchases.unsettled:
        return "has not settled yet: a machine may still have to be given back"
    if not record.spec.template_id:
        return "was imported, so that there is nothing to buy again"
    return None


def _bring_up(
    decision: Decision, action: Action, operation_id: str, check: HealthCheck, webhook_url: str | None
) -> Decision:
    decision = _begin_operation(decision, action, operation_id, check, webhook_url).move(
        Status.STARTING,
        health=None,
        error=None,
        deadline_at=decision.now + decision.policy.boot_wait,
        next_check_at=decision.now,
    )
    tasks = tuple(task for task in decision.record.cleanup.tasks if task.action is not Action.STOP)
    decision = decision.change_cleanup(tasks=tasks).change_machine(told_errors=())
    return decision.add_event("startup.initiated")


def _begin_operation(
    decision: Decision,
    kind: Action,
    operation_id: str,
    check: HealthCheck | None = None,
    webhook_url: str | None = None,
) -> Decision:
    again = decision.record.starting_again
    decision = end_startup(decision, _SUPERSEDED) if again else decision.move_operation("failed", _SUPERSEDED)
    decision = recovery.ended(decision, _SUPERSEDED)
    operation = Operation(
        operation_id,
        kind,
        "initiated",
        decision.actor,
        decision.now,
        phases=(("initiated", decision.now),),
        pending=kind is not Action.DELETE,  # the clean-up deletes
        health_check=check,
        webhook_url=webhook_url,
        began_in=decision.record.status,
    )
    return replace(decision.change(operation=operation), operations=(*decision.operations, operation))


def _refuse_protected(record: Instance) -> None:
    if record.protected:
        why = f"{record.id} is protected: take `protected` away first"
        raise Conflict("INSTANCE_PROTECTED", why, details={"status": record.status})


def refuse_missing(record: Instance) -> None:
    """For what needs the machine to be there."""
    if record.missing:
        since = record.machine.missing_since
        details = {"status": record.status, "missingSince": since and timestamp(since)}
        raise Conflict(
            "INSTANCE_MISSING", f"Novita does not find the machine of {record.id}", details=details
        )


def _without_machine(record: Instance) -> bool:
    """It has none, or none for long: one that is being deleted cannot be brought back."""
    task = record.cleanup.task(record.machine.id)
    return record.live_machine_id is None or (task is not None and task.action is Action.DELETE)


def _in_progress(record: Instance) -> Conflict:
    why = f"{record.id} is {record.status}: it is being started already"
    return Conflict("STARTUP_OPERATION_IN_PROGRESS", why, details={"status": record.status})


def _refusal(code: str, record: Instance, verb: str) -> Conflict:
    why = " and has no machine" if _without_machine(record) else ""
    return Conflict(
        code, f"{record.id} is {record.status}{why} and cannot be {verb}", details={"status": record.status}
    )
