"""What can be bought: products, offers in the order to try them, templates as Novita's create takes them."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from enum import StrEnum

from functions.shared.domain.errors import CallerError, Fault, NotFound


@dataclass(frozen=True)
class Product:
    id: str
    name: str
    regions: tuple[str, ...]  # plain names: "US-CA-06", never "US-CA-06 (California)"
    available: bool
    price: Decimal | None  # USD for one GPU and hour, on demand; None when Novita named none
    spot_price: Decimal | None
    billing_methods: tuple[str, ...]
    memory_per_gpu: int = 0  # GB of system memory
    cpu_per_gpu: int = 0
    min_rootfs: int = 0
    max_rootfs: int = 0  # 0 = Novita named none


@dataclass(frozen=True)
class Offer:
    """One product in one region at one price: something that can be bought."""

    product_id: str
    product_name: str
    region: str
    cluster_id: str
    price: Decimal


@dataclass(frozen=True)
class Template:
    id: str
    name: str
    image: str
    image_auth: str = ""  # a registry-auth id, never a password
    ports: tuple[tuple[int, str], ...] = ()  # (8188, "http"), (22, "tcp")
    envs: tuple[tuple[str, str], ...] = ()
    start_command: str = ""
    entrypoint: str = ""
    min_cuda_version: str = ""
    rootfs_size: int = 0
    tools: tuple[tuple[str, str, str], ...] = ()  # (name, port, type)


@dataclass(frozen=True)
class StoredVolume:
    """A network volume as Novita has it: it can be mounted in its own region only."""

    id: str
    region: str


@dataclass(frozen=True)
class Order:
    """One create call, complete."""

    name: str
    offer: Offer
    template: Template
    gpu_num: int
    rootfs_size: int
    billing_mode: str
    volumes: tuple[tuple[str, str], ...] = ()  # (id, where it is mounted)


@dataclass(frozen=True)
class RegistryAuth:
    """What opens a private registry; used for one call, never stored."""

    id: str
    username: str
    password: str = field(repr=False)


CHEAPEST = "cheapest"
SPOT = "spot"


class Reason(StrEnum):
    """Why a region has no offer, in the order of the checks: the later, the closer it came."""

    NOT_SOLD = "NOT_SOLD_IN_REGION"
    BILLING = "BILLING_MODE_NOT_OFFERED"
    UNAVAILABLE = "NOT_AVAILABLE"
    ROOTFS = "ROOTFS_SIZE_OUT_OF_BOUNDS"
    NO_PRICE = "NO_PRICE"
    NO_CLUSTER = "UNKNOWN_CLUSTER"
    REFUSED = "RESOURCE_CONSTRAINTS"  # Novita refused it at this purchase for lack of capacity
    CAP = "PRICE_CAP_EXCEEDED"


_FURTHEST = list(Reason)


@dataclass(frozen=True)
class Choice:
    offers: tuple[Offer, ...]  # in the order to try; at least one
    reasons: Mapping[str, Reason]  # of every region looked at that has no offer


@dataclass(frozen=True)
class _Wanted:
    product_name: str
    gpu_num: int
    rootfs_size: int
    billing_mode: str
    max_price: Decimal | None
    excluded: Collection[tuple[str, str]]

    def price(self, product: Product) -> Decimal | None:
        return product.spot_price if self.billing_mode == SPOT else product.price


def plain_region(name: str) -> str:
    """US-CA-06 of "US-CA-06 (California)"."""
    return name.strip().partition(" ")[0]


def region_order(
    region: str | None, regions: Sequence[str] | None, default_region: str, priority: Sequence[str]
) -> tuple[str, ...]:
    """The request's own order where it names one; else its region or the default, then the priority list."""
    wanted = regions or (region or default_region, *priority)
    return tuple(dict.fromkeys(name for name in map(plain_region, wanted) if name))


def volumes_region(
    volumes: Sequence[StoredVolume], wanted: Sequence[str], region: str | None, regions: Sequence[str]
) -> str:
    """The one region that a machine with these volumes can be in, if the request allows for it."""
    known = {volume.id: volume.region for volume in volumes}
    if unknown := [one for one in wanted if one not in known]:
        raise NotFound("NETWORK_VOLUME_NOT_FOUND", f"Novita has no network volume {', '.join(unknown)}")
    found = {one: known[one] for one in wanted}
    allowed = [plain_region(one) for one in (regions or ([region] if region else []))]
    there = sorted(set(found.values()))
    if len(there) > 1:
        raise CallerError(
            "NETWORK_VOLUME_ELSEWHERE",
            f"The network volumes are in {' and '.join(there)}, and a machine is in one region",
            details={"volumes": found},
        )
    if allowed and there[0] not in allowed:
        raise CallerError(
            "NETWORK_VOLUME_ELSEWHERE",
            f"The network volumes are in {there[0]}, and the machine is asked for in {', '.join(allowed)}",
            details={"volumes": found, "regions": allowed},
        )
    return there[0]


