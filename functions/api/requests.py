"""Parsing: from what arrived to what was asked, or one error that names every bad field."""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from functions.shared.domain.errors import CallerError, FieldError, ValidationFailed
from functions.shared.domain.outbound import BadTarget, networks, parse_target

MAX_BODY_BYTES = 1_048_576

_FIELD_CODES = {
    "name": "INVALID_INSTANCE_NAME",
    "instanceName": "INVALID_INSTANCE_NAME",
    "regions": "INVALID_REGION",
}


def read_json(text: str) -> Any:
    """Strict JSON: no NaN, no endless nesting, nothing after the end."""
    try:
        return json.loads(text, parse_constant=_no_constant)
    except RecursionError:
        raise CallerError("MALFORMED_JSON", "The body is nested too deeply") from None
    except ValueError as error:
        where = f" at character {error.pos}" if isinstance(error, json.JSONDecodeError) else ""
        raise CallerError("MALFORMED_JSON", f"The body is not JSON{where}") from None


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def validation_failed(problems: Iterable[Mapping[str, Any]]) -> ValidationFailed:
    """From the validator's findings to fields and codes of ours; what was sent is never repeated."""
    return ValidationFailed([_field_error(problem) for problem in problems])


def _field_error(problem: Mapping[str, Any]) -> FieldError:
    place = [str(part) for part in problem["loc"][1:]] or ["body"]
    name = ".".join(place)
    if problem["type"] == "extra_forbidden":
        return FieldError(name, "UNKNOWN_FIELD", "There is no such field")
    return FieldError(name, field_code(place[0]), _sentence(problem))


def field_code(name: str) -> str:
    return _FIELD_CODES.get(name) or "INVALID_" + re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).upper()


def _sentence(problem: Mapping[str, Any]) -> str:
    if problem["type"] == "missing":
        return "Is required"
    text = str(problem["msg"]).removeprefix("Value error, ")
    return text[:1].upper() + text[1:]


def reachable(url: str | None, allow_cidrs: str) -> str | None:
    """A webhook address that is not public is refused now, where its spelling already tells."""
    if url is None:
        return None
    try:
        parse_target(url, networks(allow_cidrs))
    except BadTarget as error:
        problem = FieldError("webhookUrl", "INVALID_WEBHOOK_URL", str(error))
        raise ValidationFailed([problem]) from None
    return url
