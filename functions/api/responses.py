"""Responses: the error envelope, the HTTP status of each code, and the headers that all responses have."""

import base64
import hashlib
import json
import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from functions.api.requests import RequestIds
from functions.shared.domain.errors import OstlerError, ValidationFailed
from functions.shared.domain.ids import timestamp

_JSON = "application/json"
_MOST_BYTES = 5_000_000  # of a list; with everything around it Lambda lets an answer have 6 MB

_CODES_BY_STATUS = {
    400: "VALIDATION_ERROR MALFORMED_JSON INVALID_CURSOR",
    401: "UNAUTHORIZED",
    403: "FORBIDDEN",
    404: """INSTANCE_NOT_FOUND OPERATION_NOT_FOUND DELIVERY_NOT_FOUND DEAD_LETTER_NOT_FOUND
        TEMPLATE_NOT_FOUND PRODUCT_NOT_FOUND REGISTRY_AUTH_NOT_FOUND NETWORK_VOLUME_NOT_FOUND
        BUDGET_NOT_FOUND ROUTE_NOT_FOUND""",
    409: """INSTANCE_NOT_STARTABLE INSTANCE_NOT_STOPPABLE INSTANCE_NOT_RESTARTABLE
        STARTUP_OPERATION_IN_PROGRESS AMBIGUOUS_INSTANCE_NAME INSTANCE_ALREADY_MANAGED
        INSTANCE_MISSING PURCHASES_PAUSED INSTANCE_NOT_RELEASABLE INSTANCE_HAS_NO_MACHINE NOT_REDRIVABLE
        INSTANCE_ENDED INSTANCE_PROTECTED""",
    413: "PAYLOAD_TOO_LARGE",
    422: """NO_OPTIMAL_PRODUCT_ANY_REGION PRICE_CAP_EXCEEDED CAP_EXCEEDED BUDGET_EXCEEDED
        INVALID_TEMPLATE_COMMAND
        INVALID_TEMPLATE_CUDA_VERSION INVALID_TEMPLATE_ENTRYPOINT INVALID_TEMPLATE_IMAGE
        INVALID_TEMPLATE_IMAGE_AUTH INVALID_TEMPLATE_TOOL INVALID_TEMPLATE_PORT
        INVALID_TEMPLATE_ENV IDEMPOTENCY_KEY_REUSED LIMIT_NOT_ALLOWED
        NETWORK_VOLUME_ELSEWHERE TOO_MANY_VARIABLES""",
    429: "RATE_LIMIT_EXCEEDED",
    502: "NOVITA_REJECTED NOVITA_AUTHENTICATION_FAILED",
    503: "CIRCUIT_BREAKER_OPEN NOVITA_UNAVAILABLE RESOURCE_CONSTRAINTS SERVICE_UNAVAILABLE",
    504: "NOVITA_TIMEOUT",
    500: "INTERNAL_ERROR",
}
STATUS_OF = {code: status for status, codes in _CODES_BY_STATUS.items() for code in codes.split()}


def how_many_fit(entries: Sequence[Any]) -> int:
    """How many of them one answer carries, as Lambda sends it: JSON within JSON. One always fits."""
    left = _MOST_BYTES
    for number, entry in enumerate(entries):
        left -= len(json.dumps(json.dumps(entry)))
        if left < 0:
            return max(1, number)
    return len(entries)


def error_body(error: OstlerError, ids: RequestIds, now: datetime) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "code": error.code,
        "message": error.message,
        "timestamp": timestamp(now),
        "requestId": ids.request_id,
        "correlationId": ids.correlation_id,
        "retryable": error.retryable,
    }
    if error.retry_after is not None:
        shown["retryAfter"] = _whole_seconds(error.retry_after)
    if error.details:
        shown["details"] = error.details
    if isinstance(error, ValidationFailed):
        shown["validationErrors"] = [vars(field) for field in error.fields]
    return {"error": shown}


def error_response(error: OstlerError, ids: RequestIds, now: datetime) -> dict[str, Any]:
    """The envelope as the gateway wants it."""
    headers = {"Content-Type": _JSON}
    if error.retry_after is not None:
        headers["Retry-After"] = str(_whole_seconds(error.retry_after))
    if error.code == "UNAUTHORIZED":
        headers["WWW-Authenticate"] = "Bearer"
    return {
        "statusCode": STATUS_OF.get(error.code, 500),
        "headers": headers,
        "body": json.dumps(error_body(error, ids, now)),
        "isBase64Encoded": False,
    }


def _whole_seconds(wait: float) -> int:
    return max(1, round(wait + 0.499))


SECURITY_HEADERS = {
    "Strict-Transport-Security": "max-age=31536000",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-store",
}
_INLINE = re.compile(r'<(script|style)(?: type="module")?>(.*?)</\1>', re.DOTALL)


def content_security_policy(page: str, *, markup_from_text: bool = True) -> str:
    """For a page that carries its own scripts and styles: these very ones, and calls to where it is from.

    Without `markup_from_text` the browser refuses whatever would make markup or a script out of a text.
    """
    inline: dict[str, list[str]] = {"script": [], "style": []}
    for kind, text in _INLINE.findall(page):
        inline[kind].append(f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'")
    allowed = {
        "default-src": ["'none'"],
        "script-src": inline["script"],
        "style-src": inline["style"],
        "img-src": ["data:"],
        "connect-src": ["'self'"],
        "base-uri": ["'none'"],
        "form-action": ["'none'"],
        "frame-ancestors": ["'none'"],
    }
    if not markup_from_text:
        allowed |= {"require-trusted-types-for": ["'script'"], "trusted-types": ["'none'"]}
    return "; ".join(" ".join([name, *sources]) for name, sources in allowed.items())
