"""How many GPUs of a product are left where; machines that are stopped or gone hold none."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from local.novita.catalog import Product
from local.novita.lifecycle import WITHOUT_GPU
from local.novita.machines import Machine

UNLIMITED = 1_000_000
LOW = 2
NORMAL = 10


@dataclass
class Stock:
    machines: Iterable[Machine]
    t: float

    @cached_property
    def used(self) -> Counter[tuple[str, str]]:
        """Counted only when a product has an end, and then once."""
        used: Counter[tuple[str, str]] = Counter()
        for machine in self.machines:
            if machine.status(self.t) not in WITHOUT_GPU:
                used[machine.terms.product_id, machine.terms.region] += machine.terms.gpu_num
        return used

    def free(self, product: Product, region: str) -> int:
        if not product.available or region not in product.regions:
            return 0
        if region not in product.stock:
            return UNLIMITED
        return max(product.stock[region] - self.used[product.id, region], 0)

    def most_free(self, product: Product, region: str | None = None) -> int:
        """The most that one machine could have, in one region or in the best of all."""
        regions = [region] if region else product.regions
        return max((self.free(product, one) for one in regions), default=0)


def inventory_state(free: int) -> str:
    if free == 0:
        return "none"
    if free <= LOW:
        return "low"
    return "normal" if free <= NORMAL else "high"
