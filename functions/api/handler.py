"""The API function: request ids, authorization, route, response."""

import time
from collections.abc import Mapping
from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext
from botocore.exceptions import BotoCoreError, ClientError

from functions.api import requests as current
from functions.api.app import build
from functions.api.auth import ANONYMOUS, Authorize
from functions.api.requests import RequestIds, as_get, as_json, read_ids
from functions.api.responses import SECURITY_HEADERS, error_response
from functions.shared.domain.errors import OstlerError, Unavailable
from functions.shared.platform.observability import (
    SERVER_ERRORS,
    correlated,
    logger,
    measure,
    metered,
    timing,
)
from functions.shared.platform.wiring import prepare, wiring

_app = build()
prepare("api")


@metered
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    ids = read_ids(event.get("headers") or {})
    asked, began = as_get(event), time.monotonic()
    current.begin(ANONYMOUS)
    with correlated(ids.correlation_id, request_id=ids.request_id), timing() as spent:
        response = _respond(asked or event, context, ids)
        seconds = time.monotonic() - began
        _log(event, response["statusCode"], seconds)
    if response["statusCode"] >= 500:
        measure(SERVER_ERRORS, by=str(response["statusCode"]))
    own = _server_timing({**spent, "total": seconds}) if current.caller() is not ANONYMOUS else {}
    response["headers"] = {**SECURITY_HEADERS, **(response.get("headers") or {}), **ids.headers(), **own}
    return {**response, "body": ""} if asked else response


def _respond(event: dict[str, Any], context: LambdaContext, ids: RequestIds) -> dict[str, Any]:
    run = wiring("api").invocation(context)
    wired = run.wiring
    try:
        current.enter(run, run.compose(Authorize)(event))
        return _app.resolve(as_json(event), context)
    except OstlerError as error:
        logger.info("request refused", code=error.code, reason=error.message)
        return error_response(error, ids, wired.clock())
    except Exception as error:  # noqa: BLE001  # the last resort: the caller gets an envelope, the log the rest
        logger.exception("request failed")
        return error_response(_unexpected(error), ids, wired.clock())


def _server_timing(spent: Mapping[str, float]) -> dict[str, str]:
    """Where the time went, for whoever has shown a key: others learn nothing from it."""
    parts = (f"{part};dur={seconds * 1000:.1f}" for part, seconds in spent.items())
    return {"Server-Timing": ", ".join(parts)}


def _log(event: Mapping[str, Any], status: int, seconds: float) -> None:
    """One line for each request. The gateway's own id is in its access log, too, which joins the two."""
    gateway = event.get("requestContext", {})
    logger.info(
        "request answered",
        method=gateway.get("http", {}).get("method"),
        route=event.get("rawPath"),
        status=status,
        duration_ms=round(seconds * 1000),
        caller=current.caller().id,
        gateway_request_id=gateway.get("requestId"),
    )


def _unexpected(error: Exception) -> OstlerError:
    """AWS that does not answer is worth another try; everything else is a bug here."""
    if isinstance(error, BotoCoreError) or (isinstance(error, ClientError) and _is_temporary(error)):
        return Unavailable("The table or a queue does not answer; ask again, with the same Idempotency-Key")
    return OstlerError("INTERNAL_ERROR", "Something went wrong here; the request id finds it in the log")


def _is_temporary(error: ClientError) -> bool:
    code = error.response["Error"]["Code"]
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 500)
    return status >= 500 or "Throttl" in code or "Exceeded" in code
