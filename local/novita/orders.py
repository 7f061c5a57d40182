"""The body of a create call, and every check on it that needs no knowledge of stock."""

import re
from typing import Literal

from pydantic import Field

from local.novita.catalog import Billing
from local.novita.errors import ApiError, parse_body
from local.novita.settings import Settings
from local.novita.wire import Lenient

SMALLEST_ROOTFS = 10
RESERVED_PORTS = frozenset({2222, 2223, 2224})
MOST_PORTS_AND_TOOLS = 15
PORT = re.compile(r"(\d{1,5})/(\w+)")
NAME = re.compile(r"[A-Za-z0-9-]*")


class Port(Lenient):
    port: int = Field(ge=1, le=65535)
    type: str


class Env(Lenient):
    key: str = Field(max_length=511)
    value: str = Field(max_length=4095)


class Tool(Lenient):
    name: str
    port: str = Field(pattern=r"^\d{1,5}$")
    type: str = "http"


class NetworkStorage(Lenient):
    id: str = Field(alias="Id")
    mount_point: str = Field(default="/network", min_length=1, max_length=4095)


class Order(Lenient):
    name: str = Field(default="", max_length=255)
    product_id: str = Field(min_length=1, max_length=255)
    gpu_num: int | None = Field(default=None, ge=1, le=8)
    rootfs_size: int | None = Field(default=None, le=6144)
    image_url: str = Field(min_length=1, max_length=500)
    image_auth: str = Field(default="", max_length=10239)
    image_auth_id: str = Field(default="", max_length=255)
    ports: str = ""
    envs: list[Env] = Field(default=[], max_length=100)
    tools: list[Tool] = Field(default=[])
    command: str = Field(default="", max_length=2047)
    entrypoint: str = Field(default="", max_length=2047)
    cluster_id: str = Field(default="", max_length=255)
    network_storages: list[NetworkStorage] = Field(default=[], max_length=30)
    network_id: str = ""
    kind: Literal["gpu", "cpu"] | None = None
    month: int = Field(default=0, ge=0)
    billing_mode: Billing = "onDemand"
    auto_renew: bool = False
    auto_renew_month: int | None = Field(default=None, ge=1, le=12)
    min_cuda_version: str = Field(default="", max_length=255)

    @property
    def gpus(self) -> int:
        return self.gpu_num or 1

    @property
    def rootfs(self) -> int:
        return max(self.rootfs_size or SMALLEST_ROOTFS, SMALLEST_ROOTFS)

    @property
    def billing(self) -> Billing:
        return "monthly" if self.month > 0 else self.billing_mode

    @property
    def port_list(self) -> list[Port]:
        return parse_ports(self.ports)


def read_order(body: object, settings: Settings) -> Order:
    order = parse_body(Order, body)
    _require(order.kind is not None or not settings.kind_required, "kind: required")
    if order.kind != "cpu":
        _require(order.gpu_num is not None, "gpuNum: required")
        _require(order.rootfs_size is not None, "rootfsSize: required")
    _require(
        not settings.strict_names or NAME.fullmatch(order.name) is not None,
        "name: only digits, letters and hyphens",
    )
    _require(not order.image_auth or ":" in order.image_auth, "imageAuth: not like username:password")
    check_ports(order.port_list, len(order.tools))
    return order


def _require(true: bool, otherwise: str) -> None:
    if not true:
        raise ApiError("VALIDATOR_PARAM", otherwise)


def parse_ports(text: str) -> list[Port]:
    return [_parse_one(part.strip()) for part in text.split(",")] if text.strip() else []


def _parse_one(text: str) -> Port:
    found = PORT.fullmatch(text)
    if not found or not 1 <= int(found[1]) <= 65535:
        raise ApiError("VALIDATOR_PARAM", f"ports: {text!r} is not like 80/http")
    return Port(port=int(found[1]), type=found[2])


def check_ports(ports: list[Port], tools: int) -> None:
    numbers = [port.port for port in ports]
    for port in ports:
        if port.type not in ("http", "tcp"):
            raise ApiError("VALIDATOR_PARAM", f"ports: type {port.type} of {port.port} is not http or tcp")
        if port.port in RESERVED_PORTS:
            raise ApiError("VALIDATOR_PARAM", f"ports: {port.port} is reserved")
    if len(set(numbers)) < len(numbers):
        raise ApiError("VALIDATOR_PARAM", "ports: a port is named twice")
    if len(ports) + tools > MOST_PORTS_AND_TOOLS:
        raise ApiError("VALIDATOR_PARAM", f"ports: more than {MOST_PORTS_AND_TOOLS} ports and tools")
