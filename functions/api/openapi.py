"""/openapi.json and /docs, made from the routes themselves when somebody asks."""

import json
from functools import cache
from pathlib import Path
from typing import Any

from aws_lambda_powertools.event_handler import APIGatewayHttpResolver, Response

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


def add_documentation(app: APIGatewayHttpResolver) -> None:
    """Add the two routes that show all the others."""

    @app.get("/openapi.json", include_in_schema=False)
    def openapi() -> Response[str]:
        return Response(200, "application/json", _description(app))

    @app.get("/docs", include_in_schema=False)
    def docs() -> Response[str]:
        if app.current_event.query_string_parameters.get("format") == "json":  # the page's own link
            return openapi()
        page = _page(app)
        return Response(
            200, "text/html; charset=utf-8", page, {"Content-Security-Policy": content_security_policy(page)}
        )


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
    return json.dumps(schema)


# A version before this one let the page keep keys in the browser for ever.
_FORGET_KEYS = '<script>localStorage.removeItem("authorized")</script>'


@cache
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
