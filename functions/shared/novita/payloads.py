"""Novita's payloads as our values and ours as its: numbers as text, "0" for never, nonsense as nothing."""

import re
from dataclasses import asdict
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

from functions.shared.domain.instance.gpu_use import GpuSeries
from functions.shared.domain.instance.machine import Connection, Endpoint, Machine, Mount
from functions.shared.domain.market import Order, Product, RegistryAuth, StoredVolume, Template, plain_region
from functions.shared.novita.calls import quoted

_EXPONENTS = range(-15, 15)  # of any number that means something here; 1e999999 is an attack on arithmetic
_UNITS_PER_USD = 100_000
_BILLING_UNITS_PER_USD = 10_000
_MILLISECONDS_FROM = 10**11
_ERROR_CHARACTERS = 400  # the reason of a failed pull comes last, after names and addresses


def text(value: Any) -> str:
    if isinstance(value, str):
        return value.strip()
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else ""


def decimal(value: Any) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str) or len(str(value)) > 40:
        return None
    try:
        number = Decimal(str(value).strip())
    except InvalidOperation:
        return None
    return number if number.is_finite() and number.adjusted() in _EXPONENTS else None


def integer(value: Any) -> int | None:
    number = decimal(value)
    return int(number) if number is not None and number == number.to_integral_value() else None


def usd(value: Any) -> Decimal | None:
    """Prices are in 1/100,000 USD; one that is not above zero is none."""
    number = decimal(value)
    return number / _UNITS_PER_USD if number is not None and number > 0 else None


_BALANCES = {
    "availableBalance": "availableUsd",
    "cashBalance": "cashUsd",
    "creditLimit": "creditLimitUsd",
    "outstandingInvoices": "outstandingUsd",
}


def read_balance(body: Any) -> dict[str, Decimal]:
    """The billing API counts in 1/10,000 USD; its data may be wrapped as other answers are."""
    facts = mapping(mapping(body).get("data")) or mapping(body)
    found = {ours: decimal(facts.get(theirs)) for theirs, ours in _BALANCES.items()}
    return {name: amount / _BILLING_UNITS_PER_USD for name, amount in found.items() if amount is not None}


def read_bills(body: Any, machine_id: str) -> list[Decimal] | None:
    """What was billed for the machine, in USD, whether it was paid with money or a voucher; None where any of
    it cannot be read."""
    facts = mapping(mapping(body).get("data")) or mapping(body)
    shown = facts.get("bills", [])
    if not isinstance(shown, list):
        return None
    amounts: list[Decimal] = []
    for one in map(mapping, shown):
        if text(one.get("ownerID") or one.get("ownerId")) not in ("", machine_id):
            continue
        paid, voucher = decimal(one.get("payAmount")), decimal(one.get("voucherAmount", 0) or 0)
        if paid is None or voucher is None:
            return None
        amounts.append((paid + voucher) / _BILLING_UNITS_PER_USD)
    return amounts


def read_gpu_use(body: Any) -> GpuSeries | None:
    """None where any of it cannot be read: half of it may be the half that was idle."""
    facts = mapping(mapping(body).get("data")) or mapping(body)
    shown = mapping(facts.get("gpuUtilization")).get("gpuIds")
    if not isinstance(shown, list) or not shown:
        return None
    series = []
    for gpu in map(mapping, shown):
        items = gpu.get("items")
        if not isinstance(items, list) or not text(gpu.get("gpuId")):
            return None
        samples = [(moment(one.get("timestamp")), decimal(one.get("value"))) for one in map(mapping, items)]
        read = tuple((at, float(value)) for at, value in samples if at is not None and value is not None)
        if len(read) < len(items):
            return None
        series.append((text(gpu.get("gpuId")), read))
    return tuple(series)


def moment(value: Any) -> datetime | None:
    """Unix seconds, mostly as text; "0" and "-1" are never."""
    seconds = integer(value)
    if seconds is None or seconds <= 0:
        return None
    try:
        return datetime.fromtimestamp(seconds / 1000 if seconds >= _MILLISECONDS_FROM else seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def flag(value: Any, default: bool) -> bool:
    if isinstance(value, bool):
        return value
    return {"true": True, "1": True, "false": False, "0": False}.get(text(value).lower(), default)


def objects(value: Any) -> list[dict[str, Any]]:
    """The readable entries of what should be a list of objects."""
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


_ENDPOINT_TYPES = {"http": "http", "https": "http", "tcp": "tcp"}


def read_machine(entry: Any, asked_for: str = "") -> Machine | None:
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
        started_at=moment(facts.get("lastStartedAt")),
        stopped_at=moment(facts.get("lastStoppedAt")),
        price=usd(facts.get("instancePrice")),
        storage_price=usd(facts.get("exitedLocalStoragePrice")),
        ends_at=moment(facts.get("endTime")),
        cluster_id=text(facts.get("clusterId")),
        image=_LOGIN.sub("", text(facts.get("imageUrl"))),
        cpu_num=_positive(facts.get("cpuNum")),
        memory=_positive(facts.get("memory")),
        mounts=tuple(map(_mount, objects(facts.get("volumeMounts")))),
    )


_LOGIN = re.compile(r"[^\s/@]+@(?!sha\d+:)")  # of an image's name, where somebody has put it there


def _positive(value: Any) -> int | None:
    number = integer(value)
    return number if number and number > 0 else None


