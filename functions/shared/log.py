"""Structured logs that carry the correlation id, which travels with everything that follows a request."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from aws_lambda_powertools import Logger

logger = Logger(service="ostler", serialize_stacktrace=False)

_correlation: ContextVar[str] = ContextVar("correlation", default="")


def correlation_id() -> str:
    return _correlation.get()


@contextmanager
def correlated(value: str, **keys: str) -> Iterator[None]:
    """Everything logged or sent within carries this correlation id (and these keys in the log)."""
    token = _correlation.set(value)
    with logger.append_context_keys(correlation_id=value, **keys):
        try:
            yield
        finally:
            _correlation.reset(token)
