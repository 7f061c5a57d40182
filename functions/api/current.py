"""The request being answered: its wiring and its caller, for routes to build their use cases from."""

from contextvars import ContextVar
from typing import Any

from functions.api.caller import Caller
from functions.shared.adapters.answers import Question, question
from functions.shared.wiring import Wiring

_wired: ContextVar[Wiring] = ContextVar("wired")
_caller: ContextVar[Caller] = ContextVar("caller")


def enter(wiring: Wiring, who: Caller) -> None:
    _wired.set(wiring)
    _caller.set(who)


def wired() -> Wiring:
    return _wired.get()


def caller() -> Caller:
    return _caller.get()


def asked(route: str, key: str | None, body: Any) -> Question | None:
    """What an Idempotency-Key stands for: this caller, this route, this body."""
    return question(caller().id, route, key, body) if key else None
