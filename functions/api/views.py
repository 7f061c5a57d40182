"""What callers see of instances and their events."""

from datetime import datetime
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, NotRequired

from typing_extensions import TypedDict

from functions.shared.domain.errors import Fault
from functions.shared.domain.ids import timestamp
from functions.shared.domain.instance.expiry import shown as shown_expiry
from functions.shared.domain.instance.machine import Connection, Endpoint, Machine
from functions.shared.domain.instance.merge import Consistency, Merged, Source, shown_status
from functions.shared.domain.instance.record import Event, Instance, Operation

_CENT_OF_A_CENT = Decimal("0.0001")
_SMALLEST_RATE = Decimal("0.00000001")


class FaultView(TypedDict):
    code: str
    message: str
    details: NotRequired[dict[str, Any]]


class PortView(TypedDict):
    port: int
    type: str
    endpoint: str


class SpotView(TypedDict):
    status: str
    reclaimTime: NotRequired[str]


class CleanupView(TypedDict):
    novitaInstanceId: str
    action: str


class LimitsView(TypedDict):
    stopAfter: NotRequired[str]
    deleteAfter: NotRequired[str]
    idleStopAfter: NotRequired[str]
    deleteAfterStopped: NotRequired[str]
    stopAt: NotRequired[str]
    deleteAt: NotRequired[str]
    idleGpuBelow: NotRequired[float]


class ExpiryView(TypedDict):
    stopAt: NotRequired[str]
    stopReason: NotRequired[str]
    deleteAt: NotRequired[str]
    deleteReason: NotRequired[str]


class CostSoFarView(TypedDict):
    soFarUsd: str
    perHourUsd: str
    estimated: NotRequired[bool]


class NetworkVolumeView(TypedDict):
    id: str
    mountPath: str


class OnReclaimView(TypedDict):
    action: str
    window: str
    maxRecoveries: int
    replaceAfter: NotRequired[str]
    fallback: NotRequired[str]


class RecoveringView(TypedDict):
    since: str
    action: str
    until: NotRequired[str]  # not while purchases are paused


class ShownView(TypedDict):
    name: str
    status: str
    productName: NotRequired[str]
    templateId: NotRequired[str]  # of an imported machine it is not known, its rootfsSize perhaps
    region: NotRequired[str]
    novitaInstanceId: NotRequired[str]
    novitaStatus: NotRequired[str]
    statusError: NotRequired[str]
    productId: NotRequired[str]
    pricePerGpuHour: NotRequired[str]
    portMappings: NotRequired[list[PortView]]
    readyAt: NotRequired[str]
    lastUsedAt: NotRequired[str]
    lastSyncedAt: NotRequired[str]
    missingSince: NotRequired[str]
    stale: NotRequired[bool]
    spot: NotRequired[SpotView]
    webhookUrl: NotRequired[str]
    healthCheck: NotRequired[dict[str, Any]]
    operationId: NotRequired[str]
    error: NotRequired[FaultView]
    waitingFor: NotRequired[FaultView]
    nextCheckAt: NotRequired[str]
    givesUpAt: NotRequired[str]  # it is tried until then, at most
    hasMachine: NotRequired[bool]  # one that is bought, and not known to be gone
    regionReasons: NotRequired[dict[str, str]]
    cleanup: NotRequired[list[CleanupView]]
    cost: NotRequired[CostSoFarView]
    tags: NotRequired[dict[str, str]]
    owner: NotRequired[str]  # the key that made it
    networkVolumes: NotRequired[list[NetworkVolumeView]]
    envNames: NotRequired[list[str]]  # of the caller's variables; their values are never shown
    limits: NotRequired[LimitsView]
    expiry: NotRequired[ExpiryView]
    protected: NotRequired[bool]
    endedBy: NotRequired[str]
    onReclaim: NotRequired[OnReclaimView]
    recoveries: NotRequired[int]
    recovering: NotRequired[RecoveringView]


