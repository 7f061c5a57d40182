"""The whole simulator as one web application."""

from aiohttp import web

from local.novita import (
    api_catalog,
    api_instances,
    api_templates,
    control,
    control_resources,
    receivers,
)
from local.novita.context import CONTEXT, Context
from local.novita.middleware import MIDDLEWARES
from local.novita.wire import API_PREFIX

LARGEST_BODY = 64 * 1024 * 1024


def application(context: Context) -> web.Application:
    app = web.Application(client_max_size=LARGEST_BODY)
    app[CONTEXT] = context
    app.add_subapp(API_PREFIX, _api())
    app.add_subapp("/_sim", _control())
    return app


def _api() -> web.Application:
    api = web.Application(middlewares=MIDDLEWARES, client_max_size=LARGEST_BODY)
    for part in (api_instances, api_catalog, api_templates):
        api.add_routes(part.routes)
    return api


def _control() -> web.Application:
    app = web.Application(middlewares=[control.format_control_errors], client_max_size=LARGEST_BODY)
    for part in (control, control_resources, receivers):
        app.add_routes(part.routes)
    return app
