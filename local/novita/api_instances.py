"""The v1 routes of instances and jobs."""

from typing import Any

from aiohttp import web

from local.novita import actions, instance_payloads
from local.novita.context import account_of, context_of, list_age_of, state_of
from local.novita.errors import parse_body
from local.novita.machines import Machine
from local.novita.middleware import json_body
from local.novita.orders import read_order
from local.novita.purchase import buy
from local.novita.query import contains, page_params, page_slice, required, text
from local.novita.state import SimulatorState

routes = web.RouteTableDef()


@routes.post("/gpu/instance/create")
async def create(request: web.Request) -> web.Response:
    body = await json_body(request)
    state = state_of(request)
    machine = buy(state, read_order(body, state.settings))
    machine.account = account_of(request)
    return web.json_response({"id": machine.id})


@routes.get("/gpu/instance")
async def get(request: web.Request) -> web.Response:
    state = state_of(request)
    machine = state.machine_for_get(required(request, "instanceId"), account_of(request))
    return web.json_response(
        instance_payloads.instance(machine, _view(request, state, machine, in_list=False))
    )


@routes.get("/gpu/instances")
async def list_(request: web.Request) -> web.Response:
    state = state_of(request)
    size, page = page_params(request, state.settings)
    name, product = text(request, "name"), text(request, "productName")
    age = list_age_of(request)
    status = text(request, "status", 63)
    found = [
        machine
        for machine in state.listed_machines(account_of(request), age)
        if contains(name, machine.name)
        and contains(product, machine.terms.product_name)
        and status in ("", machine.status(state.list_time(age)))
    ]
    shown = [
        instance_payloads.instance(machine, _view(request, state, machine, in_list=True))
        for machine in page_slice(found, size, page, state.settings.page_start)
    ]
    total = {"total": len(found)} if state.settings.total_in_list else {}
    return web.json_response({"instances": shown, **total})


@routes.post("/gpu/instance/start")
@routes.post("/gpu/instance/stop")
@routes.post("/gpu/instance/restart")
@routes.post("/gpu/instance/migrate")
async def act(request: web.Request) -> web.Response:
    target = await _target(request)
    state = _state_with_own(request, target)
    name = request.path.rpartition("/")[2]
    machine = actions.act(state, name, target.instance_id)
    says_state = name in ("start", "stop")
    return _acted(state, machine if says_state else None)


@routes.post("/gpu/instance/delete")
async def delete(request: web.Request) -> web.Response:
    target = await _target(request)
    state = _state_with_own(request, target)
    actions.remove(state, target.instance_id)
    return _acted(state, None)


@routes.post("/gpu/instance/edit")
async def edit(request: web.Request) -> web.Response:
    change = parse_body(actions.Edit, await json_body(request))
    actions.edit(_state_with_own(request, change), change)
    return web.json_response({})


@routes.post("/gpu/instance/upgrade")
async def upgrade(request: web.Request) -> web.Response:
    change = parse_body(actions.Upgrade, await json_body(request))
    actions.upgrade(_state_with_own(request, change), change)
    return web.json_response({})


@routes.post("/gpu/instance/renewInstance")
@routes.post("/gpu/instance/transToMonthlyInstance")
async def renew(request: web.Request) -> web.Response:
    _state_with_own(request, await _target(request))
    return web.json_response({})


@routes.get("/jobs")
async def jobs(_: web.Request) -> web.Response:
    return web.json_response({"jobs": [], "total": 0})


async def _target(request: web.Request) -> actions.Target:
    return parse_body(actions.Target, await json_body(request))


def _state_with_own(request: web.Request, target: actions.Target) -> SimulatorState:
    """Another account's machine is not found."""
    state = state_of(request)
    state.require_machine(target.instance_id, account_of(request))
    return state


def _acted(state: SimulatorState, machine: Machine | None) -> web.Response:
    if state.settings.action_bodies == "none":
        return web.Response()
    body: dict[str, Any] = {}
    if machine and state.settings.action_bodies == "full":
        body = {"instanceId": machine.id, "state": machine.status(state.clock.now())}
    return web.json_response(body)


def _view(
    request: web.Request, state: SimulatorState, machine: Machine, in_list: bool
) -> instance_payloads.View:
    return instance_payloads.View(
        t=state.list_time(list_age_of(request)) if in_list else state.clock.now(),
        settings=state.settings,
        public_url=context_of(request).public_url(state),
        cluster_name=state.region_name(machine.terms.region),
        in_list=in_list,
        storage_sizes={one.storage_id: one.storage_size for one in state.storages.values()},
    )
