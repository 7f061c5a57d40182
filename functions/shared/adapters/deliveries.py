"""Webhook deliveries: one for each event and receiver, attempts claimed by number, ended is final."""

import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Any

from functions.shared.adapters.delivery_items import (
    attempt_item,
    delivery_id,
    delivery_item,
    instances_key,
    read_delivery,
)
from functions.shared.adapters.items import millis, readable
from functions.shared.adapters.table import NEW, ConditionFailed, Item, Table, Write
from functions.shared.domain.announcement import Announcement
from functions.shared.domain.delivery import Attempt, Delivery, State, look_at

# Nobody has begun an attempt, ended the delivery or moved its time since it was read.
_AS_READ = "#state = :state AND attempt = :attempt AND nextAt = :next"
# The same of one that has ended: nothing but a replay changes it.
_STILL_ENDED = "#state = :state AND attempt = :attempt AND attribute_not_exists(nextAt)"
# Still the attempt that was begun: nobody took it for lost and went on, or ended the delivery.
_STILL_MINE = "#state = :pending AND attempt = :attempt"
_STATE = {"#state": "state"}

_MOST_ATTEMPTS_KEPT = 50  # of rounds past; the round under way is kept whole


class Deliveries:
    def __init__(self, table: Table, new_token: Callable[[], str] = lambda: secrets.token_hex(8)) -> None:
        self._table = table
        self._new_token = new_token

    def add(self, told: Announcement, now: datetime) -> str:
        """The same event makes the same delivery, however often it is announced."""
        delivery = Delivery(
            id=delivery_id(told),
            instance_id=told.instance_id or "",
            event_id=told.id,
            event_type=told.type,
            url=told.webhook_url or "",
            body=told.body,
            correlation_id=told.correlation_id,
            created_at=now,
            next_at=now,
        )
        with suppress(ConditionFailed):
            self._table.put(Write(delivery_item(delivery, now), NEW))
        return delivery.id

    def get(self, delivery_id: str) -> Delivery | None:
        item = self._table.get(delivery_id, "delivery")
        return read_delivery(item) if item else None

    def page(self, instance_id: str, limit: int, after: str | None) -> tuple[list[Delivery], str | None]:
        """Newest first, from where the last page ended; and where this one did, if there are more."""
        found, end = self._table.page(
            "lookup", "lookup", instances_key(instance_id), limit=limit, after=after
        )
        return list(readable(read_delivery, found)), end

    def begin(self, delivery: Delivery, now: datetime, until: datetime) -> Delivery | None:
        """Claim the next attempt, unless somebody has; due again when the claimant must be done or dead."""
        number, token = delivery.attempt + 1, self._new_token()
        item = self._change(
            delivery,
            "SET attempt = :number, attempts.#number = :begun, claim = :claim, "
            "nextAt = :until, dueAt = :until, held = :none",
            {"#number": str(number)},
            {
                ":number": number,
                ":begun": attempt_item(Attempt(number, now)),
                ":claim": token,
                ":until": millis(until),
                ":none": 0,
            },
        )
        if item is None:
            # A write whose answer was lost is sent again by the SDK and then meets itself.
            stands = self._table.get(delivery.id, "delivery")
            item = stands if stands and stands.get("claim") == token else None
        return read_delivery(item) if item else None

    def hold(self, delivery: Delivery, until: datetime) -> bool:
        """Let the next attempt wait without counting it; False if somebody else has moved on meanwhile."""
        changed = self._change(
            delivery,
            "SET nextAt = :until, dueAt = :until, held = :held",
            {},
            {":until": millis(until), ":held": delivery.held + 1},
        )
        return changed is not None

    def finish(
        self, delivery: Delivery, result: Attempt, *, state: State, again_at: datetime | None, now: datetime
    ) -> bool:
        """Log the attempt and either end the delivery or say when the next attempt is due."""
        values: dict[str, Any] = {
            ":pending": State.PENDING,
            ":attempt": result.number,
            ":state": state,
            ":result": attempt_item(result),
        }
        changes = "SET #state = :state, attempts.#number = :result"
        if again_at:
            values |= {":next": millis(again_at), ":due": millis(look_at(again_at, now))}
            changes += ", nextAt = :next, dueAt = :due"
        else:
            changes += " REMOVE due, dueAt, nextAt"
        names = {**_STATE, "#number": str(result.number)}
        try:
            self._table.update(
                delivery.id, "delivery", changes, condition=_STILL_MINE, names=names, values=values
            )
        except ConditionFailed:
            return False
        return True

    def give_up(self, delivery: Delivery) -> bool:
        """Every attempt was made, and whoever made the last one did not live to say so."""
        changes = "SET #state = :exhausted REMOVE due, dueAt, nextAt"
        return self._change(delivery, changes, {}, {":exhausted": State.EXHAUSTED}) is not None

    def replay(self, delivery: Delivery, now: datetime, also: Sequence[Write] = ()) -> Delivery:
        """A new round of attempts, from now on; raises ConditionFailed if it changed since it was read."""
        again = replace(
            delivery,
            state=State.PENDING,
            made_before=delivery.attempt,
            next_at=now,
            held=0,
            attempts=delivery.attempts[-_MOST_ATTEMPTS_KEPT:],
        )
        condition = _AS_READ if delivery.next_at else _STILL_ENDED
        values: dict[str, Any] = {":state": delivery.state, ":attempt": delivery.attempt}
        if delivery.next_at:
            values[":next"] = millis(delivery.next_at)
        write = Write(delivery_item(again, now), condition, values, _STATE)
        if also:
            self._table.transact([write, *also])
        else:
            self._table.put(write)
        return again

    def _change(
        self, delivery: Delivery, changes: str, names: dict[str, str], values: dict[str, Any]
    ) -> Item | None:
        """Over the delivery as it was read; None if it is no longer so."""
        as_read = {
            ":state": delivery.state,
            ":attempt": delivery.attempt,
            ":next": millis(delivery.next_at) if delivery.next_at else 0,
        }
        try:
            return self._table.update(
                delivery.id,
                "delivery",
                changes,
                condition=_AS_READ,
                names={**_STATE, **names},
                values={**as_read, **values},
            )
        except ConditionFailed:
            return None
