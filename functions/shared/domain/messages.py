"""What goes through the queues: messages that a step or an attempt is due, and dead letters."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

from functions.shared.domain.errors import Fault
from functions.shared.domain.instance.record import Queue

LONGEST_DELAY = timedelta(minutes=15)  # of a message: SQS's own limit
_LONGEST = 255


class UnreadableMessage(ValueError):
    """The body is none of ours."""


@dataclass(frozen=True)
class StepMessage:
    """Take the next step of an instance, if it is still at this token."""

    instance_id: str
    token: str
    correlation_id: str

    def as_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "StepMessage":
        found = _read(text)
        return cls(_word(found, "instance_id"), _word(found, "token"), _correlation(found))


_LOOK = "look"  # in place of a token: it is none, so that a look is never taken for a step


@dataclass(frozen=True)
class LookMessage:
    """Look whether machines have come up, between the steps of those that wait for them.

    A step plans it, with all others until that instance's next step; a look itself sends none.
    """

    instance_id: str  # whose step planned it
    correlation_id: str
    at: datetime
    number: int  # of the moments at which there may be a look

    def as_json(self) -> str:
        when = {"at": int(self.at.timestamp() * 1000), "number": self.number}
        about = {"instance_id": self.instance_id, "correlation_id": self.correlation_id}
        return json.dumps({**about, "token": _LOOK, "look": when})

    @classmethod
    def from_json(cls, text: str) -> "LookMessage | None":
        """None where it is another message."""
        found = _read(text)
        if "look" not in found:
            return None
        when = found["look"]
        if not isinstance(when, dict) or not all(isinstance(when.get(one), int) for one in ("at", "number")):
            raise UnreadableMessage("look has no time or number")
        at = datetime.fromtimestamp(when["at"] / 1000, UTC)
        return cls(_word(found, "instance_id"), _correlation(found), at, when["number"])


@dataclass(frozen=True)
class DeliveryMessage:
    """Make this attempt of a webhook delivery, unless it has been claimed."""

    delivery_id: str
    attempt: int
    correlation_id: str

    def as_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "DeliveryMessage":
        found = _read(text)
        attempt = found.get("attempt")
        if not isinstance(attempt, int):
            raise UnreadableMessage("attempt is no number")
        return cls(_word(found, "delivery_id"), attempt, _correlation(found))


def correlation_of(text: str) -> str:
    """The correlation id of any message, or none where the body is none of ours."""
    try:
        return _correlation(_read(text))
    except UnreadableMessage:
        return ""


def _read(text: str) -> Mapping[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise UnreadableMessage("the body is not JSON") from None
    if not isinstance(found, dict):
        raise UnreadableMessage("the body is no object")
    return found


def _word(found: Mapping[str, Any], name: str) -> str:
    """Fit to be a key: half a surrogate pair, which JSON can hold and the table cannot, is not printable."""
    value = found.get(name)
    if not isinstance(value, str) or not 0 < len(value) <= _LONGEST or not value.isprintable():
        raise UnreadableMessage(f"{name} is missing or unfit")
    return value


def _correlation(found: Mapping[str, Any]) -> str:
    return _word(found, "correlation_id") if found.get("correlation_id") else ""


class JobOutcome(StrEnum):
    """What became of a job, which is a message."""

    DONE = "done"  # the step or attempt was made, or was out of date
    REFUSED = "refused"  # for good: the instance or its start failed by it, or the receiver wants no more
    GAVE_UP = "gaveUp"  # its time was over, or its attempts
    RETRIED = "retried"  # it failed, and comes again
    DEAD = "dead"  # it failed for the last time


WEBHOOK_QUEUE = "webhook"
UNKNOWN_QUEUE = "unknown"  # a queue that is none of ours
_SHOWN_CHARACTERS = 500

# How often a queue hands out a message beyond the failures that are allowed: AWS also counts deliveries that
# were throttled before the function began, and those that it did not live to fail.
MORE_DELIVERIES = 4


@dataclass(frozen=True)
class JobFailure:
    """What the last attempt ended with."""

    error: str  # the exception's class; empty where nobody lived to name it
    fault: Fault
    attempts: int  # that failed; where nobody lived to fail, that were made
    at: datetime


@dataclass(frozen=True)
class DeadLetter:
    id: str
    message_id: str
    queue: str
    failure: JobFailure
    instance_id: str | None = None
    delivery_id: str | None = None
    token: str | None = None
    correlation_id: str = ""
    body: str | None = None  # the beginning, where it is none of ours
    redriven_at: datetime | None = None

    @property
    def stops(self) -> Queue | None:
        """The queue in which an instance stands still because of it."""
        return Queue(self.queue) if self.queue in list(Queue) and self.instance_id else None


def read_dead_letter(message_id: str, queue: str, body: str, failure: JobFailure) -> DeadLetter:
    """Whatever the body is: one that cannot be read is kept too."""
    try:
        if queue == WEBHOOK_QUEUE:
            attempt = DeliveryMessage.from_json(body)
            return DeadLetter(
                f"dead_{message_id}",
                message_id,
                queue,
                failure,
                delivery_id=attempt.delivery_id,
                correlation_id=attempt.correlation_id,
            )
        step = StepMessage.from_json(body)
    except UnreadableMessage:
        shown = body.encode("utf-8", "replace").decode()[:_SHOWN_CHARACTERS]
        return DeadLetter(f"dead_{message_id}", message_id, queue, failure, body=shown)
    # In `monitor` the sweep sends again until the deadline: one dead letter for the step, not many.
    repeats = queue == Queue.MONITOR
    return DeadLetter(
        f"dead_{step.instance_id}_{step.token}" if repeats else f"dead_{message_id}",
        message_id,
        queue,
        failure,
        instance_id=step.instance_id,
        token=step.token,
        correlation_id=step.correlation_id,
    )


def unknown_failure(max_retry_attempts: int, now: datetime) -> JobFailure:
    """Of a message that SQS gave up: functions died over it, out of time or out of memory, or never began."""
    fault = Fault("INTERNAL_ERROR", "The function ended without saying why, as when it runs out of time")
    return JobFailure("", fault, max_retry_attempts + 1 + MORE_DELIVERIES, now)
