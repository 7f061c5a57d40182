"""The middleware of every API call, from outside in: call log, latency, faults, errors, key, rate limit."""

import asyncio
import json
import sys
import traceback
from typing import Any

from aiohttp import web

from local.novita.context import STATE, context_of, state_of
from local.novita.errors import ApiError, error_body
from local.novita.faults import ACCOUNT, UNANSWERED, Handler, apply_fault

CALL = "call"


@web.middleware
async def record_call(request: web.Request, handler: Handler) -> web.StreamResponse:
    context = context_of(request)
    request[STATE] = context.state
    call = context.calls.begin(request, await request.read(), context.state.clock.now())
    request[CALL] = call
    response = await handler(request)
    call.status = None if request.get(UNANSWERED) else response.status
    return response


@web.middleware
async def add_latency(request: web.Request, handler: Handler) -> web.StreamResponse:
    latency_ms = state_of(request).settings.latency_ms
    if latency_ms:
        await asyncio.sleep(latency_ms / 1000)
    return await handler(request)


@web.middleware
async def inject_fault(request: web.Request, handler: Handler) -> web.StreamResponse:
    body = (await request.read()).decode(errors="replace")
    faults = context_of(request).faults
    fault = faults.next_for(request.method, request.path, request.query_string, body)
    if fault is None:
        return await handler(request)
    request[CALL].fault = fault.id
    return await apply_fault(fault.what, request, handler)


@web.middleware
async def format_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except ApiError as error:
        return error_response(request, error)
    except web.HTTPException as error:
        # An unknown path is answered by Novita's router, which knows nothing of error bodies.
        return web.Response(status=error.status, text=f"{error.status} {error.reason.lower()}")
    except Exception:  # noqa: BLE001  # a fault of the simulator itself must not look like one of the network
        traceback.print_exc(file=sys.stderr)
        return error_response(request, ApiError("UNKNOWN", "the simulator failed, see its stderr"))


@web.middleware
async def check_key(request: web.Request, handler: Handler) -> web.StreamResponse:
    scheme, _, key = request.headers.get("Authorization", "").partition(" ")
    rejected = state_of(request).settings.rejected_keys
    if scheme.lower() != "bearer" or not key.strip() or key.strip() in rejected:
        raise ApiError("UNAUTHORIZED", "invalid api key")
    request.setdefault(ACCOUNT, state_of(request).settings.accounts.get(key.strip(), ""))
    return await handler(request)


@web.middleware
async def enforce_rate_limit(request: web.Request, handler: Handler) -> web.StreamResponse:
    state = state_of(request)
    settings = state.settings
    context_of(request).limiter.take(
        state.clock.now(), settings.rate_limit_per_minute, settings.retry_after_on429
    )
    return await handler(request)


MIDDLEWARES = (record_call, add_latency, inject_fault, format_errors, check_key, enforce_rate_limit)


def error_response(request: web.Request, error: ApiError) -> web.Response:
    status = error.status(state_of(request).settings.not_found_as)
    headers = {} if error.retry_after is None else {"Retry-After": str(error.retry_after)}
    body = error_body(status, error.reason, error.message)
    return web.json_response(body, status=status, headers=headers)


async def json_body(request: web.Request) -> Any:
    try:
        return json.loads(await request.read())
    except (ValueError, RecursionError):
        raise ApiError("VALIDATOR_PARAM", "the body is not JSON") from None
