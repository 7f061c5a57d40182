"""Whether a template can be bought from: image, ports, variables, commands as Novita's create takes them."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from functions.shared.domain.errors import CallerError
from functions.shared.domain.machine import Template

MAX_PORTS_AND_TOOLS = 15
MAX_ENVS = 100
MAX_ENV_KEY, MAX_ENV_VALUE = 511, 4095
MAX_IMAGE, MAX_COMMAND, MAX_WORD = 500, 2047, 255
RESERVED_PORTS = frozenset({2222, 2223, 2224})
_SENT_AS = {"http": "http", "https": "http", "tcp": "tcp"}


@dataclass(frozen=True)
class Fault:
    code: str
    message: str


def validate(template: Template) -> Template:
    """The template as it is sent, or every fault at once, without the values of variables."""
    ports = dict.fromkeys((port, _SENT_AS.get(type_.lower(), type_)) for port, type_ in template.ports)
    tools = tuple((name, port, _SENT_AS.get(type_.lower(), type_)) for name, port, type_ in template.tools)
    sent = replace(template, ports=tuple(ports), tools=tools)
    faults = list(_faults(sent))
    if faults:
        raise CallerError(
            faults[0].code,
            f"Template {template.id} cannot be used: {'; '.join(fault.message for fault in faults)}",
            details={"faults": [{"code": fault.code, "message": fault.message} for fault in faults]},
        )
    return sent


def _faults(template: Template) -> Iterator[Fault]:
    if not 1 <= len(template.image) <= MAX_IMAGE or re.search(r"\s", template.image):
        yield Fault(
            "INVALID_TEMPLATE_IMAGE", f"the image must be 1 to {MAX_IMAGE} characters without white space"
        )
    if len(template.image_auth) > MAX_WORD:
        yield Fault("INVALID_TEMPLATE_IMAGE_AUTH", f"the registry auth is longer than {MAX_WORD} characters")
    yield from _port_faults(template)
    yield from _tool_faults(template)
    yield from _env_faults(template)
    for field, code in (("start_command", "COMMAND"), ("entrypoint", "ENTRYPOINT")):
        if len(getattr(template, field)) > MAX_COMMAND:
            what = field.replace("_", " ")
            yield Fault(f"INVALID_TEMPLATE_{code}", f"the {what} is longer than {MAX_COMMAND} characters")
    if len(template.min_cuda_version) > MAX_WORD:
        yield Fault("INVALID_TEMPLATE_CUDA_VERSION", f"the CUDA version is longer than {MAX_WORD} characters")


def _port_faults(template: Template) -> Iterator[Fault]:
    for port, type_ in template.ports:
        if fault := _port_fault(port, type_):
            yield Fault("INVALID_TEMPLATE_PORT", f"port {port}/{type_[:20]}: {fault}")
    if len(template.ports) + len(template.tools) > MAX_PORTS_AND_TOOLS:
        yield Fault("INVALID_TEMPLATE_PORT", f"more than {MAX_PORTS_AND_TOOLS} ports and tools")


def _port_fault(port: int, type_: str) -> str:
    if type_ not in _SENT_AS.values():
        return "only http, https and tcp can be opened"
    if not 1 <= port <= 65535:
        return "not between 1 and 65535"
    return "kept by Novita for itself" if port in RESERVED_PORTS else ""


def _tool_faults(template: Template) -> Iterator[Fault]:
    for name, port, type_ in template.tools:
        number = int(port) if port.isascii() and port.isdigit() and len(port) <= 5 else 0
        if not name or _port_fault(number, type_):
            yield Fault(
                "INVALID_TEMPLATE_TOOL", f"tool {name[:40]!r} has no name or no port that can be opened"
            )


def _env_faults(template: Template) -> Iterator[Fault]:
    if len(template.envs) > MAX_ENVS:
        yield Fault("INVALID_TEMPLATE_ENV", f"more than {MAX_ENVS} variables")
    for number, (key, value) in enumerate(template.envs, 1):
        if not key.strip() or len(key) > MAX_ENV_KEY:
            yield Fault(
                "INVALID_TEMPLATE_ENV", f"the name of variable {number} is not 1 to {MAX_ENV_KEY} characters"
            )
        elif len(value) > MAX_ENV_VALUE:
            yield Fault(
                "INVALID_TEMPLATE_ENV", f"the value of {key[:40]!r} is longer than {MAX_ENV_VALUE} characters"
            )
