"""The v1 routes of network storage."""

import secrets

from aiohttp import web

from local.novita.context import state_of
from local.novita.errors import ApiError, parse_body
from local.novita.middleware import json_body
from local.novita.query import contains, page_params, page_slice, text
from local.novita.state import SimulatorState
from local.novita.storages import GROWS_ONLY, PRICE, NewStorage, Storage, StorageChange, StorageTarget

routes = web.RouteTableDef()


@routes.get("/networkstorages/list")
async def list_(request: web.Request) -> web.Response:
    state = state_of(request)
    size, page = page_params(request, state.settings, "pageNo")
    name, id_ = text(request, "storageName"), text(request, "storageId")
    found = [
        one
        for one in state.storages.values()
        if contains(name, one.storage_name) and id_ in ("", one.storage_id)
    ]
    shown = [
        {
            **one.to_json(),
            "clusterName": state.region_name(state.clusters[one.cluster_id].region),
            "price": PRICE,
        }
        for one in page_slice(found, size, page, state.settings.page_start)
    ]
    total = {"total": len(found)} if state.settings.total_in_list else {}
    return web.json_response({"data": shown, **total})


@routes.post("/networkstorage/create")
async def create(request: web.Request) -> web.Response:
    asked = parse_body(NewStorage, await json_body(request))
    state = state_of(request)
    if asked.cluster_id not in state.clusters:
        raise ApiError("RESOURCE_NOT_FOUND", f"cluster {asked.cluster_id} not found")
    id_ = secrets.token_hex(16)
    state.storages[id_] = Storage(
        storage_id=id_,
        storage_name=asked.storage_name,
        storage_size=asked.storage_size,
        cluster_id=asked.cluster_id,
    )
    return web.json_response(id_ if state.settings.storage_create_as == "string" else {"id": id_})


@routes.post("/networkstorage/update")
async def update(request: web.Request) -> web.Response:
    change = parse_body(StorageChange, await json_body(request))
    state = state_of(request)
    storage = state.require_storage(change.storage_id)
    if change.storage_size < storage.storage_size:
        raise ApiError("VALIDATOR_PARAM", GROWS_ONLY)
    state.storages[storage.storage_id] = storage.model_copy(
        update={"storage_name": change.storage_name, "storage_size": change.storage_size}
    )
    return web.json_response({})


@routes.post("/networkstorage/delete")
async def delete(request: web.Request) -> web.Response:
    target = parse_body(StorageTarget, await json_body(request))
    state = state_of(request)
    storage = state.require_storage(target.storage_id)
    if _in_use(state, storage.storage_id):
        raise ApiError("NETWORK_STORAGE_IN_USE", f"storage {storage.storage_id} is mounted")
    del state.storages[storage.storage_id]
    return web.json_response({})


def _in_use(state: SimulatorState, storage_id: str) -> bool:
    return any(mount.id == storage_id for machine in state.live_machines() for mount in machine.mounts)
