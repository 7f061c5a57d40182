"""Single values of Novita's payloads, read liberally: numbers as text, "0" for never, nonsense as nothing."""

from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

_EXPONENTS = range(-15, 15)  # of any number that means something here; 1e999999 is an attack on arithmetic
_UNITS_PER_USD = 100_000
_MILLISECONDS_FROM = 10**11


def text(value: Any) -> str:
    if isinstance(value, str):
        return value.strip()
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else ""


def decimal(value: Any) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str) or len(str(value)) > 40:
        return None
    try:
        number = Decimal(str(value).strip())
    except InvalidOperation:
        return None
    return number if number.is_finite() and number.adjusted() in _EXPONENTS else None


def integer(value: Any) -> int | None:
    number = decimal(value)
    return int(number) if number is not None and number == number.to_integral_value() else None


def usd(value: Any) -> Decimal | None:
    """Prices are in 1/100,000 USD; one that is not above zero is none."""
    number = decimal(value)
    return number / _UNITS_PER_USD if number is not None and number > 0 else None


def moment(value: Any) -> datetime | None:
    """Unix seconds, mostly as text; "0" and "-1" are never."""
    seconds = integer(value)
    if seconds is None or seconds <= 0:
        return None
    try:
        return datetime.fromtimestamp(seconds / 1000 if seconds >= _MILLISECONDS_FROM else seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def flag(value: Any, default: bool) -> bool:
    if isinstance(value, bool):
        return value
    return {"true": True, "1": True, "false": False, "0": False}.get(text(value).lower(), default)


def objects(value: Any) -> list[dict[str, Any]]:
    """The readable entries of what should be a list of objects."""
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
