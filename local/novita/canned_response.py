"""A response that a control call sets, for a webhook receiver or for the application inside a machine."""

import asyncio
import json
from typing import Any

from aiohttp import web
from pydantic import Field, field_validator

from local.novita import connections
from local.novita.wire import Wire

FOREVER = -1


class CannedResponse(Wire):
    status: int = Field(default=200, ge=200, le=599)
    headers: dict[str, str] = Field(default={})
    body: Any = ""
    delay_ms: int = Field(default=0, ge=FOREVER)
    endless: bool = False
    reset: bool = False
    times: int | None = Field(default=None, ge=1)
    after_seconds: float = Field(default=0, ge=0)

    @field_validator("headers")
    @classmethod
    def _one_line_each(cls, headers: dict[str, str]) -> dict[str, str]:
        if any(set("\r\n\0") & set(name + value) for name, value in headers.items()):
            raise ValueError("a header has a line break")
        return headers


async def send(request: web.Request, answer: CannedResponse) -> web.StreamResponse:
    if answer.delay_ms == FOREVER:
        await connections.hold(request)
        return connections.reset(request)
    await asyncio.sleep(answer.delay_ms / 1000)
    if answer.reset:
        return connections.reset(request)
    if answer.endless:
        return await connections.flood(request, answer.status, answer.headers)
    return web.Response(status=answer.status, headers=_headers(answer), body=_bytes(answer.body))


def _headers(answer: CannedResponse) -> dict[str, str]:
    if any(name.lower() == "content-type" for name in answer.headers):
        return answer.headers
    kind = "text/plain; charset=utf-8" if isinstance(answer.body, str) else "application/json"
    return {"Content-Type": kind, **answer.headers}


def _bytes(body: Any) -> bytes:
    return body.encode() if isinstance(body, str) else json.dumps(body).encode()
