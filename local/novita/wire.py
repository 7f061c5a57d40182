"""Parsing of JSON that comes from outside: strict types, camelCase names, messages that name the field."""

from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel

API_PREFIX = "/gpu-instance/openapi/v1"
BILLING_PREFIX = "/openapi/v1"


class InputError(Exception):
    """What was sent is wrong; the text says which field and why."""


class Wire(BaseModel):
    model_config = ConfigDict(
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        extra="forbid",
        strict=True,
        allow_inf_nan=False,
    )

    def to_json(self) -> dict[str, Any]:
        return self.model_dump(mode="json", by_alias=True)


class Lenient(Wire):
    """Novita drops fields that it does not know."""

    model_config = ConfigDict(extra="ignore")


W = TypeVar("W", bound=Wire)


def parse(model: type[W], body: object) -> W:
    try:
        return model.model_validate(body, by_alias=True, by_name=False)
    except ValidationError as error:
        raise InputError("; ".join(_sentence(dict(fault)) for fault in error.errors())) from None


def _sentence(fault: dict[str, Any]) -> str:
    field = ".".join(str(part) for part in fault["loc"])
    if fault["type"] == "extra_forbidden":
        return f"{field}: not known"
    return f"{field}: {fault['msg']}" if field else str(fault["msg"])
