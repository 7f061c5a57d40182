"""Records, machines and purchases for tests: a plain one of each, with whatever the test is about."""

from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from functions.shared.domain.instance.commands import begin_create
from functions.shared.domain.instance.decision import Decision, Policy
from functions.shared.domain.instance.health import HealthReport, ProbeFault, ProbeResult, ProbeTarget
from functions.shared.domain.instance.machine import Endpoint, Machine
from functions.shared.domain.instance.record import (
    Action,
    CleanupTask,
    Instance,
    Operation,
    Purchase,
    PurchaseOutcome,
    RentedMachine,
    Spec,
)
from functions.shared.domain.instance.status import Status

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
POLICY = Policy()
OWN = "m-own"
HTTP = Endpoint(8188, "http", "https://8188.example")


def after(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def new_spec(**changes: Any) -> Spec:
    return Spec(**{"product_name": "RTX 4090 24GB", "template_id": "107672"} | changes)


def changed(record: Instance, **changes: Any) -> Instance:
    """The record with these fields, each in the part that has it; `pending` is of the operation under way."""
    parts = {
        "machine": {one.name: one.name for one in fields(RentedMachine)} | {"machine_id": "id"},
        "purchases": {"purchases": "count", "unsettled": "unsettled", "unseen_at": "unseen_at"}
        | {"read_at": "read_at"},
        "cleanup": {name: name for name in ("tasks", "gone", "vanished", "released")},
    }
    parts["machine"].pop("id")
    for part, names in parts.items():
        inner = {names[name]: changes.pop(name) for name in names if name in changes}
        record = replace(record, **{part: replace(getattr(record, part), **inner)})
    pending, check = changes.pop("pending", None), changes.pop("health_check", None)
    record = replace(record, **changes)
    if pending is None and check is None:
        return record
    operation = record.operation or new_operation(pending or Action.START)
    kind = pending or operation.kind
    return replace(record, operation=replace(operation, kind=kind, pending=bool(pending), health_check=check))


def new_instance(status: Status = Status.CREATING, **changes: Any) -> Instance:
    """As it would be after a purchase a minute ago, unless it is creating."""
    bought = {
        "machine_id": OWN,
        "purchases": 1,
        "bought_at": ago(60),
        "acted_at": ago(60),
        "seen_at": ago(60),
        "expects_endpoints": True,
        "endpoints": (HTTP,),
    }
    plain: dict[str, Any] = {
        "id": "inst_01JGFJJZ00ABCDEFGHJKMNPQRS",
        "name": "test",
        "spec": new_spec(),
        "status": status,
        "created_at": ago(3600),
        "updated_at": ago(60),
        "deadline_at": None,
        "next_check_at": NOW,
        "actor": "key_1",
        "correlation_id": "corr",
        "version": 3,
        "token": "token-3",
        "sequence": 7,
    }
    own = {name: value for name, value in changes.items() if name in plain}
    others = {name: value for name, value in changes.items() if name not in plain}
    return changed(Instance(**plain | own), **(bought if status is not Status.CREATING else {}) | others)


def new_machine(status: str, machine_id: str = OWN, **changes: Any) -> Machine:
    plain: dict[str, Any] = {"id": machine_id, "name": "ours", "status": status, "endpoints": (HTTP,)}
    return Machine(**plain | changes)


def new_purchase(outcome: PurchaseOutcome, number: int = 1, **changes: Any) -> Purchase:
    bought = {"machine_id": OWN} if outcome is PurchaseOutcome.BOUGHT else {}
    ended = {} if outcome is PurchaseOutcome.INTENDED else {"ended_at": ago(60)}
    plain: dict[str, Any] = {
        "instance_id": "inst_01JGFJJZ00ABCDEFGHJKMNPQRS",
        "number": number,
        "name": f"test-dep-ulid-{number}",
        "outcome": outcome,
        "intended_at": ago(90),
        "lease_until": after(90),
    }
    return Purchase(**plain | bought | ended | changes)


def new_report(*, healthy: bool, timed_out: bool = False) -> HealthReport:
    fault = None if healthy else ProbeFault("connection_refused", "refused", timed_out)
    return HealthReport((ProbeResult(ProbeTarget(8188, "http", "https://8188.example/"), 12, NOW, fault),))


def new_operation(kind: Action, status: str = "monitoring", **changes: Any) -> Operation:
    plain: dict[str, Any] = {"id": f"op_{kind}", "kind": kind, "status": status}
    return Operation(**plain | {"actor": "key_1", "began_at": ago(120)} | changes)


def new_task(action: Action = Action.DELETE, machine_id: str = OWN, **changes: Any) -> CleanupTask:
    plain: dict[str, Any] = {"machine_id": machine_id, "action": action, "seen_at": ago(60)}
    return CleanupTask(**plain | changes)


def deciding(record: Instance, now: datetime = NOW) -> Decision:
    return Decision(record, now, POLICY, now, "key_1")


def created(name: str = "test", instance_id: str = "inst_01JGFJJZ00ABCDEFGHJKMNPQRS") -> Decision:
    return begin_create(
        instance_id=instance_id,
        name=name,
        spec=new_spec(),
        webhook_url=None,
        actor="key_1",
        correlation_id="corr",
        now=NOW,
        policy=POLICY,
    )
