"""The control calls of what the simulator holds: machines, products, templates, registry logins."""

from aiohttp import web

from local.novita import books, by_hand
from local.novita.context import context_of
from local.novita.control import json_object
from local.novita.machines import Machine
from local.novita.templates import RegistryAuth, template
from local.novita.wire import InputError, parse
from local.novita.world import World

routes = web.RouteTableDef()


@routes.get("/instances")
async def get_instances(request: web.Request) -> web.Response:
    world = context_of(request).world
    now = world.clock.now()
    return web.json_response({"instances": [books.entry(one, now) for one in world.machines.values()]})


@routes.post("/instances")
async def put_instance(request: web.Request) -> web.Response:
    body = parse(by_hand.MachineByHand, await json_object(request))
    world = context_of(request).world
    machines = by_hand.put_machines(world, body)
    first = books.entry(machines[0], world.clock.now())
    return web.json_response({**first, "ids": [machine.id for machine in machines]}, status=201)


@routes.get("/instances/{id}")
async def get_instance(request: web.Request) -> web.Response:
    world = context_of(request).world
    return _entry(world, _held(request, world))


@routes.patch("/instances/{id}")
async def patch_instance(request: web.Request) -> web.Response:
    body = parse(by_hand.Force, await json_object(request))
    world = context_of(request).world
    machine = _held(request, world)
    by_hand.force(world, machine, body)
    return _entry(world, machine)


@routes.post("/instances/{id}/reclaim")
async def reclaim(request: web.Request) -> web.Response:
    body = parse(by_hand.Reclaim, await json_object(request))
    world = context_of(request).world
    machine = _held(request, world)
    by_hand.reclaim(world, machine, body)
    return _entry(world, machine)


@routes.get("/products")
async def get_products(request: web.Request) -> web.Response:
    world = context_of(request).world
    used = world.stock().used
    shown = [
        {**one.sent(), "used": {region: used[one.id, region] for region in one.regions}}
        for one in world.products.values()
    ]
    return web.json_response({"products": shown})


@routes.patch("/products/{id}")
async def patch_product(request: web.Request) -> web.Response:
    change = await json_object(request)
    world = context_of(request).world
    return web.json_response(by_hand.change_product(world, request.match_info["id"], change).sent())


@routes.put("/products/{id}")
async def put_product(request: web.Request) -> web.Response:
    body = await json_object(request)
    world = context_of(request).world
    return web.json_response(by_hand.put_product(world, request.match_info["id"], body).sent())


@routes.put("/templates/{id}")
async def put_template(request: web.Request) -> web.Response:
    """Fields over those of an ordinary template, as they are: a faulty template can be set too."""
    id_ = request.match_info["id"]
    fields = await json_object(request)
    world = context_of(request).world
    world.templates[id_] = template(id_, {**fields, "Id": id_})
    return web.json_response(world.templates[id_])


@routes.put("/auths/{id}")
async def put_auth(request: web.Request) -> web.Response:
    id_ = request.match_info["id"]
    auth = parse(RegistryAuth, {**await json_object(request), "id": id_})
    context_of(request).world.auths[id_] = auth
    return web.json_response({"id": id_})


def _held(request: web.Request, world: World) -> Machine:
    id_ = request.match_info["id"]
    if id_ not in world.machines:
        raise InputError(f"instance {id_} is not known")
    return world.machines[id_]


def _entry(world: World, machine: Machine) -> web.Response:
    return web.json_response(books.entry(machine, world.clock.now()))
