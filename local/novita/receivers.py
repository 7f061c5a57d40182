"""The routes that others call: webhook receivers, and the applications inside the machines."""

import json

from aiohttp import web

from local.novita.apps import AppStats, app_response
from local.novita.canned_response import CannedResponse, send
from local.novita.context import context_of
from local.novita.control import json_object
from local.novita.inbox import Inbox
from local.novita.wire import InputError, parse

routes = web.RouteTableDef()


@routes.get("/inbox/{box}/messages", allow_head=False)
async def get_messages(request: web.Request) -> web.Response:
    return web.json_response({"messages": [message.to_json() for message in _inbox(request).messages]})


@routes.delete("/inbox/{box}/messages")
async def clear_messages(request: web.Request) -> web.Response:
    _inbox(request).messages.clear()
    return web.json_response({})


@routes.put("/inbox/{box}/answer")
async def set_answer(request: web.Request) -> web.Response:
    try:
        body = json.loads(await request.read())
    except (ValueError, RecursionError) as error:
        raise InputError(f"the body is not JSON: {error}") from None
    sequence = isinstance(body, list)
    answers = [parse(CannedResponse, one) for one in (body if sequence else [body])]
    _inbox(request).plan(answers, sequence)
    return web.json_response({})


@routes.route("*", "/inbox/{box}")
@routes.route("*", "/inbox/{box}/{tail:.*}")
async def receive(request: web.Request) -> web.StreamResponse:
    box = _inbox(request)
    box.keep(request, await request.read(), context_of(request).state.clock.now())
    return await send(request, box.next_response())


@routes.get("/app/stats")
async def get_stats(request: web.Request) -> web.Response:
    return web.json_response(context_of(request).app_stats.to_json())


@routes.delete("/app/stats")
async def clear_stats(request: web.Request) -> web.Response:
    context_of(request).app_stats = AppStats()
    return web.json_response({})


@routes.put("/app/{id}/{port}")
async def set_app(request: web.Request) -> web.Response:
    answer = parse(CannedResponse, await json_object(request))
    place = f"{request.match_info['id']}/{request.match_info['port']}"
    context_of(request).state.app_responses[place] = answer
    return web.json_response(answer.to_json())


@routes.route("*", "/app/{id}/{port}")
@routes.route("*", "/app/{id}/{port}/{tail:.*}")
async def use_app(request: web.Request) -> web.StreamResponse:
    context = context_of(request)
    id_, port = request.match_info["id"], request.match_info["port"]
    with context.app_stats.count_request(id_, port):
        return await send(request, app_response(context.state, id_, port))


def _inbox(request: web.Request) -> Inbox:
    return context_of(request).inboxes.setdefault(request.match_info["box"], Inbox())
