"""Ports as Novita takes them: one string `"80/http, 22/tcp"` on create, an array on edit."""

import re

from pydantic import Field

from local.novita.errors import ApiError
from local.novita.wire import Lenient

FORBIDDEN = frozenset({2222, 2223, 2224})
MOST_PORTS_AND_TOOLS = 15
ONE = re.compile(r"(\d{1,5})/(\w+)")


class Port(Lenient):
    port: int = Field(ge=1, le=65535)
    type: str


def parse_ports(text: str) -> list[Port]:
    return [_parse_one(part.strip()) for part in text.split(",")] if text.strip() else []


def _parse_one(text: str) -> Port:
    found = ONE.fullmatch(text)
    if not found or not 1 <= int(found[1]) <= 65535:
        raise ApiError("VALIDATOR_PARAM", f"ports: {text!r} is not like 80/http")
    return Port(port=int(found[1]), type=found[2])


def check_ports(ports: list[Port], tools: int) -> None:
    numbers = [port.port for port in ports]
    for port in ports:
        if port.type not in ("http", "tcp"):
            raise ApiError("VALIDATOR_PARAM", f"ports: type {port.type} of {port.port} is not http or tcp")
        if port.port in FORBIDDEN:
            raise ApiError("VALIDATOR_PARAM", f"ports: {port.port} is reserved")
    if len(set(numbers)) < len(numbers):
        raise ApiError("VALIDATOR_PARAM", "ports: a port is named twice")
    if len(ports) + tools > MOST_PORTS_AND_TOOLS:
        raise ApiError("VALIDATOR_PARAM", f"ports: more than {MOST_PORTS_AND_TOOLS} ports and tools")
