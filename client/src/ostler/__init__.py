"""Ostler from Python: `Ostler(url, key)`. What is heavy is imported when it is first used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ostler.client import Ostler
    from ostler.errors import ApiError, InstanceFailed, OstlerError, Unreachable, WaitTimeout
    from ostler.waiting import Progress

__version__ = "0.1.0"

__all__ = ["ApiError", "InstanceFailed", "Ostler", "OstlerError", "Progress", "Unreachable", "WaitTimeout"]

_HOMES = {"Ostler": "ostler.client", "Progress": "ostler.waiting"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'ostler' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES.get(name, "ostler.errors")), name)