class IdView(TypedDict):
    instanceId: str


class PerhapsIdView(TypedDict):
    instanceId: NotRequired[str]


class InstanceView(IdView, ShownView):  # in this order the id comes first
    gpuNum: int
    rootfsSize: NotRequired[int]
    billingMode: str
    createdAt: str
    updatedAt: str


class MountView(TypedDict):
    type: str
    mountPath: str
    id: NotRequired[str]
    size: NotRequired[int]


class EntryView(PerhapsIdView, ShownView):
    """Of the merged list; a machine that nobody here knows has no id of ours. What Novita shows of a machine
    beyond an instance's own view is here as it is, without commands and the variables' values."""

    clusterId: NotRequired[str]
    imageUrl: NotRequired[str]
    cpuNum: NotRequired[int]
    memory: NotRequired[int]
    volumeMounts: NotRequired[list[MountView]]
    endTime: NotRequired[str]

    source: Source
    dataConsistency: Consistency
    gpuNum: NotRequired[int]
    rootfsSize: NotRequired[int]
    billingMode: NotRequired[str]
    createdAt: NotRequired[str]
    updatedAt: NotRequired[str]


class EventView(TypedDict):
    id: str
    type: str
    sequence: int
    timestamp: str
    status: str
    actor: str
    correlationId: str
    novitaInstanceId: NotRequired[str]
    elapsedTime: NotRequired[int]
    reason: NotRequired[str]
    error: NotRequired[FaultView]
    healthCheck: NotRequired[dict[str, Any]]
    operationId: NotRequired[str]
    data: NotRequired[dict[str, Any]]


class CreatedView(TypedDict):
    instanceId: str
    status: str
    message: str
    estimatedReadyTime: str
    region: NotRequired[str]
    limits: NotRequired[LimitsView]
    expiry: NotRequired[ExpiryView]
    protected: NotRequired[bool]


class AcceptedView(TypedDict):
    instanceId: str
    status: str
    message: str
    cost: NotRequired[CostSoFarView]  # of what is deleted
    novitaInstanceId: NotRequired[str]
    operationId: NotRequired[str]
    estimatedReadyTime: NotRequired[str]


class PhaseView(TypedDict):
    status: str
    at: str


class OperationView(TypedDict):
    operationId: str
    instanceId: str
    kind: str
    status: str
    actor: str
    phases: list[PhaseView]
    attempts: int
    error: NotRequired[FaultView]
    webhookUrl: NotRequired[str]


class OperationsView(TypedDict):
    instanceId: str
    operations: list[OperationView]


class SecretPlaceView(TypedDict):
    address: NotRequired[str]
    command: NotRequired[str]
    username: NotRequired[str]
    password: NotRequired[str]


class LogsView(TypedDict):
    system: NotRequired[str]
    instance: NotRequired[str]


class ConnectionView(TypedDict):
    instanceId: str
    ssh: NotRequired[SecretPlaceView]
    jupyter: NotRequired[SecretPlaceView]
    webTerminal: NotRequired[SecretPlaceView]
    logs: NotRequired[LogsView]


class InstancesView(TypedDict):
    instances: list[InstanceView]
    total: NotRequired[int]
    nextCursor: NotRequired[str]
    stale: NotRequired[bool]


class EventsView(TypedDict):
    instanceId: str
    events: list[EventView]
    nextCursor: NotRequired[str]


def _present(view: dict[str, Any]) -> Any:
    return {name: value for name, value in view.items() if value not in (None, (), [], {}, "")}


def _fault(fault: Fault | None) -> Any:
    if fault is None:
        return None
    details = {"details": dict(fault.details)} if fault.details else {}
    return {"code": fault.code, "message": fault.message, **details}


def usd(amount: Decimal) -> str:
    """To the hundredth of a cent."""
    return str(amount.quantize(_CENT_OF_A_CENT, ROUND_HALF_UP))


