"""The API function: ids, key, route, answer."""

from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext
from botocore.exceptions import BotoCoreError, ClientError

from functions.api import requests as current
from functions.api.app import build
from functions.api.auth import authorize
from functions.api.requests import RequestIds, as_json, read_ids
from functions.api.responses import SECURITY_HEADERS, error_answer
from functions.shared.domain.errors import OstlerError, Unavailable
from functions.shared.platform.observability import SERVER_ERRORS, correlated, logger, measure, metered
from functions.shared.platform.wiring import wiring

_app = build()


@metered
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    ids = read_ids(event.get("headers") or {})
    with correlated(ids.correlation_id, request_id=ids.request_id):
        answer = _answer(event, context, ids)
    if answer["statusCode"] >= 500:
        measure(SERVER_ERRORS, by=str(answer["statusCode"]))
    answer["headers"] = {**SECURITY_HEADERS, **(answer.get("headers") or {}), **ids.headers()}
    return answer


def _answer(event: dict[str, Any], context: LambdaContext, ids: RequestIds) -> dict[str, Any]:
    run = wiring("api").invocation(context)
    wired = run.wiring
    try:
        current.enter(run, authorize(event, wired.settings, wired.api_keys))
        return _app.resolve(as_json(event), context)
    except OstlerError as error:
        logger.info("refused", code=error.code, reason=error.message)
        return error_answer(error, ids, wired.clock())
    except Exception as error:  # noqa: BLE001  # the last line of defence: the caller gets the envelope, the log the rest
        logger.exception("request failed")
        return error_answer(_fault(error), ids, wired.clock())


def _fault(error: Exception) -> OstlerError:
    """AWS not answering passes, and is worth asking again; everything else is ours to mend."""
    if isinstance(error, BotoCoreError) or (isinstance(error, ClientError) and _passes(error)):
        return Unavailable("The table or a queue does not answer; ask again, with the same Idempotency-Key")
    return OstlerError("INTERNAL_ERROR", "Something went wrong here; the request id finds it in the log")


def _passes(error: ClientError) -> bool:
    code = error.response["Error"]["Code"]
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 500)
    return status >= 500 or "Throttl" in code or "Exceeded" in code
