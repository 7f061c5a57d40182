"""What a caller may ask of an instance: the new record, or a refusal that names the status."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from functions.shared.domain.errors import CallerError, Conflict, Fault
from functions.shared.domain.ids import timestamp
from functions.shared.domain.instance.decision import Decision, Policy
from functions.shared.domain.instance.health import HealthCheck
from functions.shared.domain.instance.machine import Machine, MachineState, machine_state
from functions.shared.domain.instance.progress import end_startup
from functions.shared.domain.instance.purchases import region_reasons
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
) -> Decision:
    """`reasons`: why regions had no offer, as far as that is known already."""
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
        purchases=PurchaseState(reasons=tuple(reasons)),
    )
    decision = Decision(record, now, policy, now, actor)
    return decision.add_event("instance.creating", data=region_reasons(reasons))


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
) -> Decision:
    """A machine that somebody else bought: looked after from now on, and kept whatever fails."""
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
            billing_mode=machine.billing_mode or "onDemand",
            keep_on_failure=True,
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
    )
    return Decision(record, now, policy, now, actor).add_event(f"instance.{status}", "imported")


def begin_start(
    decision: Decision, operation_id: str, check: HealthCheck, webhook_url: str | None = None
) -> Decision:
    record = decision.record
    refuse_missing(record)
    if record.starting_again:
        raise _in_progress(record)
    if record.status not in STARTABLE or _without_machine(record):
        raise _refusal("INSTANCE_NOT_STARTABLE", record, "started")
    return _bring_up(decision, Action.START, operation_id, check, webhook_url)


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


def begin_stop(decision: Decision, operation_id: str) -> Decision:
    record = decision.record
    if record.status not in STOPPABLE or _without_machine(record):
        raise _refusal("INSTANCE_NOT_STOPPABLE", record, "stopped")
    decision = _begin_operation(decision, Action.STOP, operation_id)
    return decision.move(Status.STOPPING, deadline_at=None, error=None, next_check_at=decision.now)


def begin_delete(decision: Decision, operation_id: str) -> Decision:
    """Idempotent: deleting what is being deleted changes nothing."""
    record = decision.record
    if record.status in (Status.DELETING, Status.TERMINATED):
        return decision
    decision = _begin_operation(decision, Action.DELETE, operation_id)
    decision = decision.move(Status.DELETING, deadline_at=None, next_check_at=decision.now)
    decision = decision.change_cleanup(vanished=())  # now asked for: what reappears is deleted, too
    return decision.add_cleanup(record.machine.id, Action.DELETE) if record.machine.id else decision


def begin_release(decision: Decision, operation_id: str, *, admin: bool) -> Decision:
    """Its machines are no longer looked after, and Novita is asked nothing: for what Novita will not give
    back, or what is somebody else's business. Deleting what is gone changes nothing."""
    record = decision.record
    if record.status is Status.TERMINATED:
        return decision
    if not (record.imported or record.missing or record.stuck):
        why = f"{record.id} is neither imported nor missing, nor does Novita refuse to give its machine back"
        raise Conflict("INSTANCE_NOT_RELEASABLE", why, details={"status": record.status})
    if not (record.imported or record.missing or admin):
        raise CallerError("FORBIDDEN", "What Novita will not give back is released by admin alone")
    if record.status is not Status.DELETING:
        decision = _begin_operation(decision, Action.DELETE, operation_id)
        decision = decision.move(Status.DELETING, "released", deadline_at=None, next_check_at=decision.now)
    own = (record.live_machine_id,) if record.live_machine_id else ()
    left = dict.fromkeys((*record.cleanup.released, *own, *(one.machine_id for one in record.cleanup.tasks)))
    decision = decision.change_cleanup(tasks=(), released=tuple(left)).change_machine(needs_look=False)
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
    ).record
    record = decision.record
    again = replace(
        fresh,
        status=record.status,
        created_at=record.created_at,
        version=record.version,
        token=record.token,
        sequence=record.sequence,
        purchases=PurchaseState(count=record.purchases.count),
        cleanup=replace(record.cleanup, tasks=()),
        operation=record.operation,
        last_used_at=record.last_used_at,
        unknown=record.unknown,
    )
    return replace(decision, record=again).move(Status.CREATING)


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