def usd_per_hour(rate: Decimal) -> str:
    """As exact as it is, without zeros that say nothing."""
    plain = f"{rate.quantize(_SMALLEST_RATE, ROUND_HALF_UP):f}"
    return plain.rstrip("0").rstrip(".") if "." in plain else plain


def cost_so_far(record: Instance, now: datetime) -> CostSoFarView:
    """What is missing is counted on, as nobody knows whether it is billed."""
    ledger = record.ledger
    view: CostSoFarView = {
        "soFarUsd": usd(ledger.usd(now)),
        "perHourUsd": usd_per_hour(ledger.usd_per_hour),
    }
    if ledger.unsure or (record.missing and ledger.usd_per_hour):
        view["estimated"] = True
    return view


def limits_view(record: Instance, now: datetime) -> Any:
    """As asked for, the deployment's defaults among them, and when they act by what is known now."""
    return _present(
        {
            "limits": record.limits.as_json(),
            "expiry": shown_expiry(record, now).as_json(),
            "protected": record.protected or None,
        }
    )


def _reclaim_view(record: Instance) -> Any:
    asked, recovery = record.spec.on_reclaim, record.recovery
    shown: dict[str, Any] = {
        "onReclaim": asked.as_json() if asked else None,
        "recoveries": record.recoveries.completed or None,
    }
    if recovery:
        shown["recovering"] = _present(
            {
                "since": timestamp(recovery.since or recovery.lost_at),
                "until": timestamp(recovery.until) if recovery.until else None,
                "action": asked.action.value if asked else "restart",
            }
        )
    return shown


def instance_view(record: Instance, now: datetime, *, stale: bool = False) -> InstanceView:
    spot = {"status": record.machine.spot_status} if record.machine.spot_status else {}
    if record.machine.spot_reclaim_at:
        spot = {
            "status": record.machine.spot_status,
            "reclaimTime": timestamp(record.machine.spot_reclaim_at),
        }
    view: InstanceView = _present(
        {
            "instanceId": record.id,
            "name": record.name,
            "status": record.status.value,
            "productName": record.spec.product_name,
            "templateId": record.spec.template_id,
            "gpuNum": record.spec.gpu_num,
            "rootfsSize": record.spec.rootfs_size or None,
            "billingMode": record.billing_mode,
            "createdAt": timestamp(record.created_at),
            "updatedAt": timestamp(record.updated_at),
            "region": record.machine.region,
            "novitaInstanceId": record.machine.id,
            "novitaStatus": record.machine.novita_status,
            "statusError": record.machine.shown_error.text if record.machine.shown_error else None,
            "productId": record.machine.product_id,
            "pricePerGpuHour": str(record.machine.price) if record.machine.price is not None else None,
            "portMappings": _ports(record.machine.endpoints),
            "readyAt": timestamp(record.ready_at) if record.ready_at else None,
            "lastUsedAt": timestamp(record.last_used_at) if record.last_used_at else None,
            "lastSyncedAt": timestamp(record.machine.seen_at) if record.machine.seen_at else None,
            "missingSince": timestamp(record.machine.missing_since)
            if record.machine.missing_since and record.missing
            else None,
            "spot": spot,
            "webhookUrl": record.webhook_url,
            "healthCheck": dict(record.health) if record.health else None,
            "operationId": record.operation.id if record.operation else None,
            "error": _fault(record.error),
            "waitingFor": _fault(record.waiting),
            "nextCheckAt": timestamp(record.next_check_at)
            if record.waiting and record.next_check_at
            else None,
            "givesUpAt": timestamp(record.deadline_at) if record.deadline_at else None,
            "hasMachine": record.live_machine_id is not None,
            "regionReasons": dict(record.purchases.reasons),
            "cleanup": [
                {"novitaInstanceId": task.machine_id, "action": task.action.value}
                for task in record.cleanup.tasks
            ],
            "cost": cost_so_far(record, now),
            "tags": dict(record.spec.tags),
            "owner": record.actor,
            "networkVolumes": [
                {"id": one.id, "mountPath": one.mount_path} for one in record.spec.network_volumes
            ],
            "envNames": list(record.spec.env_names),
            "endedBy": record.ended_by.value if record.ended_by else None,
            **limits_view(record, now),
            **_reclaim_view(record),
        }
    )
    if stale:
        view["stale"] = True
    return view


