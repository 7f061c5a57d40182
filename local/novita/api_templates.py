"""The v1 routes of templates."""

from typing import Any

from aiohttp import web
from pydantic import Field

from local.novita import offers
from local.novita.context import world_of
from local.novita.errors import ApiError, parse_body
from local.novita.gate import json_body
from local.novita.orders import Env
from local.novita.paging import cut, like, page_of, required, text
from local.novita.templates import template
from local.novita.wire import Lenient
from local.novita.world import World

routes = web.RouteTableDef()
FIRST_OWN_ID = 200000


class PortGroup(Lenient):
    type: str = Field(pattern="^(http|tcp)$")
    ports: list[int] = Field(max_length=10)


class TemplateFields(Lenient):
    name: str = Field(min_length=1, max_length=255)
    image: str = Field(min_length=1, max_length=500)
    type: str = Field(default="instance", pattern="^(instance|serverless)$")
    channel: str = Field(default="private", pattern="^(private|community|official)$")
    readme: str = Field(default="", max_length=102400)
    image_auth: str = Field(default="", max_length=255)
    start_command: str = Field(default="", max_length=2047)
    entrypoint: str = Field(default="", max_length=2047)
    rootfs_size: int = Field(default=60, ge=0)
    ports: list[PortGroup] = Field(default=[])
    envs: list[Env] = Field(default=[])
    volumes: list[dict[str, Any]] = Field(default=[])
    tools: list[dict[str, Any]] = Field(default=[])
    min_cuda_version: str = ""
    description: str = ""


class TemplateId(Lenient):
    template_id: str = Field(min_length=1)


@routes.get("/templates")
async def list_templates(request: web.Request) -> web.Response:
    world = world_of(request)
    size, page = page_of(request, world.settings)
    name, kind = text(request, "name"), text(request, "type")
    # The key is repeated by some clients and holds a list with commas in others.
    channels = {one for value in request.query.getall("channel", []) for one in value.split(",") if one}
    found = [
        one
        for one in world.templates.values()
        if like(name, str(one.get("name", "")))
        and kind in ("", one.get("type"))
        and (not channels or one.get("channel") in channels)
    ]
    shown = [offers.template(world, one) for one in cut(found, size, page, world.settings.page_start)]
    return web.json_response({"template": shown, "pageSize": size, "pageNum": page, "total": len(found)})


@routes.get("/template")
async def get_template(request: web.Request) -> web.Response:
    world = world_of(request)
    found = _held(world, required(request, "templateId"))
    return web.json_response({"template": offers.template(world, found)})


@routes.post("/template/create")
async def create_template(request: web.Request) -> web.Response:
    fields = _fields(await json_body(request))
    world = world_of(request)
    _check_auth(world, fields)
    id_ = str(max([FIRST_OWN_ID, *(int(known) for known in world.templates if known.isdigit())]) + 1)
    world.templates[id_] = template(id_, fields, created_at=str(int(world.clock.now())))
    return web.json_response({"templateId": id_})


@routes.post("/template/update")
async def update_template(request: web.Request) -> web.Response:
    body = await json_body(request)
    fields = _fields(body)
    world = world_of(request)
    _check_auth(world, fields)
    id_ = str(body["template"].get("Id", ""))
    _held(world, id_).update({**fields, "updatedAt": str(int(world.clock.now()))})
    return web.json_response({"templateId": id_})


@routes.post("/template/delete")
async def delete_template(request: web.Request) -> web.Response:
    target = parse_body(TemplateId, await json_body(request))
    world = world_of(request)
    _held(world, target.template_id)
    del world.templates[target.template_id]
    return web.json_response({"templateId": target.template_id})


def _fields(body: Any) -> dict[str, Any]:
    if not isinstance(body, dict) or not isinstance(body.get("template"), dict):
        raise ApiError("VALIDATOR_PARAM", "template: required")
    return parse_body(TemplateFields, body["template"]).sent()


def _check_auth(world: World, fields: dict[str, Any]) -> None:
    if fields["imageAuth"] and fields["imageAuth"] not in world.auths:
        raise ApiError("RESOURCE_NOT_FOUND", f"repository auth {fields['imageAuth']} not found")


def _held(world: World, id_: str) -> dict[str, Any]:
    if id_ not in world.templates:
        raise ApiError("TEMPLATE_NOT_FOUND", f"template {id_} not found")
    return world.templates[id_]
