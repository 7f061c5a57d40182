"""Secrets out of what is shown: passwords, logins and the values of variables."""

from typing import Any

MASK = "***"
SECRET_FIELDS = frozenset({"password", "imageAuth"})


def masked(value: Any) -> Any:
    if isinstance(value, list):
        return [masked(item) for item in value]
    if not isinstance(value, dict):
        return value
    if isinstance(value.get("key"), str) and "value" in value:
        return {**value, "value": MASK}
    return {name: _field(name, item) for name, item in value.items()}


def _field(name: str, item: Any) -> Any:
    return MASK if name in SECRET_FIELDS and item else masked(item)
