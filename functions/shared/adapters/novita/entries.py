"""The entries of an answer that holds a list; one that cannot be read is left out and counted."""

from collections.abc import Callable
from typing import Any, TypeVar

from functions.shared.adapters.novita.calls import Call
from functions.shared.adapters.novita.failures import unreadable
from functions.shared.log import logger

T = TypeVar("T")


def entries(call: Call, body: dict[str, Any], key: str, read: Callable[[Any], T | None]) -> tuple[T, ...]:
    """An answer without the list is no answer: nothing must look sold out or gone because of it."""
    given = body.get(key, ...)
    if given is None:
        return ()
    if not isinstance(given, list):
        raise unreadable(call)
    found = tuple(entry for entry in map(read, given) if entry is not None)
    if len(found) < len(given):
        skipped = {"call": call.path, "skipped": len(given) - len(found), "of": len(given)}
        logger.warning("entries of novita's answer could not be read", extra=skipped)
    if given and not found:  # as good as without the list
        raise unreadable(call)
    return found
