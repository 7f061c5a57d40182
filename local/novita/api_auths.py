"""The v1 routes of registry logins."""

import secrets

from aiohttp import web
from pydantic import Field

from local.novita import offers
from local.novita.context import world_of
from local.novita.errors import ApiError, parse_body
from local.novita.gate import json_body
from local.novita.templates import RegistryAuth
from local.novita.wire import Lenient

routes = web.RouteTableDef()


class NewAuth(Lenient):
    name: str = Field(min_length=1, max_length=255)
    username: str = Field(min_length=1, max_length=511)
    password: str = Field(min_length=1, max_length=1024)


class AuthId(Lenient):
    id: str = Field(min_length=1)


@routes.get("/repository/auths")
async def list_auths(request: web.Request) -> web.Response:
    world = world_of(request)
    return web.json_response({"data": [offers.auth(world, one) for one in world.auths.values()]})


@routes.post("/repository/auth/save")
async def save_auth(request: web.Request) -> web.Response:
    new = parse_body(NewAuth, await json_body(request))
    world = world_of(request)
    auth = RegistryAuth(id=secrets.token_hex(16), name=new.name, username=new.username, password=new.password)
    world.auths[auth.id] = auth
    return web.Response(status=204) if world.settings.auth_save_as == "empty" else web.json_response({})


@routes.post("/repository/auth/delete")
async def delete_auth(request: web.Request) -> web.Response:
    target = parse_body(AuthId, await json_body(request))
    world = world_of(request)
    if target.id not in world.auths:
        raise ApiError("RESOURCE_NOT_FOUND", f"repository auth {target.id} not found")
    by_template = any(one.get("imageAuth") == target.id for one in world.templates.values())
    if by_template or any(one.image_auth_id == target.id for one in world.live()):
        raise ApiError("IMAGE_AUTH_IN_USE", f"repository auth {target.id} is in use")
    del world.auths[target.id]
    return web.json_response({})
