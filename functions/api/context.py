"""The request being answered: its wiring and its caller."""

from contextvars import ContextVar
from typing import Any

from functions.api.auth import Caller
from functions.shared.platform.wiring import Wiring
from functions.shared.stores.idempotency import IdempotentRequest, idempotent_request

_wired: ContextVar[Wiring] = ContextVar("wired")
_caller: ContextVar[Caller] = ContextVar("caller")


def enter(wiring: Wiring, who: Caller) -> None:
    _wired.set(wiring)
    _caller.set(who)


def wired() -> Wiring:
    return _wired.get()


def caller() -> Caller:
    return _caller.get()


def idempotent(route: str, key: str | None, body: Any) -> IdempotentRequest | None:
    """What an Idempotency-Key stands for: this caller, this route, this body."""
    return idempotent_request(caller().id, route, key, body) if key else None