def entry_view(merged: Merged, now: datetime) -> dict[str, Any]:
    known = instance_view(merged.record, now) if merged.record else _machine_view(merged.machine)
    shown = _shown_by_novita(merged.machine) if merged.machine else {}
    sides = {"source": merged.source.value, "dataConsistency": merged.consistency.value}
    return {**known, **shown, **sides}


def _shown_by_novita(machine: Machine) -> Any:
    return _present(
        {
            "clusterId": machine.cluster_id,
            "imageUrl": machine.image,
            "cpuNum": machine.cpu_num,
            "memory": machine.memory,
            "volumeMounts": [
                _present({"type": one.type, "mountPath": one.path, "id": one.id, "size": one.size})
                for one in machine.mounts
            ],
            "endTime": timestamp(machine.ends_at) if machine.ends_at else None,
        }
    )


def _machine_view(machine: Machine | None) -> Any:
    if machine is None:
        return {}
    reclaim = machine.spot_reclaim_at
    return {"name": machine.name} | _present(
        {
            "status": shown_status(machine).value,
            "novitaInstanceId": machine.id,
            "novitaStatus": machine.status,
            "statusError": machine.error,
            "productName": machine.product_name,
            "productId": machine.product_id,
            "gpuNum": machine.gpu_num,
            "rootfsSize": machine.rootfs_size,
            "billingMode": machine.billing_mode,
            "region": machine.region,
            "portMappings": _ports(machine.endpoints),
            "createdAt": timestamp(machine.created_at) if machine.created_at else None,
            "spot": _present(
                {"status": machine.spot_status, "reclaimTime": timestamp(reclaim) if reclaim else None}
            ),
        }
    )


def _ports(endpoints: tuple[Endpoint, ...]) -> list[dict[str, Any]]:
    return [{"port": end.port, "type": end.type, "endpoint": end.address} for end in endpoints]


def event_view(event: Event) -> EventView:
    view: EventView = _present(
        {
            "id": event.id,
            "type": event.type,
            "sequence": event.sequence,
            "timestamp": timestamp(event.at),
            "status": event.status.value,
            "actor": event.actor,
            "correlationId": event.correlation_id,
            "novitaInstanceId": event.machine_id,
            "elapsedTime": event.elapsed_ms,
            "reason": event.reason,
            "error": _fault(event.error),
            "healthCheck": dict(event.health) if event.health else None,
            "operationId": event.operation_id,
            "data": dict(event.data) if event.data else None,
        }
    )
    return view


def operation_view(instance_id: str, operation: Operation) -> OperationView:
    view: OperationView = {
        "operationId": operation.id,
        "instanceId": instance_id,
        "kind": operation.kind.value,
        "status": operation.status,
        "actor": operation.actor,
        "phases": [{"status": status, "at": timestamp(at)} for status, at in operation.phases],
        "attempts": operation.attempts,
    }
    if operation.error:
        view["error"] = _fault(operation.error)
    if operation.webhook_url:
        view["webhookUrl"] = operation.webhook_url
    return view


def connection_view(instance_id: str, connection: Connection) -> ConnectionView:
    view: ConnectionView = _present(
        {
            "instanceId": instance_id,
            "ssh": _present({"command": connection.ssh_command, "password": connection.ssh_password}),
            "jupyter": _present({"address": connection.jupyter_address}),
            "webTerminal": _present(
                {
                    "address": connection.terminal_address,
                    "username": connection.terminal_username,
                    "password": connection.terminal_password,
                }
            ),
            "logs": _present({"system": connection.system_log, "instance": connection.instance_log}),
        }
    )
    return view
