"""A record of every API call, secrets masked."""

import json
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from local.novita.masking import MASK, masked

MOST_KEPT = 50_000
SHOWN_HEADERS = ("X-Request-ID", "X-Correlation-ID", "User-Agent", "Content-Type")


@dataclass
class Call:
    id: int
    time: float
    method: str
    path: str
    query: dict[str, str]
    body: Any
    headers: dict[str, str]
    status: int | None = None
    fault: str | None = None

    def to_json(self) -> dict[str, Any]:
        return dict(vars(self))


@dataclass
class Calls:
    kept: deque[Call] = field(default_factory=lambda: deque(maxlen=MOST_KEPT))
    received: int = 0

    def begin(self, request: web.Request, body: bytes, now: float) -> Call:
        """`status` stays empty until the call is answered, and for good if it never is."""
        self.received += 1
        call = Call(
            id=self.received,
            time=now,
            method=request.method,
            path=request.path,
            query=masked(dict(request.query)),
            body=shown_body(body),
            headers=_shown_headers(request),
        )
        self.kept.append(call)
        return call

    def matching(self, path: str, method: str) -> Iterable[Call]:
        return (c for c in self.kept if c.path.endswith(path) and method.upper() in ("", c.method))

    def clear(self) -> None:
        self.kept.clear()
        self.received = 0


def shown_body(body: bytes) -> Any:
    if not body:
        return None
    try:
        return masked(json.loads(body))
    except (ValueError, RecursionError):
        return f"not JSON, {len(body)} bytes"


def _shown_headers(request: web.Request) -> dict[str, str]:
    shown = {name: request.headers[name] for name in SHOWN_HEADERS if name in request.headers}
    if "Authorization" in request.headers:
        scheme = request.headers["Authorization"].partition(" ")[0]
        shown["Authorization"] = f"{scheme} {MASK}" if scheme.lower() == "bearer" else MASK
    return shown
