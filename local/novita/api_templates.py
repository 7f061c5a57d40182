"""The v1 routes of templates and registry logins."""

import secrets
from typing import Any

from aiohttp import web
from pydantic import Field

from local.novita import catalog_payloads
from local.novita.context import state_of
from local.novita.errors import ApiError, parse_body
from local.novita.middleware import json_body
from local.novita.orders import Env
from local.novita.query import contains, page_params, page_slice, required, text
from local.novita.state import SimulatorState
from local.novita.templates import RegistryAuth, template
from local.novita.wire import InputError, Lenient, parse

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


class NewAuth(Lenient):
    name: str = Field(min_length=1, max_length=255)
    username: str = Field(min_length=1, max_length=511)
    password: str = Field(min_length=1, max_length=1024)


class AuthId(Lenient):
    id: str = Field(min_length=1)


def _is_sound(template: dict[str, Any]) -> bool:
    """One that Novita would not have taken is found by its id alone: its list has none such, and clients that
    read the list strictly fail on one."""
    try:
        parse(TemplateFields, template)
    except InputError:
        return False
    return True


@routes.get("/templates")
async def list_templates(request: web.Request) -> web.Response:
    state = state_of(request)
    size, page = page_params(request, state.settings)
    name, kind = text(request, "name"), text(request, "type")
    # The key is repeated by some clients and holds a list with commas in others.
    channels = {one for value in request.query.getall("channel", []) for one in value.split(",") if one}
    found = [
        one
        for one in state.templates.values()
        if contains(name, str(one.get("name", "")))
        and kind in ("", one.get("type"))
        and (not channels or one.get("channel") in channels)
        and _is_sound(one)
    ]
    shown = [
        catalog_payloads.template(state, one)
        for one in page_slice(found, size, page, state.settings.page_start)
    ]
    return web.json_response({"template": shown, "pageSize": size, "pageNum": page, "total": len(found)})


@routes.get("/template")
async def get_template(request: web.Request) -> web.Response:
    state = state_of(request)
    found = _require_template(state, required(request, "templateId"))
    return web.json_response({"template": catalog_payloads.template(state, found)})


@routes.post("/template/create")
async def create_template(request: web.Request) -> web.Response:
    fields = _fields(await json_body(request))
    state = state_of(request)
    _check_auth(state, fields)
    id_ = str(max([FIRST_OWN_ID, *(int(known) for known in state.templates if known.isdigit())]) + 1)
    state.templates[id_] = template(id_, fields, created_at=str(int(state.clock.now())))
    return web.json_response({"templateId": id_})


@routes.post("/template/update")
async def update_template(request: web.Request) -> web.Response:
    body = await json_body(request)
    fields = _fields(body)
    state = state_of(request)
    _check_auth(state, fields)
    id_ = str(body["template"].get("Id", ""))
    _require_template(state, id_).update({**fields, "updatedAt": str(int(state.clock.now()))})
    return web.json_response({"templateId": id_})


@routes.post("/template/delete")
async def delete_template(request: web.Request) -> web.Response:
    target = parse_body(TemplateId, await json_body(request))
    state = state_of(request)
    _require_template(state, target.template_id)
    del state.templates[target.template_id]
    return web.json_response({"templateId": target.template_id})


@routes.get("/repository/auths")
async def list_auths(request: web.Request) -> web.Response:
    state = state_of(request)
    return web.json_response({"data": [catalog_payloads.auth(state, one) for one in state.auths.values()]})


@routes.post("/repository/auth/save")
async def save_auth(request: web.Request) -> web.Response:
    new = parse_body(NewAuth, await json_body(request))
    state = state_of(request)
    auth = RegistryAuth(id=secrets.token_hex(16), name=new.name, username=new.username, password=new.password)
    state.auths[auth.id] = auth
    return web.Response(status=204) if state.settings.auth_save_as == "empty" else web.json_response({})


@routes.post("/repository/auth/delete")
async def delete_auth(request: web.Request) -> web.Response:
    target = parse_body(AuthId, await json_body(request))
    state = state_of(request)
    if target.id not in state.auths:
        raise ApiError("RESOURCE_NOT_FOUND", f"repository auth {target.id} not found")
    by_template = any(one.get("imageAuth") == target.id for one in state.templates.values())
    if by_template or any(one.image_auth_id == target.id for one in state.live_machines()):
        raise ApiError("IMAGE_AUTH_IN_USE", f"repository auth {target.id} is in use")
    del state.auths[target.id]
    return web.json_response({})


def _fields(body: Any) -> dict[str, Any]:
    if not isinstance(body, dict) or not isinstance(body.get("template"), dict):
        raise ApiError("VALIDATOR_PARAM", "template: required")
    return parse_body(TemplateFields, body["template"]).to_json()


def _check_auth(state: SimulatorState, fields: dict[str, Any]) -> None:
    if fields["imageAuth"] and fields["imageAuth"] not in state.auths:
        raise ApiError("RESOURCE_NOT_FOUND", f"repository auth {fields['imageAuth']} not found")


def _require_template(state: SimulatorState, id_: str) -> dict[str, Any]:
    if id_ not in state.templates:
        raise ApiError("TEMPLATE_NOT_FOUND", f"template {id_} not found")
    return state.templates[id_]
