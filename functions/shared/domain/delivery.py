"""What follows from one attempt to deliver a webhook."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

LONGEST_RETRY_AFTER = timedelta(hours=24)
_JITTER = 0.1


@dataclass(frozen=True)
class Delivered:
    pass


@dataclass(frozen=True)
class Ended:
    """The receiver wants no more of it, ever."""

    reason: str


@dataclass(frozen=True)
class Again:
    at: datetime


@dataclass(frozen=True)
class Exhausted:
    pass


Verdict = Delivered | Ended | Again | Exhausted


def read_waits(text: str) -> tuple[float, ...]:
    """The setting WEBHOOK_WAITS, read: seconds between attempts."""
    waits = tuple(float(part) for part in text.split(",") if part.strip())
    if not all(0 <= wait <= 604_800 for wait in waits):  # NaN fails this too
        raise ValueError("each wait must be between 0 and 604800 seconds")
    return waits


def judge_answer(
    status: int | None,
    headers: Mapping[str, str],
    *,
    now: datetime,
    attempt: int,
    waits: Sequence[float],
    random: Callable[[], float],
) -> Verdict:
    """`attempt` is the one just made, from 1; `status` is None where no answer came.

    A receiver's Retry-After can make the wait longer than the schedule's, never shorter.
    """
    if status is not None and 200 <= status < 300:
        return Delivered()
    if status == 410:
        return Ended("410")
    if attempt > len(waits):
        return Exhausted()
    wait = timedelta(seconds=waits[attempt - 1] * (1 - _JITTER + 2 * _JITTER * random()))
    asked = _retry_after(headers, now) if status in (429, 503) else timedelta()
    return Again(now + max(wait, min(asked, LONGEST_RETRY_AFTER)))


def _retry_after(headers: Mapping[str, str], now: datetime) -> timedelta:
    text = next((value.strip() for name, value in headers.items() if name.lower() == "retry-after"), "")
    if text.isascii() and text.isdigit():
        return timedelta(seconds=int(text)) if len(text) < 9 else LONGEST_RETRY_AFTER
    try:
        date = parsedate_to_datetime(text)
    except ValueError:
        return timedelta()
    return (date if date.tzinfo else date.replace(tzinfo=UTC)) - now
