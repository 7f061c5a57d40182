"""The control calls of the simulator itself: health, reset, settings, clock, faults, calls."""

import json
from typing import Any

from aiohttp import web
from pydantic import Field

from local.novita.clock import Clock, Mode
from local.novita.context import context_of
from local.novita.faults import FaultBody, Handler
from local.novita.settings import Settings
from local.novita.wire import InputError, Wire, parse

routes = web.RouteTableDef()


class ClockChange(Wire):
    mode: Mode | None = None
    now: float | None = Field(default=None, ge=0)
    advance_seconds: float | None = Field(default=None, ge=0)


@web.middleware
async def format_control_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except InputError as bad:
        return web.json_response({"error": str(bad)}, status=400)
    except web.HTTPException as error:
        what = f"no control call {request.method} {request.path}"
        return web.json_response({"error": what}, status=error.status)


async def json_object(request: web.Request) -> dict[str, Any]:
    try:
        body = json.loads(await request.read() or b"{}")
    except (ValueError, RecursionError) as error:
        raise InputError(f"the body is not JSON: {error}") from None
    if not isinstance(body, dict):
        raise InputError("the body is not a JSON object")
    return body


@routes.get("/health")
async def health(_: web.Request) -> web.Response:
    return web.json_response({"status": "ok"})


@routes.post("/reset")
async def reset(request: web.Request) -> web.Response:
    context_of(request).reset()
    return web.json_response({})


@routes.get("/settings")
async def get_settings(request: web.Request) -> web.Response:
    return web.json_response(context_of(request).state.settings.to_json())


@routes.put("/settings")
async def put_settings(request: web.Request) -> web.Response:
    """Only what is named changes, and nothing if any of it is wrong."""
    change = await json_object(request)
    state = context_of(request).state
    state.settings = parse(Settings, {**state.settings.to_json(), **change})
    return web.json_response(state.settings.to_json())


@routes.get("/clock")
async def get_clock(request: web.Request) -> web.Response:
    return _shown(context_of(request).state.clock)


@routes.post("/clock")
async def set_clock(request: web.Request) -> web.Response:
    change = parse(ClockChange, await json_object(request))
    if not change.model_fields_set:
        raise InputError("give advanceSeconds, now or mode")
    clock = context_of(request).state.clock
    if change.mode is not None:
        clock.run(change.mode)
    if change.now is not None:
        clock.set(change.now)
    if change.advance_seconds is not None:
        clock.advance(change.advance_seconds)
    return _shown(clock)


@routes.post("/faults")
async def add_fault(request: web.Request) -> web.Response:
    what = parse(FaultBody, await json_object(request))
    return web.json_response(context_of(request).faults.add(what).to_json(), status=201)


@routes.get("/faults")
async def get_faults(request: web.Request) -> web.Response:
    return web.json_response({"faults": [fault.to_json() for fault in context_of(request).faults.pending]})


@routes.delete("/faults")
async def clear_faults(request: web.Request) -> web.Response:
    return web.json_response({"cleared": context_of(request).faults.clear()})


@routes.delete("/faults/{id}")
async def clear_fault(request: web.Request) -> web.Response:
    id_ = request.match_info["id"]
    if not context_of(request).faults.clear(id_):
        raise InputError(f"fault {id_} is not known")
    return web.json_response({"cleared": 1})


@routes.get("/calls")
async def get_calls(request: web.Request) -> web.Response:
    unknown = set(request.query) - {"path", "method"}
    if unknown:
        raise InputError(f"{min(unknown)}: not known, give path or method")
    calls = context_of(request).calls
    found = calls.matching(request.query.get("path", ""), request.query.get("method", ""))
    return web.json_response({"calls": [call.to_json() for call in found], "received": calls.received})


@routes.delete("/calls")
async def clear_calls(request: web.Request) -> web.Response:
    context_of(request).calls.clear()
    return web.json_response({})


def _shown(clock: Clock) -> web.Response:
    return web.json_response({"now": clock.now(), "mode": clock.mode})
