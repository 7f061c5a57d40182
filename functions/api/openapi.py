"""/openapi.json and /docs, made from the routes themselves when somebody asks."""

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from aws_lambda_powertools.event_handler import APIGatewayHttpResolver, Response

from functions.api.documents import Document
from functions.api.responses import content_security_policy

_ABOUT = (
    "Rents GPU machines on Novita.ai: picks the cheapest that can be had, buys it exactly once, "
    "watches it until the application inside answers, and never loses one."
)
_WITHOUT_KEY = ("/health",)
# Errors as Powertools would word them.
_NOT_OURS = ("HTTPValidationError", "ValidationError", "ResponseValidationError")
_ERROR: dict[str, Any] = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["code", "message", "timestamp", "requestId", "correlationId", "retryable"],
            "properties": {
                "code": {"type": "string"},
                "message": {"type": "string"},
                "timestamp": {"type": "string", "format": "date-time"},
                "requestId": {"type": "string"},
                "correlationId": {"type": "string"},
                "retryable": {"type": "boolean"},
                "retryAfter": {"type": "integer", "description": "Seconds"},
                "details": {"type": "object"},
                "validationErrors": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "required": ["field", "code", "message"],
                        "properties": {name: {"type": "string"} for name in ("field", "code", "message")},
                    },
                },
            },
        }
    },
}


# In the order in which people need them.
_TAGS = {
    "instances": "Machines: made, shown, changed",
    "operations": "Starting, stopping, deleting them, and how that goes",
    "costs": "What machines cost, and what they may",
    "market": "What can be bought",
    "webhooks": "What was sent to receivers",
    "service": "The service itself",
    "jobs": "What it does behind the API",
    "cache": "What it remembers of Novita",
}
# What of an answer is which parameter: it leads to every operation that has it in its path.
_LINKS: dict[str, dict[str, str]] = {
    "POST /api/instances": {"instance_id": "/instanceId"},
    "POST /api/instances/import": {"instance_id": "/instanceId"},
    "GET /api/instances": {"instance_id": "/instances/0/instanceId"},
    "GET /api/webhooks/deliveries": {"delivery_id": "/deliveries/0/id"},
    "GET /api/jobs/dead": {"letter_id": "/deadLetters/0/id"},
    "POST /api/instances/{instance_id}/start": {"operation_id": "/operationId"},
    "POST /api/instances/{instance_id}/restart": {"operation_id": "/operationId"},
    "POST /api/instances/{instance_id}/stop": {"operation_id": "/operationId"},
    "DELETE /api/instances/{instance_id}": {"operation_id": "/operationId"},
    "POST /api/instances/start": {"operation_id": "/operationId"},
    "POST /api/instances/stop": {"operation_id": "/operationId"},
    "POST /api/instances/delete": {"operation_id": "/operationId"},
}


def add_documentation(app: APIGatewayHttpResolver) -> None:
    """Add the two routes that show all the others."""

    @app.get("/openapi.json", include_in_schema=False)
    def openapi() -> Response[str]:
        return _described(app).answer(app.current_event.headers)

    @app.get("/docs", include_in_schema=False)
    def docs() -> Response[str]:
        if app.current_event.query_string_parameters.get("format") == "json":  # the page's own link
            return openapi()
        return _documentation(app).answer(app.current_event.headers)


@cache
def _described(app: APIGatewayHttpResolver) -> Document:
    return Document("application/json", _description(app))


@cache
def _documentation(app: APIGatewayHttpResolver) -> Document:
    page = _page(app)
    return Document("text/html; charset=utf-8", page, content_security_policy(page))


@cache
def _description(app: APIGatewayHttpResolver) -> str:
    from aws_lambda_powertools.event_handler.openapi.models import HTTPBearer  # slow, and seldom needed

    schema = json.loads(
        app.get_openapi_json_schema(
            title="Ostler",
            version="1",
            description=_ABOUT,
            security_schemes={"key": HTTPBearer(description="An API key: ost_… (with auth=jwt: a token)")},
            security=[{"key": []}],
        )
    )
    schema["components"]["schemas"] = {
        name: shape for name, shape in schema["components"]["schemas"].items() if name not in _NOT_OURS
    } | {"Error": _ERROR}
    refusal = {
        "description": "Any error",
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
    }
    for path, operations in schema["paths"].items():
        for operation in operations.values():
            for code in ("422", "500"):
                operation["responses"].pop(code, None)
            operation["responses"]["default"] = refusal
            if path in _WITHOUT_KEY:
                operation["security"] = []
    for route, found in _LINKS.items():
        method, _, path = route.partition(" ")
        operation = schema["paths"][path][method.lower()]
        success = next(answer for code, answer in operation["responses"].items() if code.startswith("2"))
        success["links"] = dict(_links(schema["paths"], found))
    schema["tags"] = [{"name": name, "description": about} for name, about in _TAGS.items()]
    schema["paths"] = dict(sorted(schema["paths"].items(), key=_place))
    return json.dumps(schema)


def _place(entry: tuple[str, dict[str, Any]]) -> int:
    _, operations = entry
    return min(list(_TAGS).index(tag) for one in operations.values() for tag in one["tags"])


def _links(paths: dict[str, Any], found: dict[str, str]) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, place in found.items():
        for other in (one for operations in paths.values() for one in operations.values()):
            if any(one["in"] == "path" and one["name"] == name for one in other.get("parameters", [])):
                parameters = {name: f"$response.body#{place}"}
                link = {"operationId": other["operationId"], "parameters": parameters}
                yield other["operationId"].partition("_api_")[0], link


# A version before this one let the page keep keys in the browser for ever.
_FORGET_KEYS = '<script>localStorage.removeItem("authorized")</script>'


def _page(app: APIGatewayHttpResolver) -> str:
    from aws_lambda_powertools.event_handler.openapi import swagger_ui

    bundle = Path(swagger_ui.__file__).parent
    page = swagger_ui.generate_swagger_html(
        _description(app).replace("</", "<\\/"),
        (bundle / "swagger-ui-bundle.min.js").read_text("utf-8"),
        (bundle / "swagger-ui.min.css").read_text("utf-8"),
        swagger_base_url="",
        oauth2_config=None,
        persist_authorization=False,  # a key is gone with the page it was typed into
    )
    return page.removesuffix("</html>") + f"{_FORGET_KEYS}</html>"
