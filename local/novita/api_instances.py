"""The v1 routes of instances and jobs."""

from typing import Any

from aiohttp import web

from local.novita import actions, payloads
from local.novita.context import context_of, world_of
from local.novita.errors import parse_body
from local.novita.gate import json_body
from local.novita.machines import Machine
from local.novita.orders import read_order
from local.novita.paging import cut, like, page_of, required, text
from local.novita.purchase import buy
from local.novita.world import World

routes = web.RouteTableDef()


@routes.post("/gpu/instance/create")
async def create(request: web.Request) -> web.Response:
    body = await json_body(request)
    world = world_of(request)
    return web.json_response({"id": buy(world, read_order(body, world.settings)).id})


@routes.get("/gpu/instance")
async def get(request: web.Request) -> web.Response:
    world = world_of(request)
    machine = world.got(required(request, "instanceId"))
    return web.json_response(payloads.instance(machine, _view(request, world, machine, in_list=False)))


@routes.get("/gpu/instances")
async def list_(request: web.Request) -> web.Response:
    world = world_of(request)
    size, page = page_of(request, world.settings)
    name, product = text(request, "name"), text(request, "productName")
    status = text(request, "status", 63)
    found = [
        machine
        for machine in world.listed()
        if like(name, machine.name)
        and like(product, machine.bought.product_name)
        and status in ("", machine.status(world.list_time()))
    ]
    shown = [
        payloads.instance(machine, _view(request, world, machine, in_list=True))
        for machine in cut(found, size, page, world.settings.page_start)
    ]
    total = {"total": len(found)} if world.settings.total_in_list else {}
    return web.json_response({"instances": shown, **total})


@routes.post("/gpu/instance/start")
@routes.post("/gpu/instance/stop")
@routes.post("/gpu/instance/restart")
@routes.post("/gpu/instance/migrate")
async def act(request: web.Request) -> web.Response:
    target = await _target(request)
    world = world_of(request)
    name = request.path.rpartition("/")[2]
    machine = actions.act(world, name, target.instance_id)
    says_state = name in ("start", "stop")
    return _acted(world, machine if says_state else None)


@routes.post("/gpu/instance/delete")
async def delete(request: web.Request) -> web.Response:
    target = await _target(request)
    world = world_of(request)
    actions.remove(world, target.instance_id)
    return _acted(world, None)


@routes.post("/gpu/instance/edit")
async def edit(request: web.Request) -> web.Response:
    change = parse_body(actions.Edit, await json_body(request))
    actions.edit(world_of(request), change)
    return web.json_response({})


@routes.post("/gpu/instance/upgrade")
async def upgrade(request: web.Request) -> web.Response:
    change = parse_body(actions.Upgrade, await json_body(request))
    actions.upgrade(world_of(request), change)
    return web.json_response({})


@routes.post("/gpu/instance/renewInstance")
@routes.post("/gpu/instance/transToMonthlyInstance")
async def renew(request: web.Request) -> web.Response:
    target = await _target(request)
    world_of(request).held(target.instance_id)
    return web.json_response({})


@routes.get("/jobs")
async def jobs(_: web.Request) -> web.Response:
    return web.json_response({"jobs": [], "total": 0})


async def _target(request: web.Request) -> actions.Target:
    return parse_body(actions.Target, await json_body(request))


def _acted(world: World, machine: Machine | None) -> web.Response:
    if world.settings.action_bodies == "none":
        return web.Response()
    body: dict[str, Any] = {}
    if machine and world.settings.action_bodies == "full":
        body = {"instanceId": machine.id, "state": machine.status(world.clock.now())}
    return web.json_response(body)


def _view(request: web.Request, world: World, machine: Machine, in_list: bool) -> payloads.View:
    return payloads.View(
        t=world.list_time() if in_list else world.clock.now(),
        settings=world.settings,
        public_url=context_of(request).public_url(world),
        cluster_name=world.region_name(machine.bought.region),
        in_list=in_list,
    )
