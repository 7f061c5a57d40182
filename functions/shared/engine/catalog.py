"""What Novita sells and which templates it has, from the shared cache where that is good enough."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import TYPE_CHECKING, Any, TypeVar

from functions.shared.domain.errors import CallerError, NotFound, NotNow, NovitaForNow, lacks_slots
from functions.shared.domain.instance.record import Spec
from functions.shared.domain.market import (
    SPOT,
    Choice,
    Product,
    StoredVolume,
    Template,
    choose,
    region_order,
    same_name,
    validate_template,
    volumes_region,
)
from functions.shared.novita.attempts import WORTH_SENDING_SECONDS
from functions.shared.novita.payloads import (
    product_from_json,
    product_to_json,
    template_from_json,
    template_to_json,
)

if TYPE_CHECKING:
    from functions.shared.domain.resilience import SlotClass
    from functions.shared.novita.client import Novita
    from functions.shared.stores.cache import HeldValue, SharedCache


T = TypeVar("T")

# How long a purchase waits for its first slot: where many wait, one is put off before it costs anything.
BEGIN_SECONDS = 5.0
# A list of all products that is no older says what there is not: a new product is for sale so much later, and
# whoever asks for names that do not exist costs six calls a minute at most.
SURE_SECONDS = 10.0


class _AnyCluster(dict[str, str]):
    """For asking whether there are offers at all: every region counts as one that can be bought in."""

    def get(self, key: str, _default: Any = None) -> str:
        return key


@dataclass(frozen=True)
class _Readers:
    """Who read for each other: purchases for purchases and callers for callers, so that no purchase waits for
    what a caller reads."""

    name: str
    slot_wait: float  # for a slot, while the others wait for this one
    lease_seconds: float  # then another reads: this one has died, or waits for Novita
    look_again_seconds: float


_PURCHASES = _Readers("purchases", slot_wait=inf, lease_seconds=10.0, look_again_seconds=0.5)
_CALLERS = _Readers("callers", slot_wait=0.0, lease_seconds=0.8, look_again_seconds=0.1)


@dataclass(frozen=True)
class _Read:
    """How a value is read that the cache does not have."""

    fetch: Callable[[_Read], Any]
    until: float
    reads_as: SlotClass | None = None
    readers: _Readers = _CALLERS


@dataclass(frozen=True)
class Catalog:
    novita: Novita
    cache: SharedCache
    default_region: str
    region_priority: tuple[str, ...]
    products_ttl: float
    templates_ttl: float
    wait: Callable[[float], None]
    clock: Callable[[], float] = time.monotonic

    def quote(self, spec: Spec, within: float, reads_as: SlotClass | None = None) -> Choice:
        """What could be bought, as far as products as old as the cache allows can tell."""
        read = _Read(self._fetch_products(spec.billing_mode), self.clock() + within, reads_as)
        spec = self._where_its_volumes_are(spec, read)
        return self._choice(spec, self.products_ttl, _AnyCluster(), frozenset(), read)

    def offers(
        self, spec: Spec, *, max_age: float, excluded: frozenset[tuple[str, str]], within: float
    ) -> Choice:
        """What to buy now."""
        until = self.clock() + within
        read = _Read(self._fetch_products(spec.billing_mode), until, readers=_PURCHASES)
        spec = self._where_its_volumes_are(spec, read)
        return self._choice(spec, max_age, self._clusters(until), excluded, read)

    def template(self, template_id: str, within: float, reads_as: SlotClass | None = None) -> Template:
        """Without the values of its variables, which may be secrets and are cached nowhere."""

        def fetch(read: _Read) -> Any:
            left = read.until - self.clock()
            found = self.novita.template(
                template_id, within=left, slot_wait=read.readers.slot_wait, reads_as=read.reads_as
            )
            return template_to_json(_without_values(validate_template(found)))

        read = _Read(fetch, self.clock() + within, reads_as)
        return self._answer(f"template#{template_id}", self.templates_ttl, read, template_from_json)

    def template_to_buy(self, template_id: str, within: float) -> Template:
        """The first call of every purchase, so that none is begun while many calls wait."""
        return validate_template(self.novita.template(template_id, within=within, slot_wait=BEGIN_SECONDS))

    def products(self, name: str | None, billing_mode: str, max_age: float, within: float) -> list[Product]:
        """Those whose name has these words in it; all of them without."""
        words = (name or "").strip().casefold()

        def named(stored: Sequence[Any]) -> list[Product]:
            found = [product_from_json(one) for one in stored if words in one["name"].casefold()]
            if words and not found:
                raise NotFound("PRODUCT_NOT_FOUND", f"Novita sells no product named {name!r}")
            return found

        read = _Read(self._fetch_products(billing_mode), self.clock() + within)
        try:
            return self._answer(f"products#{billing_mode}", max_age, read, named)
        except NotFound:
            return []

    def _where_its_volumes_are(self, spec: Spec, read: _Read) -> Spec:
        """With network volumes there is one region that it can be in, wherever else it might be cheaper."""
        if not spec.network_volumes:
            return spec
        wanted = [one.id for one in spec.network_volumes]

        def fetch(read: _Read) -> Any:
            found = self.novita.volumes(
                within=read.until - self.clock(), slot_wait=read.readers.slot_wait, reads_as=read.reads_as
            )
            return [[one.id, one.region] for one in found]

        def region_of(stored: Sequence[Any]) -> str:
            volumes = [StoredVolume(id_, region) for id_, region in stored]
            return volumes_region(volumes, wanted, spec.region, spec.regions)

        region = self._answer("volumes", self.templates_ttl, replace(read, fetch=fetch), region_of)
        return replace(spec, regions=(region,))

    def _choice(
        self,
        spec: Spec,
        max_age: float,
        clusters: Mapping[str, str],
        excluded: frozenset[tuple[str, str]],
        read: _Read,
    ) -> Choice:
        def chosen(stored: Sequence[Any]) -> Choice:
            return choose(
                [product_from_json(one) for one in stored if same_name(one["name"], spec.product_name)],
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

        def known(stored: Sequence[Any]) -> Sequence[Any]:
            if not any(same_name(one["name"], spec.product_name) for one in stored):
                chosen(())
            return stored

        try:
            return self._answer(f"products#{spec.billing_mode}", max_age, read, chosen)
        except NotFound:
            # Novita lists products by billing method: it may be sold after all, only not this way.
            other = "onDemand" if spec.billing_mode == SPOT else SPOT
            read = replace(read, fetch=self._fetch_products(other))
            return chosen(self._answer(f"products#{other}", self.products_ttl, read, known))

    def _fetch_products(self, billing_mode: str) -> Callable[[_Read], Any]:
        """All of them: one call serves every name and region, and names are compared here, not by Novita."""
        return lambda read: [
            product_to_json(one)
            for one in self.novita.products(
                billing_method=billing_mode,
                within=read.until - self.clock(),
                slot_wait=read.readers.slot_wait,
                reads_as=read.reads_as,
            )
        ]

    def _clusters(self, until: float) -> Mapping[str, str]:
        def fetch(read: _Read) -> Any:
            return dict(self.novita.clusters(within=read.until - self.clock()))

        return self._answer("clusters", self.products_ttl, _Read(fetch, until, readers=_PURCHASES), dict)

    def _answer(self, key: str, max_age: float, read: _Read, use: Callable[[Any], T]) -> T:
        """The cache may only say yes, and that there is nothing of a name, if it is sure: see `_said`."""
        held = self.cache.held(key, max_age)
        if held is not None:
            if (said := self._said(held, use)) is not None:
                return said
            held = self.cache.newest(key) or held  # another process may know better than this one
            if (said := self._said(held, use)) is not None:
                return said
        return use(self._renewed(key, held or self.cache.newest(key), read))

    def _said(self, held: HeldValue, use: Callable[[Any], T]) -> T | None:
        """None where Novita has to be asked."""
        try:
            return use(held.value)
        except NotFound:
            if self.cache.age(held) <= SURE_SECONDS:
                raise
        except CallerError:
            pass
        return None

    def _renewed(self, key: str, seen: HeldValue | None, read: _Read) -> Any:
        """Newer than what was seen. One process reads it; whoever else wants it waits for that."""
        within = left = read.until - self.clock()
        lease, waited = self.cache.lease(key, read.readers.name), 0.0
        error: NovitaForNow | None = None
        while True:
            holder, pause = lease.take(read.readers.lease_seconds), read.readers.look_again_seconds
            try:
                newest = self.cache.newest(key)
                if newest and (seen is None or newest.stamp != seen.stamp):
                    return newest.value
                if holder and left >= WORTH_SENDING_SECONDS:
                    return self._fetched(key, read)
            except NotNow as refusal:
                if read.readers.slot_wait or not lacks_slots(refusal):
                    raise
                error, pause = refusal, refusal.retry_after or inf
            finally:
                if holder:
                    lease.release(holder)
            waited += pause
            left = min(within - waited, read.until - self.clock() - pause)
            if left <= 0:
                too_late = f"Another process did not read Novita's {key} in time"
                raise error or NovitaForNow("NOVITA_TIMEOUT", too_late)
            self.wait(pause)

    def _fetched(self, key: str, read: _Read) -> Any:
        fetched = read.fetch(read)
        self.cache.put(key, fetched)
        return fetched


def _without_values(template: Template) -> Template:
    return replace(template, envs=tuple((key, "") for key, _ in template.envs))
