"""What a fault does to a call, once it is decided that it strikes."""

import asyncio
from collections.abc import Awaitable, Callable

from aiohttp import web

from local.novita import connections
from local.novita.errors import error_body, reason_for
from local.novita.faults import FaultBody

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
UNANSWERED = "unanswered"

HTML = "<html><head><title>502 Bad Gateway</title></head><body><h1>502 Bad Gateway</h1></body></html>"
NAMED = {
    "html": (HTML, "text/html"),
    "list": ('[{"id": "8097f1658f3e6ad1"}]', "application/json"),
    "empty": ("", "application/json"),
}
WHOLE = b'{"id": "8097f1658f3e6ad1", "instances": [{"id": "8097f1658f3e6ad1", "status": "running"}]}'


async def strike(fault: FaultBody, request: web.Request, handler: Handler) -> web.StreamResponse:
    """With `commit` the work is done first and the answer is lost; without, nothing was done."""
    if fault.kind == "slow":
        return await _slow(fault, request, handler)
    answer = await handler(request) if fault.commit else None
    if fault.kind == "timeout":
        await connections.hold(request, None if fault.delay_ms is None else fault.delay_ms / 1000)
        return _silent(request)
    await asyncio.sleep((fault.delay_ms or 0) / 1000)
    if fault.kind == "disconnect":
        return _silent(request)
    if fault.kind == "garbage":
        return await _garbage(fault, request, answer)
    return _refusal(fault)


async def _slow(fault: FaultBody, request: web.Request, handler: Handler) -> web.StreamResponse:
    """The work is done after the wait, even for a client that has gone; with `commit` before it."""
    seconds = (fault.delay_ms or 0) / 1000
    if not fault.commit:
        await asyncio.sleep(seconds)
        return await handler(request)
    answer = await handler(request)
    await asyncio.sleep(seconds)
    return answer


def _silent(request: web.Request) -> web.Response:
    request[UNANSWERED] = True
    return connections.reset(request)


def _refusal(fault: FaultBody) -> web.Response:
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
    whole = real or WHOLE
    if fault.body == "cut":
        return await connections.cut_off(request, whole)
    if fault.body == "truncated":
        half = whole[: len(whole) // 2].decode(errors="ignore")
        return _text(status, half, fault.content_type or "application/json")
    text, kind = NAMED.get(fault.body, (fault.body, "text/plain"))
    return _text(status, text, fault.content_type or kind)


def _text(status: int, text: str, content_type: str) -> web.Response:
    return web.Response(status=status, body=text.encode(), headers={"Content-Type": content_type})
