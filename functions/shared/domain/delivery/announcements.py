"""What subscribers and webhook receivers are told about an event."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from functions.shared.domain.instance.record import Action, Event

_MOST_BYTES = 20_000
_SHORT = 500  # characters, each at most 12 bytes of JSON
_KEYS = frozenset({"pk", "sk", "kind", "due", "dueAt", "expiresAt"})
_SAID = ("id", "type", "sequence", "timestamp")  # of any event
_STARTUPS = (Action.START, Action.RESTART)


@dataclass(frozen=True)
class Announcement:
    """An event as it leaves: the same id and the same bytes however often it is sent."""

    id: str
    type: str
    body: str
    attributes: dict[str, str]  # for SNS filter policies
    instance_id: str | None = None
    sequence: int | None = None
    webhook_url: str | None = None
    correlation_id: str = ""


def announce_event(event: Event) -> Announcement:
    startup = event.operation_id if event.operation_kind in _STARTUPS else None
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
        "startupOperation": {"operationId": startup} if startup else None,
        "data": {"correlationId": event.correlation_id} if event.correlation_id else None,
    }
    attributes = {
        "eventType": event.type,
        "status": event.status.value,
        "instanceId": event.instance_id,
        "region": event.region or "",
    }
    return Announcement(
        event.id,
        event.type,
        _fitting({name: value for name, value in payload.items() if value is not None}),
        {name: value for name, value in attributes.items() if value},
        event.instance_id,
        event.sequence,
        event.webhook_url,
        event.correlation_id,
    )


def announce_other(item: Mapping[str, Any]) -> Announcement:
    """An event of the service rather than of one instance: what it is about is its `data`, or else whatever
    the item says beyond its keys."""
    beyond = {name: value for name, value in item.items() if name not in (*_KEYS, *_SAID, "correlationId")}
    data = item.get("data") or beyond
    payload = {name: item[name] for name in _SAID if name in item}
    attributes = {name: data.get(name) for name in ("instanceId", "region")}
    return Announcement(
        item["id"],
        item["type"],
        _fitting(payload | {"data": data}),
        {"eventType": item["type"]}
        | {name: value for name, value in attributes.items() if value and isinstance(value, str)},
        correlation_id=item.get("correlationId", ""),
    )


def _fitting(payload: dict[str, Any]) -> str:
    """What can be long is a health report, a message or an event's data; the rest says which event it is."""
    body = json.dumps(payload)
    if len(body) >= _MOST_BYTES and (health := payload.get("healthCheck")):
        overall = {"overall": health["overall"]} if health.get("overall") else {}
        body = json.dumps(payload := payload | {"healthCheck": overall | {"cut": True}})
    if len(body) >= _MOST_BYTES:
        short = {name: _cut(payload[name]) for name in ("reason", "error") if name in payload}
        body = json.dumps(payload := payload | short)
    if len(body) >= _MOST_BYTES:
        body = json.dumps(payload | {"data": {"cut": True}})
    return body


def _cut(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _cut(one) for name, one in value.items()}
    return value[:_SHORT] if isinstance(value, str) else value


def _stamp(event: Event) -> str:
    return event.at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
