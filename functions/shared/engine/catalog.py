"""What Novita sells and which templates it has, from the shared cache where that is good enough."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from functions.shared.domain.errors import CallerError, NotFound
from functions.shared.domain.instance.record import Spec
from functions.shared.domain.market import (
    SPOT,
    Choice,
    Product,
    Template,
    choose,
    region_order,
    validate_template,
)
from functions.shared.novita.payloads import (
    product_from_json,
    product_to_json,
    template_from_json,
    template_to_json,
)

if TYPE_CHECKING:
    from functions.shared.novita.client import Novita
    from functions.shared.stores.cache import SharedCache


T = TypeVar("T")

# How long a purchase waits for its first slot. Others wait up to three times as long, so that however many
# want to buy, there is room behind them for looks at machines that already bill.
BEGIN_SECONDS = 5.0


class _AnyCluster(dict[str, str]):
    """For asking whether there are offers at all: every region counts as one that can be bought in."""

    def get(self, key: str, _default: Any = None) -> str:
        return key


@dataclass(frozen=True)
class Catalog:
    novita: Novita
    cache: SharedCache
    default_region: str
    region_priority: tuple[str, ...]
    products_ttl: float
    templates_ttl: float
    clock: Callable[[], float] = time.monotonic

    def quote(self, spec: Spec, within: float) -> Choice:
        """What could be bought, as far as products as old as the cache allows can tell."""
        return self._choice(spec, self.products_ttl, _AnyCluster(), frozenset(), self.clock() + within)

    def offers(
        self, spec: Spec, *, max_age: float, excluded: frozenset[tuple[str, str]], within: float
    ) -> Choice:
        """What to buy now."""
        until = self.clock() + within
        return self._choice(spec, max_age, self._clusters(within), excluded, until)

    def template(self, template_id: str, within: float) -> Template:
        """Without the values of its variables, which may be secrets and are cached nowhere."""
        return self._yes(
            f"template#{template_id}",
            self.templates_ttl,
            lambda: template_to_json(_without_values(self.template_to_buy(template_id, within))),
            template_from_json,
        )

    def template_to_buy(self, template_id: str, within: float) -> Template:
        """The first call of every purchase, so that none is begun while many calls wait."""
        return validate_template(self.novita.template(template_id, within=within, slot_wait=BEGIN_SECONDS))

    def products(self, name: str | None, billing_mode: str, max_age: float, within: float) -> list[Product]:
        return self._yes(
            f"products#{billing_mode}#{(name or '').strip().casefold()}",
            max_age,
            self._fetch_products(name, billing_mode, self.clock() + within),
            lambda stored: [product_from_json(one) for one in stored],
        )

    def _choice(
        self,
        spec: Spec,
        max_age: float,
        clusters: Mapping[str, str],
        excluded: frozenset[tuple[str, str]],
        until: float,
    ) -> Choice:
        def chosen(stored: Sequence[Any]) -> Choice:
            return choose(
                [product_from_json(one) for one in stored],
                clusters,
                product_name=spec.product_name,
                gpu_num=spec.gpu_num,
                rootfs_size=spec.rootfs_size,
                billing_mode=spec.billing_mode,
                regions=region_order(spec.region, spec.regions, self.default_region, self.region_priority),
                max_price=spec.max_price,
                placement=spec.placement,
                only_these_regions=bool(spec.regions),
                excluded=excluded,
            )

        name = spec.product_name
        key = f"products#{spec.billing_mode}#{name.strip().casefold()}"
        try:
            return self._yes(key, max_age, self._fetch_products(name, spec.billing_mode, until), chosen)
        except NotFound:
            # Novita lists products by billing method: it may be sold after all, only not this way.
            other = "onDemand" if spec.billing_mode == SPOT else SPOT
            return chosen(self._fetch_products(name, other, until)())

    def _fetch_products(self, name: str | None, billing_mode: str, until: float) -> Callable[[], Any]:
        return lambda: [
            product_to_json(one)
            for one in self.novita.products(
                product_name=name, billing_method=billing_mode, within=until - self.clock()
            )
        ]

    def _clusters(self, within: float) -> Mapping[str, str]:
        return self._yes(
            "clusters", self.products_ttl, lambda: dict(self.novita.clusters(within=within)), dict
        )

    def _yes(self, key: str, max_age: float, fetch: Callable[[], Any], use: Callable[[Any], T]) -> T:
        """The cache may only say yes: a no is asked of Novita."""
        stored = self.cache.get(key, max_age)
        if stored is not None:
            try:
                return use(stored)
            except CallerError:
                pass
        fetched = fetch()
        self.cache.put(key, fetched)
        return use(fetched)


def _without_values(template: Template) -> Template:
    return replace(template, envs=tuple((key, "") for key, _ in template.envs))
