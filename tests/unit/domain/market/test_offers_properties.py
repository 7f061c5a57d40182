"""Whatever Novita's catalogue looks like, the choice is what a slow and simple search over it finds."""

from decimal import Decimal
from typing import Any, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from functions.shared.domain.errors import CallerError, NotFound
from functions.shared.domain.market import Choice, choose, region_order
from functions.shared.novita.payloads import read_product

REGIONS = ("CN-HK-01", "AS-SGP-02", "AS-IN-01", "US-CA-06", "EU-XX-09")
CLUSTERS = {name: name.lower() for name in REGIONS[:4]}  # the last has no cluster
NAMES = ("RTX 4090 24GB", "rtx 4090 24gb ", "RTX 4090", "H100 SXM 80GB")

prices: st.SearchStrategy[Any] = st.one_of(
    st.integers(0, 12),
    st.integers(0, 12).map(str),
    st.sampled_from([None, "", "free", "0", -3, True, "NaN", "Infinity", [], 7.5, "7.5"]),
)
suffixes = st.sampled_from(["", " (California)", " (Somewhere Else)"])
catalogue = st.lists(
    st.fixed_dictionaries(
        {
            "id": st.sampled_from("abcdefgh"),
            "name": st.sampled_from(NAMES),
            "regions": st.lists(st.builds(str.__add__, st.sampled_from(REGIONS), suffixes), max_size=4),
            "availableDeploy": st.sampled_from([True, True, True, False]),
            "billingMethods": st.sampled_from([["onDemand", "spot"], ["onDemand"], ["spot"], []]),
            "memoryPerGpu": st.sampled_from([32, "64"]),
            "cpuPerGpu": st.sampled_from([8, "16"]),
            "minRootFS": st.sampled_from([10, 100]),
            "maxRootFS": st.sampled_from([50, 1000, 0]),
        },
        optional={"price": prices, "spotPrice": prices},
    ),
    max_size=8,
    unique_by=lambda entry: entry["id"],
)
orders = st.lists(st.sampled_from(REGIONS), min_size=1, max_size=5, unique=True)


class Found(NamedTuple):
    price: Decimal
    memory: int
    cpu: int
    id: str
    region: str

    @property
    def rank(self) -> tuple[Decimal, int, int, str]:
        return self.price, -self.memory, -self.cpu, self.id


def usd(value: Any) -> Decimal | None:
    if isinstance(value, bool) or value in ("NaN", "Infinity"):
        return None
    try:
        return Decimal(str(value)) / 100000
    except ArithmeticError:
        return None


def sold_in(entry: dict[str, Any]) -> set[str]:
    return {region.split(" ")[0] for region in entry["regions"]}


def named(entry: dict[str, Any], name: str) -> bool:
    return str(entry["name"]).strip().lower() == name.strip().lower()


def search(
    entries: list[dict[str, Any]],
    region: str,
    name: str,
    mode: str,
    size: int,
    excluded: set[tuple[str, str]],
) -> list[Found]:
    """Everything in a region that could be bought, whatever it costs."""
    found = []
    for entry in entries:
        price = usd(entry.get("spotPrice" if mode == "spot" else "price"))
        if (
            named(entry, name)
            and region in sold_in(entry)
            and region in CLUSTERS
            and entry["availableDeploy"]
            and (not entry["billingMethods"] or mode in entry["billingMethods"])
            and entry["minRootFS"] <= size
            and (entry["maxRootFS"] == 0 or size <= entry["maxRootFS"])
            and price is not None
            and price > 0
            and (entry["id"], region) not in excluded
        ):
            cpu, memory = int(entry["cpuPerGpu"]), int(entry["memoryPerGpu"])
            found.append(Found(price, memory, cpu, entry["id"], region))
    return sorted(found, key=lambda one: one.rank)


@settings(max_examples=200, deadline=None)
@given(
    entries=catalogue,
    regions=orders,
    name=st.sampled_from(NAMES),
    mode=st.sampled_from(["spot", "onDemand"]),
    size=st.sampled_from([10, 60, 200]),
    cap=st.one_of(st.none(), st.integers(1, 12).map(lambda units: Decimal(units) / 100000)),
    placement=st.sampled_from(["priority", "cheapest"]),
    only_these=st.booleans(),
    excluded=st.sets(st.tuples(st.sampled_from("abcdefgh"), st.sampled_from(REGIONS)), max_size=3),
)
def test_the_choice_is_the_cheapest_that_qualifies_and_every_other_region_has_its_reason(
    entries: list[dict[str, Any]],
    regions: list[str],
    name: str,
    mode: str,
    size: int,
    cap: Decimal | None,
    placement: str,
    only_these: bool,
    excluded: set[tuple[str, str]],
) -> None:
    products = [product for product in map(read_product, entries) if product]
    assert len(products) == len(entries)
    anywhere = placement == "cheapest" and not only_these
    sold = {region for entry in entries if named(entry, name) for region in sold_in(entry)}
    looked_at = [*regions, *sorted(sold - set(regions))] if anywhere else regions
    buyable = {region: search(entries, region, name, mode, size, excluded) for region in looked_at}
    affordable = {
        region: [one for one in found if cap is None or one.price <= cap] for region, found in buyable.items()
    }
    expected = [one for region in looked_at for one in affordable[region]]

    result: Choice | CallerError
    try:
        result = choose(
            products,
            CLUSTERS,
            product_name=name,
            gpu_num=1,
            rootfs_size=size,
            billing_mode=mode,
            regions=regions,
            max_price=cap,
            placement=placement,
            only_these_regions=only_these,
            excluded=excluded,
        )
    except CallerError as error:
        result = error

    if not any(named(entry, name) for entry in entries):
        assert isinstance(result, NotFound)
        assert result.code == "PRODUCT_NOT_FOUND"
    elif not expected:
        assert isinstance(result, CallerError)
        assert result.details is not None
        assert set(result.details["regions"]) == set(looked_at)
        lowest = min((one.price for found in buyable.values() for one in found), default=None)
        assert result.code == ("NO_OPTIMAL_PRODUCT_ANY_REGION" if lowest is None else "PRICE_CAP_EXCEEDED")
        assert result.details.get("lowestPrice") == (None if lowest is None else str(lowest))
    else:
        assert isinstance(result, Choice)
        tried = [(offer.product_id, offer.region, offer.price) for offer in result.offers]
        assert sorted(tried) == sorted((one.id, one.region, one.price) for one in expected)
        assert set(result.reasons) == {region for region in looked_at if not affordable[region]}
        winner = result.offers[0]
        assert winner.cluster_id == CLUSTERS[winner.region]
        if placement == "cheapest":
            assert [offer.price for offer in result.offers] == sorted(one.price for one in expected)
            assert min(one.rank for one in expected)[3] == winner.product_id
        else:
            assert tried == [(one.id, one.region, one.price) for one in expected]


@given(
    region=st.one_of(st.none(), st.sampled_from(REGIONS)),
    regions=st.one_of(st.none(), st.lists(st.sampled_from(REGIONS), max_size=6)),
    default=st.sampled_from(REGIONS),
    priority=st.lists(st.sampled_from(REGIONS), max_size=6),
)
def test_the_region_order_has_no_doubles_and_begins_with_what_was_asked_for(
    region: str | None, regions: list[str] | None, default: str, priority: list[str]
) -> None:
    order = region_order(region, regions, default, priority)

    assert len(set(order)) == len(order)
    if regions:
        assert order[0] == regions[0]
        assert set(order) == set(regions)
    else:
        assert order[0] == (region or default)
        assert set(order) == {region or default, *priority}
