"""Structured logs that carry the correlation id, which travels with everything that follows a request."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from aws_lambda_powertools import Logger

logger = Logger(service="ostler", serialize_stacktrace=False)

_keys: ContextVar[dict[str, str]] = ContextVar("keys")


def correlation_id() -> str:
    return _keys.get({}).get("correlation_id", "")


@contextmanager
def correlated(value: str, **keys: str) -> Iterator[None]:
    """Everything logged or sent within carries this correlation id (and these keys in the log).

    What was carried before is carried again afterwards, which Powertools' own context keys are not.
    """
    outer = _keys.get({})
    inner = {**outer, "correlation_id": value, **keys}
    token = _keys.set(inner)
    logger.append_keys(**inner)
    try:
        yield
    finally:
        _keys.reset(token)
        logger.remove_keys(inner.keys() - outer.keys())
        logger.append_keys(**outer)
