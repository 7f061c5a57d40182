"""The router: all routes, and the errors of Powertools turned into ours."""

from typing import Any, NoReturn

from aws_lambda_powertools.event_handler import APIGatewayHttpResolver
from aws_lambda_powertools.event_handler.exceptions import NotFoundError
from aws_lambda_powertools.event_handler.openapi.exceptions import (
    RequestValidationError,
    ResponseValidationError,
)

from functions.api.auth import no_such_route
from functions.api.openapi import add_documentation
from functions.api.requests import read_json, validation_failed
from functions.api.routes import (
    budgets,
    caches,
    costs,
    instances,
    jobs,
    market,
    operations,
    page,
    service,
    webhooks,
)
from functions.shared.domain.errors import OstlerError
from functions.shared.platform.observability import logger


def build() -> APIGatewayHttpResolver:
    app = APIGatewayHttpResolver(
        enable_validation=True,
        response_validation_error_http_code=500,
        json_body_deserializer=read_json,
    )
    parts = (page, service, operations, instances, costs, budgets, market, caches, webhooks, jobs)
    for routes in parts:
        app.include_router(routes.router)
    add_documentation(app)
    app.exception_handler(RequestValidationError)(_bad_request)
    app.exception_handler(ResponseValidationError)(_bad_response)
    app.exception_handler(NotFoundError)(_no_route)
    return app


def _bad_request(error: RequestValidationError) -> NoReturn:
    raise validation_failed(error.errors()) from None


def _bad_response(error: ResponseValidationError) -> NoReturn:
    logger.error("response does not fit its schema", problems=[e["loc"] for e in error.errors()])
    raise OstlerError("INTERNAL_ERROR", "The answer could not be made; the request id finds it in the log")


def _no_route(_: Any) -> NoReturn:
    raise no_such_route() from None
