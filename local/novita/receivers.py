"""The routes that others call: webhook receivers, and the applications inside the machines."""

import json

from aiohttp import web

from local.novita.answers import Answer, give
from local.novita.apps import AppStats, answer_of
from local.novita.context import context_of
from local.novita.control import json_object
from local.novita.inbox import Box
from local.novita.wire import InputError, parse

routes = web.RouteTableDef()


@routes.get("/inbox/{box}/messages", allow_head=False)
async def get_messages(request: web.Request) -> web.Response:
    return web.json_response({"messages": [message.shown() for message in _box(request).messages]})


@routes.delete("/inbox/{box}/messages")
async def clear_messages(request: web.Request) -> web.Response:
    _box(request).messages.clear()
    return web.json_response({})


@routes.put("/inbox/{box}/answer")
async def set_answer(request: web.Request) -> web.Response:
    try:
        body = json.loads(await request.read())
    except (ValueError, RecursionError) as error:
        raise InputError(f"the body is not JSON: {error}") from None
    sequence = isinstance(body, list)
    answers = [parse(Answer, one) for one in (body if sequence else [body])]
    _box(request).plan(answers, sequence)
    return web.json_response({})


@routes.route("*", "/inbox/{box}")
@routes.route("*", "/inbox/{box}/{tail:.*}")
async def receive(request: web.Request) -> web.StreamResponse:
    box = _box(request)
    box.keep(request, await request.read(), context_of(request).world.clock.now())
    return await give(request, box.next_answer())


@routes.get("/app/stats")
async def get_stats(request: web.Request) -> web.Response:
    return web.json_response(context_of(request).app_stats.shown())


@routes.delete("/app/stats")
async def clear_stats(request: web.Request) -> web.Response:
    context_of(request).app_stats = AppStats()
    return web.json_response({})


@routes.put("/app/{id}/{port}")
async def set_app(request: web.Request) -> web.Response:
    answer = parse(Answer, await json_object(request))
    place = f"{request.match_info['id']}/{request.match_info['port']}"
    context_of(request).world.app_answers[place] = answer
    return web.json_response(answer.sent())


@routes.route("*", "/app/{id}/{port}")
@routes.route("*", "/app/{id}/{port}/{tail:.*}")
async def use_app(request: web.Request) -> web.StreamResponse:
    context = context_of(request)
    id_, port = request.match_info["id"], request.match_info["port"]
    with context.app_stats.one_more(id_, port):
        return await give(request, answer_of(context.world, id_, port))


def _box(request: web.Request) -> Box:
    return context_of(request).boxes.setdefault(request.match_info["box"], Box())
