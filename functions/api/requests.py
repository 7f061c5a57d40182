"""The request being answered: its ids, its body parsed or refused with all bad fields, and who asks."""

import base64
import binascii
import json
import re
from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4

from functions.shared.domain.errors import CallerError, FieldError, ValidationFailed
from functions.shared.platform.invocation import Invocation
from functions.shared.platform.wiring import Wiring
from functions.shared.stores.idempotency import IdempotentRequest, idempotent_request

if TYPE_CHECKING:
    from functions.api.auth import Caller


MAX_BODY_BYTES = 1_048_576
# A body of 1 MB can hold so many bad fields that the answer would be too large to be sent.
_MOST_FIELDS, _LONGEST_NAME = 100, 200

_FIELD_CODES = {
    "name": "INVALID_INSTANCE_NAME",
    "instanceName": "INVALID_INSTANCE_NAME",
    "regions": "INVALID_REGION",
}


_ID = re.compile(r"[A-Za-z0-9._-]{1,128}")


@dataclass(frozen=True)
class RequestIds:
    request_id: str
    correlation_id: str

    def headers(self) -> dict[str, str]:
        return {"X-Request-ID": self.request_id, "X-Correlation-ID": self.correlation_id}


def read_ids(headers: Mapping[str, str]) -> RequestIds:
    """Header names arrive in lower case from an HTTP API."""
    request_id = _valid_id(headers.get("x-request-id")) or str(uuid4())
    return RequestIds(request_id, _valid_id(headers.get("x-correlation-id")) or request_id)


def _valid_id(value: str | None) -> str | None:
    return value if value and _ID.fullmatch(value) else None


def as_get(event: Mapping[str, Any]) -> dict[str, Any] | None:
    """A HEAD as the GET whose answer it wants without the body; None if it is no HEAD."""
    context = event.get("requestContext", {})
    if context.get("http", {}).get("method") != "HEAD":
        return None
    return {**event, "requestContext": {**context, "http": {**context["http"], "method": "GET"}}}


def as_json(event: Mapping[str, Any]) -> dict[str, Any]:
    """The body as text, and JSON whatever its content type says: `curl -d` calls it a form."""
    headers = {**(event.get("headers") or {}), "content-type": "application/json"}
    return {**event, "headers": headers, "body": _text(event), "isBase64Encoded": False}


def _text(event: Mapping[str, Any]) -> str | None:
    """The gateway sends what it does not take for text in base64."""
    body: str | None = event.get("body")
    if not body or not event.get("isBase64Encoded"):
        return body
    try:
        return base64.b64decode(body).decode()
    except (binascii.Error, UnicodeDecodeError):
        raise CallerError("MALFORMED_JSON", "The body is not text in UTF-8") from None


def read_json(text: str) -> Any:
    """Strict JSON: no NaN, no endless nesting, nothing after the end, and no body but an object."""
    try:
        body = json.loads(text, parse_constant=_no_constant, parse_float=_number)
    except RecursionError:
        raise CallerError("MALFORMED_JSON", "The body is nested too deeply") from None
    except ValueError as error:
        where = f" at character {error.pos}" if isinstance(error, json.JSONDecodeError) else ""
        raise CallerError("MALFORMED_JSON", f"The body is not JSON{where}") from None
    # Powertools would take the first element of an array for the body.
    if body is not None and not isinstance(body, dict):
        raise ValidationFailed([FieldError("body", "INVALID_BODY", "Must be an object")])
    return body


_EXACT = 2**53  # up to here a float is the whole number that was written


def _number(text: str) -> float:
    """2.0 is the whole number 2, as JSON Schema has it."""
    number = float(text)
    return int(number) if number.is_integer() and abs(number) <= _EXACT else number


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def validation_failed(problems: Iterable[Mapping[str, Any]]) -> ValidationFailed:
    """The validator's problems as our field errors; what was sent is never repeated."""
    return ValidationFailed([_field_error(problem) for problem in islice(problems, _MOST_FIELDS)])


def _field_error(problem: Mapping[str, Any]) -> FieldError:
    path = [str(part) for part in problem["loc"][1:]] or ["body"]
    name = ".".join(path)[:_LONGEST_NAME]
    if problem["type"] == "extra_forbidden":
        return FieldError(name, "UNKNOWN_FIELD", "There is no such field")
    return FieldError(name, field_code(path[0]), _sentence(problem))


def field_code(name: str) -> str:
    words = re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).replace("-", "_")
    return _FIELD_CODES.get(name) or f"INVALID_{words.upper()}"


def _sentence(problem: Mapping[str, Any]) -> str:
    if problem["type"] == "missing":
        return "Is required"
    text = str(problem["msg"]).removeprefix("Value error, ")
    return text[:1].upper() + text[1:]


T = TypeVar("T")

_run: ContextVar[Invocation] = ContextVar("run")
_caller: ContextVar["Caller"] = ContextVar("caller")


def begin(nobody: "Caller") -> None:
    """Until it is known who asks: never whoever asked before."""
    _caller.set(nobody)


def enter(run: Invocation, who: "Caller") -> None:
    _run.set(run)
    _caller.set(who)


def invocation() -> Invocation:
    return _run.get()


def use_case(kind: type[T]) -> T:
    return _run.get().compose(kind)


def wired() -> Wiring:
    """For what is only read from a store and shown."""
    return _run.get().wiring


def caller() -> "Caller":
    return _caller.get()


def idempotent(route: str, key: str | None, body: Any) -> IdempotentRequest | None:
    """What an Idempotency-Key stands for: this caller, this route, this body."""
    return idempotent_request(caller().id, route, key, body) if key else None
