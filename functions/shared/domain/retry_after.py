"""The Retry-After header: seconds or a date, and nonsense survived."""

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime


def seconds(header: str | None, now: datetime, longest: float) -> float | None:
    """None where it says nothing; never more than `longest`, for a header may be wrong."""
    text = (header or "").strip()
    wait = float(text) if text.isascii() and text.isdigit() else _until(text, now)
    return None if wait is None else min(max(wait, 0.0), longest)


def _until(text: str, now: datetime) -> float | None:
    if len(text) > 64:
        return None
    try:
        when = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    return (when.replace(tzinfo=when.tzinfo or UTC) - now).total_seconds()
