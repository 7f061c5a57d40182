"""What is told about an event, and its way to one webhook receiver: when it is tried, how it is signed."""

import hmac
import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from functions.shared.domain.delivery.targets import split_target
from functions.shared.domain.errors import Fault
from functions.shared.domain.ids import timestamp
from functions.shared.domain.instance.record import Action, Event
from functions.shared.domain.resilience import retry_after_seconds

LONGEST_RETRY_AFTER = timedelta(hours=24)
_JITTER = 0.1
# The sender of a message may have a clock that is a little ahead of ours.
_CLOCKS_DIFFER = timedelta(seconds=1)
_LATELY = timedelta(seconds=10)
_AT_ONCE = timedelta(seconds=1)
QUEUE_HOLDS = timedelta(minutes=15)  # the longest delay that SQS knows
# How soon the next attempt of an earlier event must be due for a later one to wait for it. A receiver that
# was restarted is back by the first retry; one that is down must not hold later events for hours.
_ORDER_WAIT = timedelta(minutes=1)
# Holds grow from a second to a time-out, so that these are under a minute, whatever the clocks say.
_MOST_HOLDS_FOR_ORDER = 6
# A sweep comes every minute, and later than it should by its grace.
_SWEEP_AHEAD = timedelta(seconds=90)


class DeliveryState(StrEnum):
    PENDING = "pending"
    DELIVERED = "delivered"
    ENDED = "ended"  # the receiver wants no more of it, ever
    EXHAUSTED = "exhausted"


@dataclass(frozen=True)
class Attempt:
    number: int
    at: datetime
    took_ms: int | None = None
    status: int | None = None
    error: str | None = None  # the category, where no answer came
    answer: str | None = None  # its first characters

    @property
    def open(self) -> bool:
        return self.status is None and self.error is None


@dataclass(frozen=True)
class Delivery:
    id: str
    instance_id: str
    event_id: str
    event_type: str
    url: str
    body: str
    correlation_id: str
    created_at: datetime
    state: DeliveryState = DeliveryState.PENDING
    attempt: int = 0  # the number of the last one that was begun
    made_before: int = 0  # attempts of the rounds before the last replay
    next_at: datetime | None = None  # no attempt before then; of one under way, when it counts as lost
    held: int = 0  # how often the next attempt has had to wait for its receiver
    attempts: tuple[Attempt, ...] = ()
    covered: bool = False  # it is not due by itself: its event is, until the first attempt has ended

    @property
    def of_round(self) -> int:
        """The number of the last attempt, counted from the last replay."""
        return self.attempt - self.made_before

    def awaits(self, attempt: int, now: datetime) -> bool:
        """Whether it is time for this attempt; whoever set another time has sent another message."""
        due = self.next_at is not None and self.next_at <= now + _CLOCKS_DIFFER
        return self.state is DeliveryState.PENDING and attempt == self.attempt + 1 and due

    def waits_for(self, earlier: "Delivery", now: datetime) -> bool:
        """Whether its first attempt comes after the earlier event's, which is about to be tried or is being
        tried. Only for so long: what a receiver does not take must not hold up what follows."""
        first = self.attempt == 0 and self.held < _MOST_HOLDS_FOR_ORDER
        soon = earlier.next_at is not None and earlier.next_at <= now + _ORDER_WAIT
        return first and earlier.state is DeliveryState.PENDING and soon

    def under_way(self, now: datetime) -> bool:
        """Somebody is making an attempt, and may still live."""
        last = next((one for one in self.attempts if one.number == self.attempt), None)
        running = self.next_at is not None and now < self.next_at
        return self.state is DeliveryState.PENDING and last is not None and last.open and running

    def lost(self, attempt: Attempt, now: datetime) -> bool:
        """Begun, and whoever began it did not live to say how it went."""
        return attempt.open and not (attempt.number == self.attempt and self.under_way(now))


@dataclass(frozen=True)
class Receiver:
    """What is known of a receiver from the attempts before."""

    answered_at: datetime | None = None  # when an attempt was last known to end before its time was over
    timed_out_at: datetime | None = None  # when the last attempt timed out, if it did
    quick: bool = False  # the last attempt ended at once

    @property
    def slow(self) -> bool:
        return self.timed_out_at is not None

    @property
    def unknown(self) -> bool:
        return self.answered_at is None and self.timed_out_at is None

    def answered_lately(self, now: datetime) -> bool:
        return self.answered_at is not None and now - self.answered_at < _LATELY


@dataclass(frozen=True)
class AttemptEnd:
    """What an attempt tells of its receiver."""

    timed_out: bool  # it used up all the time that it had
    took: timedelta

    @property
    def quick(self) -> bool:
        return not self.timed_out and self.took < _AT_ONCE


@dataclass(frozen=True)
class ReceiverBusy:
    """An attempt has to wait for its turn."""

    slow: bool  # behind all receivers that may hang, rather than behind attempts to the same one


def read_waits(text: str) -> tuple[float, ...]:
    """The setting WEBHOOK_WAITS, read: seconds between attempts."""
    waits = tuple(float(part) for part in text.split(",") if part.strip())
    if not all(0 <= wait <= 604_800 for wait in waits):  # NaN fails this too
        raise ValueError("each wait must be between 0 and 604800 seconds")
    return waits


