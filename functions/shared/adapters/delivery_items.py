"""How a webhook delivery looks as an item of the table."""

from datetime import datetime
from typing import Any

from pydantic import TypeAdapter

from functions.shared.adapters.items import RETENTION, millis, moment
from functions.shared.adapters.table import Item
from functions.shared.domain.announcement import Announcement
from functions.shared.domain.delivery import Attempt, Delivery, State

_attempt = TypeAdapter(Attempt)


def delivery_id(told: Announcement) -> str:
    """Sorts by the event's number, so that the index lists an instance's deliveries in order."""
    return f"dlv_{(told.instance_id or '').removeprefix('inst_')}_{told.sequence or 0:06d}"


def instances_key(instance_id: str) -> str:
    return f"deliveries#{instance_id}"


def delivery_item(delivery: Delivery, now: datetime) -> Item:
    """Of one that is pending."""
    due_at = millis(delivery.next_at or now)
    return {
        "pk": delivery.id,
        "sk": "delivery",
        "kind": "delivery",
        "id": delivery.id,
        "lookup": instances_key(delivery.instance_id),
        "instanceId": delivery.instance_id,
        "eventId": delivery.event_id,
        "eventType": delivery.event_type,
        "url": delivery.url,
        "body": delivery.body,
        "correlationId": delivery.correlation_id,
        "createdAt": millis(delivery.created_at),
        "state": delivery.state,
        "attempt": delivery.attempt,
        "madeBefore": delivery.made_before,
        "held": delivery.held,
        "attempts": {str(one.number): attempt_item(one) for one in delivery.attempts},
        "nextAt": due_at,
        "due": "delivery",
        "dueAt": due_at,
        "expiresAt": int((now + RETENTION).timestamp()),
    }


def read_delivery(item: Item) -> Delivery:
    attempts = [_attempt.validate_python(one) for one in item["attempts"].values()]
    return Delivery(
        id=item["id"],
        instance_id=item["instanceId"],
        event_id=item["eventId"],
        event_type=item["eventType"],
        url=item["url"],
        body=item["body"],
        correlation_id=item["correlationId"],
        created_at=moment(item["createdAt"]),
        state=State(item["state"]),
        attempt=item["attempt"],
        made_before=item["madeBefore"],
        next_at=moment(item["nextAt"]) if "nextAt" in item else None,
        held=item["held"],
        attempts=tuple(sorted(attempts, key=lambda one: one.number)),
    )


def attempt_item(attempt: Attempt) -> dict[str, Any]:
    item: dict[str, Any] = _attempt.dump_python(attempt, mode="json", exclude_none=True)
    return item
