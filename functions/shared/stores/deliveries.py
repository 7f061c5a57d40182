"""Webhook deliveries, one for each event and receiver, and the slots of a receiver for those under way."""

import hashlib
import re
import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from functions.shared.domain.delivery.targets import BadTarget
from functions.shared.domain.delivery.webhooks import (
    Announcement,
    Attempt,
    AttemptEnd,
    Delivery,
    DeliveryState,
    Receiver,
    ReceiverBusy,
    look_at,
    site_of,
)
from functions.shared.stores.jobs import JobSlot, JobSlots, SlowSlots, busy_slots
from functions.shared.stores.schema import adapter, pack, unpack
from functions.shared.stores.table import (
    NEW,
    RETENTION,
    ConditionFailed,
    Item,
    Table,
    Write,
    event_key,
    millis,
    moment,
    readable,
)


def delivery_id(announcement: Announcement, url: str) -> str:
    """Sorts by the event's number, so that the index lists an instance's deliveries in order."""
    instance = (announcement.instance_id or "").removeprefix("inst_")
    own = url == announcement.webhook_url
    return _numbered(instance, announcement.sequence or 0, "" if own else _FOR_OPERATION)


def _numbered(instance: str, sequence: int, ending: str) -> str:
    return f"dlv_{instance}_{sequence:06d}{ending}"


_FOR_OPERATION = "_op"
_ID = re.compile(r"dlv_(.*)_([0-9]{6,})(|_op)")


def _id_before(delivery_id: str) -> str | None:
    """Of the event before, to the same kind of receiver."""
    parts = _ID.fullmatch(delivery_id)
    if parts is None or int(parts[2]) <= 1:
        return None
    return _numbered(parts[1], int(parts[2]) - 1, parts[3])


def _key(delivery_id: str) -> tuple[str, str]:
    """With its instance, whose deliveries are then listed without an index; what is no id is no key."""
    parts = _ID.fullmatch(delivery_id)
    return f"inst_{parts[1] if parts else ''}", f"{_SORTED}{delivery_id}"


_SORTED = "delivery#"
_DELIVERY = "delivery"
# A message and the first attempt take less. Until then the sweep has nothing to do with it, so that beginning
# the attempt need not move the time.
_FIRST_LOOK = timedelta(minutes=2)


def delivery_item(delivery: Delivery, now: datetime) -> Item:
    """Of one that is pending, and whose next attempt is the first of its round."""
    next_at = delivery.next_at or now
    pk, sk = _key(delivery.id)
    due = {} if delivery.covered else {"due": _DELIVERY, "dueAt": millis(next_at + _FIRST_LOOK)}
    return {
        "pk": pk,
        "sk": sk,
        "kind": _DELIVERY,
        "id": delivery.id,
        "instanceId": delivery.instance_id,
        "eventId": delivery.event_id,
        "eventType": delivery.event_type,
        "url": delivery.url,
        "body": pack(delivery.body),
        "correlationId": delivery.correlation_id,
        "createdAt": millis(delivery.created_at),
        "state": delivery.state,
        "attempt": delivery.attempt,
        "madeBefore": delivery.made_before,
        "held": delivery.held,
        "attempts": {str(one.number): attempt_item(one) for one in delivery.attempts},
        "nextAt": millis(next_at),
        **due,
        "expiresAt": int((now + RETENTION).timestamp()),
    }


def read_delivery(item: Item) -> Delivery:
    attempts = [adapter(Attempt).validate_python(one) for one in item["attempts"].values()]
    return Delivery(
        id=item["id"],
        instance_id=item["instanceId"],
        event_id=item["eventId"],
        event_type=item["eventType"],
        url=item["url"],
        body=_read_body(item["body"]),
        correlation_id=item["correlationId"],
        created_at=moment(item["createdAt"]),
        state=DeliveryState(item["state"]),
        attempt=item["attempt"],
        made_before=item["madeBefore"],
        next_at=moment(item["nextAt"]) if "nextAt" in item else None,
        held=item["held"],
        attempts=tuple(sorted(attempts, key=lambda one: one.number)),
        covered="nextAt" in item and "due" not in item,
    )


