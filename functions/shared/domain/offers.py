"""Which offers meet a request, in the order to try them, and why each other region has none."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum

from functions.shared.domain.errors import CallerError, NotFound
from functions.shared.domain.machine import Offer, Product

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
    named = [product for product in products if _same_name(product.name, product_name)]
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
        raise _none(wanted, reasons, capped)
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


def _same_name(one: str, other: str) -> bool:
    return one.strip().casefold() == other.strip().casefold()


def _none(wanted: _Wanted, reasons: Mapping[str, Reason], capped: Sequence[Decimal]) -> CallerError:
    details = {"regions": {region: str(reason) for region, reason in reasons.items()}}
    if capped:  # a higher cap would buy one
        lowest = min(capped)
        return CallerError(
            "PRICE_CAP_EXCEEDED",
            f"The lowest price for {wanted.product_name} is {lowest} USD per GPU and hour, above the cap",
            details={**details, "lowestPrice": str(lowest)},
        )
    return CallerError(
        "NO_OPTIMAL_PRODUCT_ANY_REGION",
        f"{wanted.product_name} exists, but no {wanted.gpu_num} can be had in {', '.join(reasons)}",
        details=details,
    )
