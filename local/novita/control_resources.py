"""The control calls of the simulator's resources: machines, products, templates, registry logins."""

from typing import Any

from aiohttp import web

from local.novita import overrides
from local.novita.context import context_of
from local.novita.control import json_object
from local.novita.machines import Machine
from local.novita.state import SimulatorState
from local.novita.storages import Storage
from local.novita.templates import RegistryAuth, template
from local.novita.wire import InputError, parse

routes = web.RouteTableDef()


@routes.get("/instances")
async def get_instances(request: web.Request) -> web.Response:
    state = context_of(request).state
    now = state.clock.now()
    return web.json_response({"instances": [describe_machine(one, now) for one in state.machines.values()]})


@routes.post("/instances")
async def put_instance(request: web.Request) -> web.Response:
    body = parse(overrides.InjectedMachine, await json_object(request))
    state = context_of(request).state
    machines = overrides.inject_machines(state, body)
    first = describe_machine(machines[0], state.clock.now())
    return web.json_response({**first, "ids": [machine.id for machine in machines]}, status=201)


@routes.get("/instances/{id}")
async def get_instance(request: web.Request) -> web.Response:
    state = context_of(request).state
    return _machine_response(state, _require_machine(request, state))


@routes.patch("/instances/{id}")
async def patch_instance(request: web.Request) -> web.Response:
    body = parse(overrides.MachineOverride, await json_object(request))
    state = context_of(request).state
    machine = _require_machine(request, state)
    overrides.override_machine(state, machine, body)
    return _machine_response(state, machine)


@routes.post("/instances/{id}/reclaim")
async def reclaim(request: web.Request) -> web.Response:
    body = parse(overrides.Reclaim, await json_object(request))
    state = context_of(request).state
    machine = _require_machine(request, state)
    overrides.reclaim(state, machine, body)
    return _machine_response(state, machine)


@routes.get("/products")
async def get_products(request: web.Request) -> web.Response:
    state = context_of(request).state
    used = state.stock().used
    shown = [
        {**one.to_json(), "used": {region: used[one.id, region] for region in one.regions}}
        for one in state.products.values()
    ]
    return web.json_response({"products": shown})


@routes.patch("/products/{id}")
async def patch_product(request: web.Request) -> web.Response:
    change = await json_object(request)
    state = context_of(request).state
    return web.json_response(overrides.patch_product(state, request.match_info["id"], change).to_json())


@routes.put("/products/{id}")
async def put_product(request: web.Request) -> web.Response:
    body = await json_object(request)
    state = context_of(request).state
    return web.json_response(overrides.put_product(state, request.match_info["id"], body).to_json())


@routes.put("/templates/{id}")
async def put_template(request: web.Request) -> web.Response:
    """Fields over those of an ordinary template, as they are: a faulty template can be set too."""
    id_ = request.match_info["id"]
    fields = await json_object(request)
    state = context_of(request).state
    state.templates[id_] = template(id_, {**fields, "Id": id_})
    return web.json_response(state.templates[id_])


@routes.put("/auths/{id}")
async def put_auth(request: web.Request) -> web.Response:
    id_ = request.match_info["id"]
    auth = parse(RegistryAuth, {**await json_object(request), "id": id_})
    context_of(request).state.auths[id_] = auth
    return web.json_response({"id": id_})


@routes.put("/storages/{id}")
async def put_storage(request: web.Request) -> web.Response:
    id_ = request.match_info["id"]
    storage = parse(Storage, {**await json_object(request), "storageId": id_})
    state = context_of(request).state
    if storage.cluster_id not in state.clusters:
        raise InputError(f"cluster {storage.cluster_id} is not known")
    state.storages[id_] = storage
    return web.json_response(storage.to_json())


def _require_machine(request: web.Request, state: SimulatorState) -> Machine:
    id_ = request.match_info["id"]
    if id_ not in state.machines:
        raise InputError(f"instance {id_} is not known")
    return state.machines[id_]


def _machine_response(state: SimulatorState, machine: Machine) -> web.Response:
    return web.json_response(describe_machine(machine, state.clock.now()))


def describe_machine(machine: Machine, now: float) -> dict[str, Any]:
    """What it really is, without lag; one that is gone too: tests compare their records with it."""
    terms = machine.terms
    spot = machine.spot(now)
    error = machine.error(now)
    return {
        "id": machine.id,
        "name": machine.name,
        "account": machine.account,
        "hidden": machine.hidden(now),
        "hidings": [{"from": begin, "to": end} for begin, end in machine.hidden_spans(now)],
        "status": machine.status(now),
        "statusError": {"state": error.state, "message": error.message},
        "spotStatus": spot.status,
        "spotReclaimTime": spot.reclaim_time,
        "createdAt": machine.created_at,
        "removedAt": machine.removed_at(now),
        "billing": machine.billing(now),
        "billedSeconds": machine.billed_seconds(now),
        "billed": [{"from": begin, "to": end} for begin, end in machine.billed(now)],
        "stored": [{"from": begin, "to": end} for begin, end in machine.stored(now)],
        "rootfsSize": machine.rootfs_size,
        "productId": terms.product_id,
        "productName": terms.product_name,
        "clusterId": terms.cluster_id,
        "region": terms.region,
        "gpuNum": terms.gpu_num,
        "billingMode": terms.billing_mode,
        "pricePerGpuHour": terms.unit_price,
        "create": machine.create_body,
        "actions": [{"at": one.at, "action": one.action} for one in machine.actions],
        "history": [{"at": step.at, "status": step.value} for step in machine.statuses.until(now)],
    }