def choose(
    products: Sequence[Product],
    clusters: Mapping[str, str],
    *,
    product_name: str,
    gpu_num: int,
    rootfs_size: int,
    billing_mode: str,
    regions: Sequence[str],
    max_price: Decimal | None = None,
    placement: str = "priority",
    only_these_regions: bool = False,
    excluded: Collection[tuple[str, str]] = (),
) -> Choice:
    """Region by region in the given order, or by price alone.

    `clusters` leads from a region's name to its id; `excluded` holds (product id, region) that Novita has
    refused; `only_these_regions` keeps "cheapest" to the regions that the request named.
    """
    named = [product for product in products if same_name(product.name, product_name)]
    if not named:
        raise NotFound("PRODUCT_NOT_FOUND", f"Novita sells no product named {product_name!r}")
    wanted = _Wanted(product_name, gpu_num, rootfs_size, billing_mode, max_price, excluded)
    looked_at = regions
    if placement == CHEAPEST and not only_these_regions:
        looked_at = list(dict.fromkeys([*regions, *(name for product in named for name in product.regions)]))
    ranked: list[tuple[Product, Offer]] = []
    capped: list[Decimal] = []
    reasons: dict[str, Reason] = {}
    for region in looked_at:
        here, why, too_dear = _in_region(named, region, clusters.get(region, ""), wanted)
        ranked += here
        capped += too_dear
        if not here:
            reasons[region] = why
    if not ranked:
        raise _no_offer(wanted, reasons, capped)
    if placement == CHEAPEST:
        ranked.sort(key=_rank)  # stable: of equals, the region that comes first in the order
    return Choice(tuple(offer for _, offer in ranked), reasons)


def _in_region(
    named: Sequence[Product], region: str, cluster_id: str, wanted: _Wanted
) -> tuple[list[tuple[Product, Offer]], Reason, list[Decimal]]:
    """The region's offers, cheapest first; why there is none; what was refused by the cap alone."""
    found, why, too_dear = [], Reason.NOT_SOLD, []
    for product in named:
        price = wanted.price(product)
        obstacle = _obstacle(product, region, cluster_id, wanted)
        if obstacle is None and price is not None:
            found.append((product, Offer(product.id, product.name, region, cluster_id, price)))
        elif obstacle is Reason.CAP and price is not None:
            too_dear.append(price)
        why = max(why, obstacle or why, key=_FURTHEST.index)
    return sorted(found, key=_rank), why, too_dear


def _obstacle(product: Product, region: str, cluster_id: str, wanted: _Wanted) -> Reason | None:
    price = wanted.price(product)
    checks = (
        (Reason.NOT_SOLD, region in product.regions),
        # A product that lists no billing methods is judged by its prices.
        (Reason.BILLING, not product.billing_methods or wanted.billing_mode in product.billing_methods),
        (Reason.UNAVAILABLE, product.available),
        (
            Reason.ROOTFS,
            product.min_rootfs <= wanted.rootfs_size <= (product.max_rootfs or wanted.rootfs_size),
        ),
        (Reason.NO_PRICE, price is not None and price > 0),
        (Reason.NO_CLUSTER, bool(cluster_id)),  # an empty cluster id would buy in a random region
        (Reason.REFUSED, (product.id, region) not in wanted.excluded),
        (Reason.CAP, wanted.max_price is None or price is None or price <= wanted.max_price),
    )
    return next((reason for reason, holds in checks if not holds), None)


def _rank(ranked: tuple[Product, Offer]) -> tuple[Decimal, int, int, str]:
    product, offer = ranked
    return offer.price, -product.memory_per_gpu, -product.cpu_per_gpu, product.id


def same_name(one: str, other: str) -> bool:
    return one.strip().casefold() == other.strip().casefold()


def _no_offer(wanted: _Wanted, reasons: Mapping[str, Reason], capped: Sequence[Decimal]) -> CallerError:
    details = {"regions": {region: str(reason) for region, reason in reasons.items()}}
    if capped:  # a higher cap would buy one
        lowest = min(capped)
        return CallerError(
            "PRICE_CAP_EXCEEDED",
            f"The lowest price for {wanted.product_name} is {lowest} USD per GPU and hour, above the cap",
            details={**details, "lowestPrice": str(lowest)},
        )
    many = "none" if wanted.gpu_num == 1 else f"no {wanted.gpu_num} together"
    return CallerError(
        "NO_OPTIMAL_PRODUCT_ANY_REGION",
        f"{wanted.product_name} exists, but {many} can be had in {', '.join(reasons)}",
        details=details,
    )


MAX_PORTS_AND_TOOLS = 15
MAX_ENVS = 100
MAX_ENV_KEY, MAX_ENV_VALUE = 511, 4095
MAX_IMAGE, MAX_COMMAND, MAX_WORD = 500, 2047, 255
RESERVED_PORTS = frozenset({2222, 2223, 2224})
_SENT_AS = {"http": "http", "https": "http", "tcp": "tcp"}


def validate_template(template: Template) -> Template:
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


def with_variables(template: Template, envs: Sequence[tuple[str, str]]) -> Template:
    """The template with the caller's variables: of the same name the caller's wins. The values of the
    template's may be left out, where only the number counts."""
    merged = {**dict(template.envs), **dict(envs)}
    if len(merged) > MAX_ENVS:
        raise CallerError(
            "TOO_MANY_VARIABLES",
            f"With those of template {template.id} there are {len(merged)} variables; "
            f"Novita takes {MAX_ENVS}",
        )
    return replace(template, envs=tuple(merged.items()))


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
    for attribute, code in (("start_command", "COMMAND"), ("entrypoint", "ENTRYPOINT")):
        if len(getattr(template, attribute)) > MAX_COMMAND:
            what = attribute.replace("_", " ")
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
