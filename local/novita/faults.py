"""Fault injection: which call a fault applies to, how often, and what it then does."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any, Literal

from aiohttp import web
from pydantic import Field, field_validator

from local.novita import connections
from local.novita.errors import error_body, reason_for
from local.novita.wire import Wire

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Kind = Literal["status", "timeout", "disconnect", "garbage", "slow", "account", "stale"]
# What a call carries with it.
UNANSWERED = "unanswered"
ACCOUNT = "account"
LIST_AGE = "list age"

HTML_ERROR = "<html><head><title>502 Bad Gateway</title></head><body><h1>502 Bad Gateway</h1></body></html>"
NAMED_BODIES = {
    "html": (HTML_ERROR, "text/html"),
    "list": ('[{"id": "8097f1658f3e6ad1"}]', "application/json"),
    "empty": ("", "application/json"),
}
SAMPLE_BODY = b'{"id": "8097f1658f3e6ad1", "instances": [{"id": "8097f1658f3e6ad1", "status": "running"}]}'


class Match(Wire):
    """What is given must hold; `path` is how the path ends, `query` and `body` occur in theirs."""

    method: str = ""
    path: str = ""
    query: str = ""
    body: str = ""

    def matches(self, method: str, path: str, query: str, body: str) -> bool:
        return (
            self.method.upper() in ("", method.upper())
            and path.endswith(self.path)
            and self.query in query
            and self.body in body
        )


class FaultBody(Wire):
    match: Match = Match()
    kind: Kind
    status: int | None = Field(default=None, ge=200, le=599)
    reason: str | None = None
    message: str = "simulated fault"
    retry_after: int | str | None = None
    delay_ms: int | None = Field(default=None, ge=0)
    commit: bool = False
    times: int | None = Field(default=None, ge=1)
    rate: float = Field(default=1, gt=0, le=1)
    seed: int = 0
    # For garbage: html, truncated, cut, list, empty, or any other text as it is; or so many bytes.
    body: str = "html"
    bytes: int | None = Field(default=None, ge=0, le=1_000_000_000)
    content_type: str | None = None
    account: str = "another"  # for account: whose machines the call is taken to be about
    age_seconds: float = Field(default=86_400, ge=0)  # for stale: how old the list is

    @field_validator("retry_after", "content_type", "reason")
    @classmethod
    def _one_line(cls, value: int | str | None) -> int | str | None:
        if isinstance(value, str) and set("\r\n\0") & set(value):
            raise ValueError("has a line break")
        return value


@dataclass
class Fault:
    id: str
    what: FaultBody
    matched: int = 0
    applied: int = 0
    random: Random = field(init=False)

    def __post_init__(self) -> None:
        self.random = Random(self.what.seed)

    def draw(self) -> bool:
        """Whether it applies this time; a draw is made for every call that it matches."""
        if self.what.times is not None and self.applied >= self.what.times:
            return False
        self.matched += 1
        applies = self.what.rate >= 1 or self.random.random() < self.what.rate
        self.applied += applies
        return applies

    def to_json(self) -> dict[str, Any]:
        return {"id": self.id, **self.what.to_json(), "met": self.matched, "applied": self.applied}


@dataclass
class Faults:
    pending: list[Fault] = field(default_factory=list)
    made: int = 0

    def add(self, what: FaultBody) -> Fault:
        self.made += 1
        fault = Fault(f"fault-{self.made}", what)
        self.pending.append(fault)
        return fault

    def clear(self, id_: str | None = None) -> int:
        kept = [fault for fault in self.pending if id_ not in (None, fault.id)]
        cleared = len(self.pending) - len(kept)
        self.pending = kept
        return cleared

    def next_for(self, method: str, path: str, query: str, body: str) -> Fault | None:
        """The first that matches the call and applies."""
        matching = (fault for fault in self.pending if fault.what.match.matches(method, path, query, body))
        return next((fault for fault in matching if fault.draw()), None)


async def apply_fault(fault: FaultBody, request: web.Request, handler: Handler) -> web.StreamResponse:
    """With `commit` the work is done first and the answer is lost; without, nothing was done."""
    if fault.kind in ("account", "stale"):  # a lie that looks like any other answer
        name, value = (ACCOUNT, fault.account) if fault.kind == "account" else (LIST_AGE, fault.age_seconds)
        request[name] = value
        return await handler(request)
    if fault.kind == "slow":
        return await _slow(fault, request, handler)
    answer = await handler(request) if fault.commit else None
    if fault.kind == "timeout":
        await connections.hold(request, None if fault.delay_ms is None else fault.delay_ms / 1000)
        return _drop_connection(request)
    await asyncio.sleep((fault.delay_ms or 0) / 1000)
    if fault.kind == "disconnect":
        return _drop_connection(request)
    if fault.kind == "garbage":
        return await _garbage(fault, request, answer)
    return _error_response(fault)


async def _slow(fault: FaultBody, request: web.Request, handler: Handler) -> web.StreamResponse:
    """The work is done after the wait, even for a client that has gone; with `commit` before it."""
    seconds = (fault.delay_ms or 0) / 1000
    if not fault.commit:
        await asyncio.sleep(seconds)
        return await handler(request)
    answer = await handler(request)
    await asyncio.sleep(seconds)
    return answer


def _drop_connection(request: web.Request) -> web.Response:
    request[UNANSWERED] = True
    return connections.reset(request)


def _error_response(fault: FaultBody) -> web.Response:
    status = fault.status or 500
    headers = {} if fault.retry_after is None else {"Retry-After": str(fault.retry_after)}
    body = error_body(status, fault.reason or reason_for(status), fault.message)
    return web.json_response(body, status=status, headers=headers)


async def _garbage(
    fault: FaultBody, request: web.Request, answer: web.StreamResponse | None
) -> web.StreamResponse:
    status = fault.status or 200
    if fault.bytes is not None:
        return await connections.fill(request, status, fault.bytes, fault.content_type or "application/json")
    real = answer.body if isinstance(answer, web.Response) and isinstance(answer.body, bytes) else b""
    whole = real or SAMPLE_BODY
    if fault.body == "cut":
        return await connections.cut_off(request, whole)
    if fault.body == "truncated":
        half = whole[: len(whole) // 2].decode(errors="ignore")
        return _text_response(status, half, fault.content_type or "application/json")
    text, kind = NAMED_BODIES.get(fault.body, (fault.body, "text/plain"))
    return _text_response(status, text, fault.content_type or kind)


def _text_response(status: int, text: str, content_type: str) -> web.Response:
    return web.Response(status=status, body=text.encode(), headers={"Content-Type": content_type})
