"""The Retry-After header: seconds or a date, and nonsense survived."""

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

LONGEST_SECONDS = 3600.0  # a wrong header must not stop the fleet for longer


def seconds(header: str | None, now: datetime) -> float | None:
    if header is None or len(header) > 64:
        return None
    text = header.strip()
    wait = float(text) if text.isascii() and text.isdigit() else _until(text, now)
    return None if wait is None else min(max(wait, 0.0), LONGEST_SECONDS)


def _until(text: str, now: datetime) -> float | None:
    try:
        when = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    return (when.replace(tzinfo=when.tzinfo or UTC) - now).total_seconds()