def _mount(facts: dict[str, Any]) -> Mount:
    size = _positive(facts.get("size"))
    path = text(facts.get("mountPath")) or text(facts.get("mountPoint"))
    return Mount(text(facts.get("type")), path, text(facts.get("id")) or text(facts.get("Id")), size)


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


_ERROR_PARTS = ("state", "reason", "error", "message", "errorMessage")
_NO_ERROR = frozenset({"", "none", "null", "ok", "normal", "success", "running"})


def _status_error(value: Any) -> str:
    """One line of what is wrong: an object by the documentation, perhaps a text. A state alone that says
    that all is well is no error."""
    facts = mapping(value) or {"message": value}
    parts = dict.fromkeys(filter(None, (text(facts.get(part)) for part in _ERROR_PARTS)))
    said = quoted(": ".join(parts), _ERROR_CHARACTERS)
    return "" if said.lower() in _NO_ERROR else said


def read_product(entry: Any) -> Product | None:
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


def read_cluster(entry: Any) -> tuple[str, str] | None:
    """(region name, cluster id)"""
    facts = mapping(entry)
    name, id_ = plain_region(text(facts.get("name"))), text(facts.get("id"))
    return (name, id_) if name and id_ else None


def read_template(entry: Any, asked_for: str) -> Template | None:
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


def read_registry_auth(entry: Any) -> RegistryAuth | None:
    facts = mapping(entry)
    id_ = text(facts.get("id"))
    return RegistryAuth(id_, text(facts.get("username")), _value(facts.get("password"))) if id_ else None


def read_volume(entry: Any) -> StoredVolume | None:
    facts = mapping(entry)
    id_ = text(facts.get("storageId")) or text(facts.get("id")) or text(facts.get("Id"))
    region = plain_region(text(facts.get("clusterName")))
    return StoredVolume(id_, region) if id_ and region else None


def read_connection(entry: Any) -> Connection:
    facts = mapping(entry)
    ssh = mapping(facts.get("connectComponentSSH"))
    terminal = mapping(facts.get("connectComponentWebTerminal"))
    log = mapping(facts.get("connectComponentLog"))
    return Connection(
        ssh_command=text(ssh.get("sshCommand")) or text(facts.get("sshCommand")),
        ssh_password=_value(ssh.get("password")) or _value(facts.get("sshPassword")),
        jupyter_address=text(mapping(facts.get("connectComponentJupyter")).get("address")),
        terminal_address=text(terminal.get("address")),
        terminal_username=text(terminal.get("username")),
        terminal_password=_value(terminal.get("password")),
        system_log=text(log.get("systemLogAddress")),
        instance_log=text(log.get("instanceLogAddress")),
    )


# A password that Novita shows as stars, dots or nothing is not one that a registry takes.
_MASKED = re.compile(r"[*•●xX.]*")


def is_masked(auth: RegistryAuth) -> bool:
    return not auth.username or bool(_MASKED.fullmatch(auth.password)) or "***" in auth.password


def order_body(order: Order, auth: RegistryAuth | None = None) -> dict[str, Any]:
    """`auth` stands in for the template's registry auth id where Novita did not take that."""
    template = order.template
    optional = {
        "imageAuthId": "" if auth else template.image_auth,
        "imageAuth": f"{auth.username}:{auth.password}" if auth else "",
        "ports": ",".join(f"{port}/{type_}" for port, type_ in template.ports),
        "envs": [{"key": key, "value": value} for key, value in template.envs],
        "tools": [{"name": name, "port": port, "type": type_} for name, port, type_ in template.tools],
        "command": template.start_command,
        "entrypoint": template.entrypoint,
        "minCudaVersion": template.min_cuda_version,
        "networkStorages": [{"Id": id_, "mountPoint": path} for id_, path in order.volumes],
    }
    return {
        "kind": "gpu",
        "name": order.name,
        "productId": order.offer.product_id,
        "gpuNum": order.gpu_num,
        "rootfsSize": order.rootfs_size,
        "imageUrl": template.image,
        "clusterId": order.offer.cluster_id,
        "billingMode": order.billing_mode,
        **{name: value for name, value in optional.items() if value},
    }


def product_to_json(product: Product) -> dict[str, Any]:
    facts = asdict(product)
    for name in ("price", "spot_price"):
        facts[name] = None if facts[name] is None else str(facts[name])
    return facts | {"regions": list(product.regions), "billing_methods": list(product.billing_methods)}


def product_from_json(facts: dict[str, Any]) -> Product:
    prices = {name: None if facts[name] is None else Decimal(facts[name]) for name in ("price", "spot_price")}
    lists = {name: tuple(facts[name]) for name in ("regions", "billing_methods")}
    numbers = {
        name: int(facts[name]) for name in ("memory_per_gpu", "cpu_per_gpu", "min_rootfs", "max_rootfs")
    }
    return Product(**{**facts, **prices, **lists, **numbers})


def template_to_json(template: Template) -> dict[str, Any]:
    """With the values of its variables, which may be secrets: whoever stores it decides about that."""
    facts = asdict(template)
    return facts | {name: [list(entry) for entry in facts[name]] for name in ("ports", "envs", "tools")}


def template_from_json(facts: dict[str, Any]) -> Template:
    lists = {name: tuple(tuple(entry) for entry in facts[name]) for name in ("envs", "tools")}
    ports = tuple((int(port), type_) for port, type_ in facts["ports"])
    return Template(**{**facts, **lists, "ports": ports, "rootfs_size": int(facts["rootfs_size"])})
