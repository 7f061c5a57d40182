"""Errors as Novita words them: {code, reason, message, metadata}, the code being the HTTP status."""

from typing import Any

from local.novita.wire import InputError, W, parse

# Every reason that is not here is a 400.
STATUS_OF = {
    "UNKNOWN": 500,
    "WALLET_NOT_FOUND": 500,
    "UNAUTHORIZED": 401,
    "FORBIDDEN": 403,
    "RATE_LIMIT_EXCEEDED": 429,
    "SEND_CODE_TOO_FAST": 429,
}

REASON_OF = {
    400: "REQUEST",
    401: "UNAUTHORIZED",
    403: "FORBIDDEN",
    404: "RESOURCE_NOT_FOUND",
    429: "RATE_LIMIT_EXCEEDED",
}


class ApiError(Exception):
    def __init__(self, reason: str, message: str, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.retry_after = retry_after

    def status(self, not_found_as: int) -> int:
        if self.reason == "RESOURCE_NOT_FOUND":
            return not_found_as
        return STATUS_OF.get(self.reason, 400)


def parse_body(model: type[W], body: object) -> W:
    try:
        return parse(model, body)
    except InputError as bad:
        raise ApiError("VALIDATOR_PARAM", str(bad)) from None


def reason_for(status: int) -> str:
    return REASON_OF.get(status, "UNKNOWN" if status >= 500 else "REQUEST")


def error_body(status: int, reason: str, message: str) -> dict[str, Any]:
    return {"code": status, "reason": reason, "message": message, "metadata": {}}
