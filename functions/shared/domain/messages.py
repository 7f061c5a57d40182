"""What goes through the queues: hints that a step is due, never the truth about it."""

import json
from dataclasses import asdict, dataclass


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
        return cls(**json.loads(text))


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
        return cls(**json.loads(text))
