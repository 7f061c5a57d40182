"""A message that failed for the last time, and why."""

from dataclasses import dataclass
from datetime import datetime

from functions.shared.domain.instance import Fault, Queue
from functions.shared.domain.messages import DeliveryMessage, StepMessage, UnreadableMessage

WEBHOOK = "webhook"
UNKNOWN = "unknown"  # a queue that is none of ours
_SHOWN_CHARACTERS = 500


@dataclass(frozen=True)
class Failure:
    """What the last attempt ended with."""

    error: str  # the exception's class; empty where nobody lived to name it
    fault: Fault
    attempts: int
    at: datetime


@dataclass(frozen=True)
class DeadLetter:
    id: str
    message_id: str
    queue: str
    failure: Failure
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


def read_letter(message_id: str, queue: str, body: str, failure: Failure) -> DeadLetter:
    """Whatever the body is: one that cannot be read is kept too."""
    try:
        if queue == WEBHOOK:
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
    # Elsewhere the instance fails, and no more follow; here the sweep goes on sending until the deadline.
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


def unsaid(attempts: int, now: datetime) -> Failure:
    """Of a function that died in its last attempt: out of time, out of memory, or never begun."""
    fault = Fault("INTERNAL_ERROR", "The function ended without saying why, as when it runs out of time")
    return Failure("", fault, attempts, now)
