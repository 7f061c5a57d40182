"""The request being answered: who asks, and the use cases that may answer."""

from contextvars import ContextVar
from typing import Any, TypeVar

from functions.api.auth import Caller
from functions.shared.platform.invocation import Invocation
from functions.shared.platform.wiring import Wiring
from functions.shared.stores.idempotency import IdempotentRequest, idempotent_request

T = TypeVar("T")

_run: ContextVar[Invocation] = ContextVar("run")
_caller: ContextVar[Caller] = ContextVar("caller")


def enter(run: Invocation, who: Caller) -> None:
    _run.set(run)
    _caller.set(who)


def invocation() -> Invocation:
    return _run.get()


def use_case(kind: type[T]) -> T:
    return _run.get().compose(kind)


def wired() -> Wiring:
    """For what is only read from a store and shown."""
    return _run.get().wiring


def caller() -> Caller:
    return _caller.get()


def idempotent(route: str, key: str | None, body: Any) -> IdempotentRequest | None:
    """What an Idempotency-Key stands for: this caller, this route, this body."""
    return idempotent_request(caller().id, route, key, body) if key else None
