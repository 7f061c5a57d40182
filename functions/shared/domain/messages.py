"""What goes through the queues: hints that a step is due, never the truth about it."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

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