def after_attempt(
    status: int | None,
    headers: Mapping[str, str],
    *,
    now: datetime,
    attempt: int,
    waits: Sequence[float],
    random: Callable[[], float],
) -> tuple[DeliveryState, datetime | None]:
    """The delivery's state now, and when to try again if it is still pending.

    `attempt` is the one just made, from 1; `status` is None where no answer came.

    A receiver's Retry-After can make the wait longer than the schedule's, never shorter.
    """
    if status is not None and 200 <= status < 300:
        return DeliveryState.DELIVERED, None
    if status == 410:
        return DeliveryState.ENDED, None
    if attempt > len(waits):
        return DeliveryState.EXHAUSTED, None
    wait = timedelta(seconds=waits[attempt - 1] * (1 - _JITTER + 2 * _JITTER * random()))
    asked = _retry_after(headers, now) if status in (429, 503) else timedelta()
    return DeliveryState.PENDING, now + max(wait, asked)


def look_at(next_at: datetime, now: datetime) -> datetime:
    """When the sweep is to look: in time to queue what the queue cannot hold yet, else only if it is late."""
    return next_at if next_at - now <= QUEUE_HOLDS else next_at - _SWEEP_AHEAD


def _retry_after(headers: Mapping[str, str], now: datetime) -> timedelta:
    header = next((value for name, value in headers.items() if name.lower() == "retry-after"), None)
    asked = retry_after_seconds(header, now, LONGEST_RETRY_AFTER.total_seconds())
    return timedelta(seconds=asked or 0.0)


_PREFIX = "whsec_"
_SECRET_LABEL = b"ostler webhook secret 1\0"
_LEAST_BYTES = 24  # what the standard asks of a secret


def read_master(text: str) -> bytes:
    """A master secret as it is kept: whsec_ and base64, or any long enough text."""
    text = text.strip()
    encoded = text.removeprefix(_PREFIX)
    secret = text.encode() if encoded == text else b64decode(encoded, validate=True)
    if len(secret) < _LEAST_BYTES:
        raise ValueError(f"the master webhook secret must have at least {_LEAST_BYTES} bytes")
    return secret


def origin_of(url: str) -> str:
    """scheme://host[:port], the same for every spelling of one receiver."""
    return split_target(url).origin


def site_of(url: str) -> str:
    """Subdomains and ports of one receiver are one site."""
    return split_target(url).site


def derive_secret(master: bytes, origin: str) -> bytes:
    """Each receiver's own secret, so that none can sign for another."""
    return hmac.digest(master, _SECRET_LABEL + origin.encode(), "sha256")


def show_secret(secret: bytes) -> str:
    return _PREFIX + b64encode(secret).decode()


def sign(secret: bytes, message_id: str, timestamp: int, body: bytes) -> str:
    signed = f"{message_id}.{timestamp}.".encode() + body
    return "v1," + b64encode(hmac.digest(secret, signed, "sha256")).decode()


def signed_headers(
    masters: Sequence[bytes], url: str, message_id: str, timestamp: int, body: bytes
) -> dict[str, str]:
    """The three headers of one attempt; one signature for each master, the current one first."""
    origin = origin_of(url)
    signatures = [sign(derive_secret(master, origin), message_id, timestamp, body) for master in masters]
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": " ".join(signatures),
    }


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
    webhook_url: str | None = None  # the instance's own
    correlation_id: str = ""
    operation_webhook_url: str | None = None  # for this operation alone

    @property
    def webhook_urls(self) -> tuple[str, ...]:
        """Each receiver once."""
        urls = (self.webhook_url, self.operation_webhook_url)
        return tuple(dict.fromkeys(url for url in urls if url))


def announce_event(event: Event) -> Announcement:
    payload: dict[str, Any] = {
        "id": event.id,
        "type": event.type,
        "sequence": event.sequence,
        "timestamp": timestamp(event.at),
        "instanceId": event.instance_id,
        "novitaInstanceId": event.machine_id,
        "status": event.status.value,
        "elapsedTime": event.elapsed_ms,
        "reason": event.reason,
        "error": _error(event.error) if event.error else None,
        "healthCheck": dict(event.health) if event.health else None,
        "startupOperation": _startup(event),
        "data": _data(event) or None,
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
        event.operation_webhook_url,
    )


def _startup(event: Event) -> dict[str, Any] | None:
    """As it was when the event happened, so that a second sending says the same."""
    if event.operation_id is None or event.operation_kind not in _STARTUPS:
        return None
    startup: dict[str, Any] = {"operationId": event.operation_id, "kind": event.operation_kind}
    if event.startup_phases:  # an event that an older version stored has none
        phases = [{"status": status, "at": timestamp(at)} for status, at in event.startup_phases]
        startup |= {"status": phases[-1]["status"], "startedAt": phases[0]["at"], "phases": phases}
    return startup


def _error(fault: Fault) -> dict[str, Any]:
    details = {"details": dict(fault.details)} if fault.details else {}
    return {"code": fault.code, "message": fault.message, **details}


def _data(event: Event) -> dict[str, Any]:
    correlation = {"correlationId": event.correlation_id} if event.correlation_id else {}
    return {**(event.data or {}), **correlation}


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
