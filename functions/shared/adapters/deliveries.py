"""Webhook deliveries: one for each event and receiver, attempts claimed by number, ended is final."""

from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from functions.shared.adapters.items import RETENTION, millis
from functions.shared.adapters.table import NEW, ConditionFailed, Item, Table, Write
from functions.shared.domain.announcement import Announcement

# The attempt before this one has ended, and nobody has begun this one.
_MY_TURN = "#state = :pending AND attempt = :before"
# Still the attempt that was claimed: nobody else has gone on or ended it.
_STILL_MINE = "#state = :pending AND attempt = :attempt"
_NAMES = {"#state": "state"}


@dataclass(frozen=True)
class Delivery:
    id: str
    event_id: str
    url: str
    body: str
    attempt: int
    correlation_id: str


class Deliveries:
    def __init__(self, table: Table) -> None:
        self._table = table

    def add(self, told: Announcement, now: datetime) -> str:
        """The same event makes the same delivery, however often it is announced."""
        delivery_id = told.id.replace("evt_", "dlv_", 1)
        item: Item = {
            "pk": delivery_id,
            "sk": "delivery",
            "kind": "delivery",
            "id": delivery_id,
            "lookup": f"deliveries#{told.instance_id}",
            "instanceId": told.instance_id,
            "eventId": told.id,
            "eventType": told.type,
            "url": told.webhook_url,
            "body": told.body,
            "correlationId": told.correlation_id,
            "state": "pending",
            "attempt": 0,
            "attempts": [],
            "createdAt": millis(now),
            "due": "delivery",
            "dueAt": millis(now),
            "expiresAt": int((now + RETENTION).timestamp()),
        }
        with suppress(ConditionFailed):
            self._table.put(Write(item, NEW))
        return delivery_id

    def claim(self, delivery_id: str, attempt: int, until: datetime) -> Delivery | None:
        """Begin the attempt, unless somebody has; due again when the claimant must be done or dead."""
        try:
            item = self._table.update(
                delivery_id,
                "delivery",
                "SET attempt = :attempt, due = :due, dueAt = :until",
                condition=_MY_TURN,
                names=_NAMES,
                values={
                    ":attempt": attempt,
                    ":before": attempt - 1,
                    ":pending": "pending",
                    ":due": "delivery",
                    ":until": millis(until),
                },
            )
        except ConditionFailed:
            return None
        return read_delivery(item)

    def finish(
        self, delivery: Delivery, result: dict[str, Any], *, state: str, again_at: datetime | None
    ) -> None:
        """Log the attempt and either end the delivery or say when the next attempt is due."""
        due = "SET dueAt = :due" if again_at else "REMOVE due, dueAt SET endedAttempt = :attempt"
        values: dict[str, Any] = {
            ":pending": "pending",
            ":attempt": delivery.attempt,
            ":state": state,
            ":result": [result],
            ":none": [],
        }
        if again_at:
            values[":due"] = millis(again_at)
        try:
            self._table.update(
                delivery.id,
                "delivery",
                f"{due}, #state = :state, attempts = list_append(if_not_exists(attempts, :none), :result)",
                condition=_STILL_MINE,
                names=_NAMES,
                values=values,
            )
        except ConditionFailed:
            return


def read_delivery(item: Item) -> Delivery:
    return Delivery(
        item["id"], item["eventId"], item["url"], item["body"], item["attempt"], item["correlationId"]
    )


def lease(timeout_seconds: float) -> timedelta:
    return timedelta(seconds=timeout_seconds + 45)
