"""What subscribers and webhook receivers are told about an event."""

import json
from dataclasses import dataclass
from typing import Any

from functions.shared.domain.instance import Event

_MOST_BYTES = 20_000


@dataclass(frozen=True)
class Announcement:
    """An event as it leaves: the same id and the same bytes however often it is sent."""

    id: str
    type: str
    body: str
    attributes: dict[str, str]  # for SNS filter policies
    instance_id: str | None = None
    webhook_url: str | None = None
    correlation_id: str = ""


def announce_event(event: Event) -> Announcement:
    payload: dict[str, Any] = {
        "id": event.id,
        "type": event.type,
        "sequence": event.sequence,
        "timestamp": _stamp(event),
        "instanceId": event.instance_id,
        "novitaInstanceId": event.machine_id,
        "status": event.status.value,
        "elapsedTime": event.elapsed_ms,
        "reason": event.reason,
        "error": {"code": event.error.code, "message": event.error.message} if event.error else None,
        "healthCheck": dict(event.health) if event.health else None,
        "startupOperation": {"operationId": event.operation_id} if event.operation_id else None,
        "data": {"correlationId": event.correlation_id} if event.correlation_id else None,
    }
    body = json.dumps({name: value for name, value in payload.items() if value is not None})
    if len(body.encode()) > _MOST_BYTES:  # only a health report can be that long
        payload["healthCheck"] = {"overall": (event.health or {}).get("overall"), "cut": True}
        body = json.dumps({name: value for name, value in payload.items() if value is not None})
    attributes = {
        "eventType": event.type,
        "status": event.status.value,
        "instanceId": event.instance_id,
        "region": event.region or "",
    }
    return Announcement(
        event.id,
        event.type,
        body,
        {name: value for name, value in attributes.items() if value},
        event.instance_id,
        event.webhook_url,
        event.correlation_id,
    )


def announce_other(item: dict[str, Any]) -> Announcement:
    """Events of the service rather than of one instance: circuits, orphans."""
    data = {name: item[name] for name in ("circuit", "state", "openUntil") if name in item}
    payload = {"id": item["id"], "type": item["type"], "timestamp": item["timestamp"], "data": data}
    return Announcement(item["id"], item["type"], json.dumps(payload), {"eventType": item["type"]})


def _stamp(event: Event) -> str:
    return event.at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