def _read_body(stored: bytes | str) -> str:
    """Also of those that were stored as they are."""
    return stored if isinstance(stored, str) else unpack(stored)


def attempt_item(attempt: Attempt) -> dict[str, Any]:
    item: dict[str, Any] = adapter(Attempt).dump_python(attempt, mode="json", exclude_none=True)
    return item


# Nobody has begun an attempt, ended the delivery or moved its time since it was read.
_AS_READ = "#state = :state AND attempt = :attempt AND nextAt = :next"
# The same of one that has ended: nothing but a replay changes it.
_STILL_ENDED = "#state = :state AND attempt = :attempt AND attribute_not_exists(nextAt)"
# Still the attempt that was begun: nobody took it for lost and went on, or ended the delivery.
_STILL_MINE = "#state = :pending AND attempt = :attempt"
# Not ended, and not due by itself.
_COVERED = "attribute_exists(nextAt) AND attribute_not_exists(due)"
_STATE = {"#state": "state"}

_MOST_ATTEMPTS_KEPT = 50  # of rounds past; the round under way is kept whole


class Deliveries:
    def __init__(self, table: Table, new_token: Callable[[], str] = lambda: secrets.token_hex(8)) -> None:
        self._table = table
        self._new_token = new_token

    def add(
        self, announcement: Announcement, url: str, now: datetime, *, covered: bool = False
    ) -> tuple[str, bool]:
        """Its id, and whether its event still covers for it: until the first attempt has ended, one of the
        two has to be due. The same event makes the same delivery, however often it is announced; from the
        second time on that is due by itself."""
        delivery = Delivery(
            id=delivery_id(announcement, url),
            instance_id=announcement.instance_id or "",
            event_id=announcement.id,
            event_type=announcement.type,
            url=url,
            body=announcement.body,
            correlation_id=announcement.correlation_id,
            created_at=now,
            next_at=now,
            covered=covered,
        )
        try:
            self._table.put(Write(delivery_item(delivery, now), NEW))
        except ConditionFailed:
            covered = False
            self._make_due(delivery, now)
        return delivery.id, covered

    def _make_due(self, delivery: Delivery, now: datetime) -> None:
        values = {":due": _DELIVERY, ":at": millis(now + _FIRST_LOOK)}
        with suppress(ConditionFailed):
            self._table.update(
                *_key(delivery.id), "SET due = :due, dueAt = :at", condition=_COVERED, values=values
            )

    def uncover(self, delivery: Delivery) -> None:
        """After the first attempt, or when it was put off: its event has been told, or this is due itself."""
        parts = _ID.fullmatch(delivery.id)
        if not delivery.covered or parts is None:
            return
        key = delivery.instance_id, event_key(int(parts[2]))
        with suppress(ConditionFailed):
            self._table.update(*key, "REMOVE due, dueAt", condition="attribute_exists(due)")

    def get(self, delivery_id: str) -> Delivery | None:
        item = self._table.get(*_key(delivery_id))
        return read_delivery(item) if item else None

    def before(self, delivery: Delivery) -> Delivery | None:
        """The event before it, if that went to the same receiver. Numbers have no gaps, and one that had to
        wait waited for its own, so that no other need be asked for."""
        earlier = _id_before(delivery.id)
        found = self.get(earlier) if earlier else None
        return found if found and found.url == delivery.url else None

    def page(self, instance_id: str, limit: int, after: str | None) -> tuple[list[Delivery], str | None]:
        """Newest first, from where the last page ended; and where this one did, if there are more."""
        found, _ = self._table.query(
            "pk = :pk AND sk BETWEEN :first AND :last",
            {":pk": instance_id, ":first": _SORTED, ":last": f"{_SORTED}{after or '~'}"},
            forward=False,
            limit=limit + 2,
        )
        others = [item for item in found if item["id"] != after]
        end = others[limit - 1]["id"] if len(others) > limit else None
        return list(readable(read_delivery, others[:limit])), end

    def begin(self, delivery: Delivery, now: datetime, until: datetime) -> Delivery | None:
        """Claim the next attempt, unless somebody has; due again when the claimant must be done or dead."""
        number, token = delivery.attempt + 1, self._new_token()
        due = "" if delivery.of_round == 0 and not delivery.held else ", dueAt = :until"
        item = self._change(
            delivery,
            "SET attempt = :number, attempts.#number = :begun, claim = :claim, nextAt = :until, held = :none"
            + due,
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
            stands = self._table.get(*_key(delivery.id))
            item = stands if stands and stands.get("claim") == token else None
        return read_delivery(item) if item else None

    def hold(self, delivery: Delivery, until: datetime) -> bool:
        """Let the next attempt wait without counting it; False if somebody else has moved on meanwhile."""
        changed = self._change(
            delivery,
            "SET nextAt = :until, due = :due, dueAt = :until, held = :held",
            {},
            {":until": millis(until), ":due": _DELIVERY, ":held": delivery.held + 1},
        )
        return changed is not None

    def finish(
        self,
        delivery: Delivery,
        result: Attempt,
        *,
        state: DeliveryState,
        again_at: datetime | None,
        now: datetime,
    ) -> bool:
        """Log the attempt and either end the delivery or say when the next attempt is due."""
        values: dict[str, Any] = {
            ":pending": DeliveryState.PENDING,
            ":attempt": result.number,
            ":state": state,
            ":result": attempt_item(result),
        }
        changes = "SET #state = :state, attempts.#number = :result"
        if again_at:
            values |= {":next": millis(again_at), ":due": _DELIVERY, ":at": millis(look_at(again_at, now))}
            changes += ", nextAt = :next, due = :due, dueAt = :at"
        else:
            changes += " REMOVE due, dueAt, nextAt"
        names = {**_STATE, "#number": str(result.number)}
        try:
            self._table.update(*_key(delivery.id), changes, condition=_STILL_MINE, names=names, values=values)
        except ConditionFailed:
            return False
        return True

    def give_up(self, delivery: Delivery) -> bool:
        """Every attempt was made, and whoever made the last one did not live to say so."""
        changes = "SET #state = :exhausted REMOVE due, dueAt, nextAt"
        return self._change(delivery, changes, {}, {":exhausted": DeliveryState.EXHAUSTED}) is not None

    def replay(self, delivery: Delivery, now: datetime, also: Sequence[Write] = ()) -> Delivery:
        """A new round of attempts, from now on; raises ConditionFailed if it changed since it was read."""
        again = replace(
            delivery,
            state=DeliveryState.PENDING,
            made_before=delivery.attempt,
            next_at=now,
            held=0,
            attempts=delivery.attempts[-_MOST_ATTEMPTS_KEPT:],
            covered=False,
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
                *_key(delivery.id),
                changes,
                condition=_AS_READ,
                names={**_STATE, **names},
                values={**as_read, **values},
            )
        except ConditionFailed:
            return None


# How long it counts for others of its site that one of them began to hang.
_SITE_SLOW_FOR = timedelta(days=1)
_SITE_MARKS = 64  # of its origins; two that share a mark only forget each other's time-out sooner
# After a time-out in this process, others may hang as well.
_TROUBLE_LASTS = timedelta(seconds=60)
_RECEIVER = "receiver"  # the kind of its item, and its sort key


@dataclass(frozen=True)
class ReceiverSlot:
    origin: str
    receiver: Receiver
    slot: JobSlot | None  # none is needed where the receiver is known to answer at once
    slow: JobSlot | None  # besides, where it may hang: half of the workers are for all such


class ReceiverSlots:
    """A receiver has so many attempts under way, and all that may hang have half of the workers.

    It may hang if its last attempt timed out, or if another of its site began to hang and it has not answered
    since. Then it gets one attempt at a time. So does, for a minute after a time-out in this process, whoever
    has not answered lately: many begin to hang together, and one worker is enough to find each of them out.

    One whose last attempt ended at once needs no slot in quiet times, and so costs no write.
    """

    def __init__(self, table: Table, per_receiver: int, slow: SlowSlots) -> None:
        self._table = table
        self._slots = JobSlots(table, _RECEIVER)
        self._per_receiver = per_receiver
        self._slow = slow
        self._timed_out_at: datetime | None = None

    def take(self, origin: str, now: datetime, until: datetime) -> ReceiverSlot | ReceiverBusy:
        """A slot of the receiver, unless all are taken; it becomes free by itself at `until`."""
        pk = _receiver_key(origin)
        item = self._slots.read(pk)
        receiver = _read_receiver(item)
        if receiver.quick and not self._in_trouble(now):
            return ReceiverSlot(origin, receiver, None, None)
        may_hang = self._may_hang(origin, receiver, now)
        careful = may_hang or (self._in_trouble(now) and not receiver.answered_lately(now))
        most = 1 if careful else self._per_receiver
        if busy_slots(item, now) >= most:
            return ReceiverBusy(may_hang)
        slow = self._slow.take(now, until, spare=1 if receiver.slow else 0) if may_hang else None
        if may_hang and slow is None:
            return ReceiverBusy(may_hang)
        slot = self._slots.take(pk, most, now, until, known=item, **_stored_for(origin, until))
        if slot is None and slow:
            self._slow.release(slow)
        return ReceiverSlot(origin, receiver, slot, slow) if slot else ReceiverBusy(may_hang)

    def release(self, taken: ReceiverSlot, now: datetime, ended: AttemptEnd | None = None) -> None:
        """With what was learned of the receiver, if an attempt was made."""
        if taken.slow:
            self._slow.release(taken.slow)
        no_longer, learned = _learned(ended, now)
        if taken.slot:
            self._slots.release(taken.slot, no_longer, **learned)
        elif ended and not ended.quick:
            stored = _stored_for(taken.origin, now)
            self._slots.note(_receiver_key(taken.origin), no_longer, kind=_RECEIVER, **stored, **learned)
        if ended and ended.timed_out:
            self._timed_out_at = now
            values = {":at": millis(now), ":kind": "site", ":gone": int((now + RETENTION).timestamp())}
            mark = "SET #mark = if_not_exists(#mark, :at), kind = :kind, expiresAt = :gone"
            self._mark_site(taken.origin, mark, values)
        elif ended and taken.receiver.slow:
            self._mark_site(taken.origin, "REMOVE #mark", {})

    def _may_hang(self, origin: str, receiver: Receiver, now: datetime) -> bool:
        if receiver.slow or not (receiver.unknown or self._in_trouble(now)):
            return receiver.slow  # in quiet times one that is known costs no look at its site
        item = self._table.get(_site_key(origin), "site") or {}
        recent = now - _SITE_SLOW_FOR
        since = millis(max(recent, receiver.answered_at or recent))
        return any(name.startswith("slow") and at > since for name, at in item.items())

    def _in_trouble(self, now: datetime) -> bool:
        return self._timed_out_at is not None and now - self._timed_out_at < _TROUBLE_LASTS

    def _mark_site(self, origin: str, change: str, values: dict[str, Any]) -> None:
        mark = f"slow{int(_hashed(origin), 16) % _SITE_MARKS}"
        self._table.update(_site_key(origin), "site", change, names={"#mark": mark}, values=values)


def _read_receiver(item: Item) -> Receiver:
    times = {"answered_at": item.get("answeredAt"), "timed_out_at": item.get("timedOutAt")}
    known = {name: moment(at) for name, at in times.items() if at is not None}
    return Receiver(**known, quick="quick" in item)


def _learned(ended: AttemptEnd | None, now: datetime) -> tuple[tuple[str, ...], dict[str, Any]]:
    """What is no longer so of the receiver's item, and what is."""
    if ended is None:
        return (), {}
    if ended.timed_out:
        return ("quick",), {"timedOutAt": millis(now)}
    if ended.quick:
        return ("timedOutAt",), {"answeredAt": millis(now), "quick": True}
    return ("timedOutAt", "quick"), {"answeredAt": millis(now)}


def _stored_for(origin: str, until: datetime) -> dict[str, Any]:
    return {"origin": origin, "expiresAt": int((until + RETENTION).timestamp())}


def _receiver_key(origin: str) -> str:
    return f"receiver#{_hashed(origin)}"


def _site_key(origin: str) -> str:
    try:
        site = site_of(origin)
    except BadTarget:  # nothing will be sent there
        site = origin
    return f"site#{_hashed(site)}"


def _hashed(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]
