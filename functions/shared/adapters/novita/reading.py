"""Novita's payloads as our values; None for an entry that cannot be one."""

from typing import Any

from functions.shared.adapters.novita.quoting import quoted
from functions.shared.adapters.novita.scalars import flag, integer, mapping, moment, objects, text, usd
from functions.shared.domain.machine import Connection, Endpoint, Machine, Product, RegistryAuth, Template
from functions.shared.domain.offers import plain_region

_ENDPOINT_TYPES = {"http": "http", "https": "http", "tcp": "tcp"}


def machine(entry: Any, asked_for: str = "") -> Machine | None:
    """`asked_for`: the id that a get named; its answer may leave it out."""
    facts = mapping(entry)
    id_ = text(facts.get("id")) or (asked_for if "status" in facts else "")
    if not id_:
        return None
    return Machine(
        id=id_,
        name=text(facts.get("name")),
        status=text(facts.get("status")),
        endpoints=_endpoints(facts.get("portMappings")),
        region=plain_region(text(facts.get("clusterName"))),
        product_id=text(facts.get("productId")),
        product_name=text(facts.get("productName")),
        gpu_num=integer(facts.get("gpuNum")),
        rootfs_size=integer(facts.get("rootfsSize")) or None,
        billing_mode=text(facts.get("billingMode")),
        spot_status=text(facts.get("spotStatus")),
        spot_reclaim_at=moment(facts.get("spotReclaimTime")),
        error=_status_error(facts.get("statusError")),
        created_at=moment(facts.get("createdAt")) or moment(facts.get("createTime")),
    )


def _endpoints(value: Any) -> tuple[Endpoint, ...]:
    read = (_endpoint(entry) for entry in objects(value))
    return tuple(endpoint for endpoint in read if endpoint)


def _endpoint(facts: dict[str, Any]) -> Endpoint | None:
    port, address = integer(facts.get("port")), text(facts.get("endpoint"))
    unsaid = "http" if address.startswith("http") else "tcp"
    type_ = _ENDPOINT_TYPES.get(text(facts.get("type")).lower() or unsaid)
    if not port or type_ is None:
        return None
    return Endpoint(port, type_, _url(address) if type_ == "http" else address.removeprefix("tcp://"))


def _url(address: str) -> str:
    """Novita's gateway speaks TLS; an older bare address with a port does not."""
    if not address or "://" in address:
        return address
    return f"{'http' if ':' in address else 'https'}://{address}"


def _status_error(value: Any) -> str:
    if isinstance(value, str):
        return quoted(value)
    parts = (text(mapping(value).get(key)) for key in ("state", "message"))
    return quoted(": ".join(part for part in parts if part))


def product(entry: Any) -> Product | None:
    facts = mapping(entry)
    id_, name = text(facts.get("id")), text(facts.get("name"))
    if not id_ or not name:
        return None
    in_stock = text(facts.get("inventoryState")).lower() != "none"
    return Product(
        id=id_,
        name=name,
        regions=tuple(dict.fromkeys(filter(None, map(plain_region, _texts(facts.get("regions")))))),
        available=flag(facts.get("availableDeploy"), default=in_stock),
        price=usd(facts.get("price")),
        spot_price=usd(facts.get("spotPrice")),
        billing_methods=tuple(filter(None, _texts(facts.get("billingMethods")))),
        memory_per_gpu=integer(facts.get("memoryPerGpu")) or 0,
        cpu_per_gpu=integer(facts.get("cpuPerGpu")) or 0,
        min_rootfs=integer(facts.get("minRootFS")) or 0,
        max_rootfs=integer(facts.get("maxRootFS")) or 0,
    )


def _texts(value: Any) -> list[str]:
    return [text(entry) for entry in value] if isinstance(value, list) else []


def cluster(entry: Any) -> tuple[str, str] | None:
    """(region name, cluster id)"""
    facts = mapping(entry)
    name, id_ = plain_region(text(facts.get("name"))), text(facts.get("id"))
    return (name, id_) if name and id_ else None


def template(entry: Any, asked_for: str) -> Template | None:
    """What cannot be read stays in as nothing (port 0, a nameless variable), so that validation names it."""
    facts = mapping(entry)
    if not any(text(facts.get(key)) for key in ("Id", "id", "image", "name")):
        return None
    return Template(
        id=text(facts.get("Id")) or text(facts.get("id")) or asked_for,
        name=text(facts.get("name")),
        image=text(facts.get("image")),
        image_auth=text(facts.get("imageAuth")),
        ports=tuple(
            (integer(port) or 0, text(group.get("type")).lower())
            for group in objects(facts.get("ports"))
            for port in _ports(group)
        ),
        envs=tuple((text(env.get("key")), _value(env.get("value"))) for env in objects(facts.get("envs"))),
        start_command=text(facts.get("startCommand")),
        entrypoint=text(facts.get("entrypoint")),
        min_cuda_version=text(facts.get("minCudaVersion")),
        rootfs_size=integer(facts.get("rootfsSize")) or 0,
        tools=tuple(
            (text(tool.get("name")), text(tool.get("port")), text(tool.get("type")).lower() or "http")
            for tool in objects(facts.get("tools"))
        ),
    )


def _ports(group: dict[str, Any]) -> list[Any]:
    ports = group.get("ports", group.get("port"))
    return ports if isinstance(ports, list) else [] if ports is None else [ports]


def _value(value: Any) -> str:
    """White space in a variable's value is somebody's intention."""
    return value if isinstance(value, str) else text(value)


def registry_auth(entry: Any) -> RegistryAuth | None:
    facts = mapping(entry)
    id_ = text(facts.get("id"))
    return RegistryAuth(id_, text(facts.get("username")), _value(facts.get("password"))) if id_ else None


def connection(entry: Any) -> Connection:
    facts = mapping(entry)
    ssh = mapping(facts.get("connectComponentSSH"))
    terminal = mapping(facts.get("connectComponentWebTerminal"))
    return Connection(
        ssh_command=text(ssh.get("sshCommand")) or text(facts.get("sshCommand")),
        ssh_password=_value(ssh.get("password")) or _value(facts.get("sshPassword")),
        jupyter_address=text(mapping(facts.get("connectComponentJupyter")).get("address")),
        terminal_address=text(terminal.get("address")),
        terminal_username=text(terminal.get("username")),
        terminal_password=_value(terminal.get("password")),
    )
