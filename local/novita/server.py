"""The whole simulator as one web application."""

from types import ModuleType

from aiohttp import web

from local.novita import (
    api_billing,
    api_catalog,
    api_instances,
    api_metrics,
    api_storages,
    api_templates,
    control,
    control_resources,
    receivers,
)
from local.novita.context import CONTEXT, Context
from local.novita.middleware import MIDDLEWARES
from local.novita.wire import API_PREFIX, BILLING_PREFIX

LARGEST_BODY = 64 * 1024 * 1024


def application(context: Context) -> web.Application:
    app = web.Application(client_max_size=LARGEST_BODY)
    app[CONTEXT] = context
    app.add_subapp(API_PREFIX, _api(api_instances, api_catalog, api_storages, api_templates))
    app.add_subapp(BILLING_PREFIX, _api(api_billing, api_metrics))
    app.add_subapp("/_sim", _control())
    return app


def _api(*parts: ModuleType) -> web.Application:
    api = web.Application(middlewares=MIDDLEWARES, client_max_size=LARGEST_BODY)
    for part in parts:
        api.add_routes(part.routes)
    return api


def _control() -> web.Application:
    app = web.Application(middlewares=[control.format_control_errors], client_max_size=LARGEST_BODY)
    for part in (control, control_resources, receivers):
        app.add_routes(part.routes)
    return app
