"""Which offers are tried, in which order, and what is said where there is none."""

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from functions.shared.domain.errors import CallerError, NotFound
from functions.shared.domain.market import Choice, Product, Reason, choose, region_order

HK, SG, IN, US = "CN-HK-01", "AS-SGP-02", "AS-IN-01", "US-CA-06"
CLUSTERS = {HK: "cn-hongkong-1", SG: "as-sgp-2", IN: "as-in-1", US: "us-ca-6"}
PLAIN = Product(
    id="a",
    name="RTX 4090 24GB",
    regions=(HK,),
    available=True,
    price=Decimal("0.35"),
    spot_price=Decimal("0.18"),
    billing_methods=("onDemand", "spot"),
    memory_per_gpu=62,
    cpu_per_gpu=16,
    min_rootfs=10,
    max_rootfs=1000,
)


def pick(*products: Product, **over: Any) -> Choice:
    wanted: dict[str, Any] = {
        "product_name": "RTX 4090 24GB",
        "gpu_num": 1,
        "rootfs_size": 60,
        "billing_mode": "spot",
        "regions": (HK, SG, IN),
    }
    return choose(products, CLUSTERS, **{**wanted, **over})


def ids(choice: Choice) -> list[tuple[str, str]]:
    return [(offer.product_id, offer.region) for offer in choice.offers]


def refused(*products: Product, **over: Any) -> CallerError:
    with pytest.raises(CallerError) as caught:
        pick(*products, **over)
    return caught.value


def test_the_first_region_wins_over_a_lower_price_elsewhere() -> None:
    cheaper = replace(PLAIN, id="b", regions=(SG,), spot_price=Decimal("0.01"))

    choice = pick(cheaper, PLAIN)

    assert ids(choice) == [("a", HK), ("b", SG)]
    assert choice.reasons == {IN: Reason.NOT_SOLD}


def test_the_lowest_price_wins_within_a_region_and_the_rest_follow() -> None:
    cheaper = replace(PLAIN, id="b", spot_price=Decimal("0.17"))

    assert ids(pick(PLAIN, cheaper)) == [("b", HK), ("a", HK)]


def test_equal_prices_are_settled_by_memory_then_cpu_then_id() -> None:
    more_memory = replace(PLAIN, id="z", memory_per_gpu=96)
    more_cpu = replace(PLAIN, id="y", cpu_per_gpu=24)
    twin = replace(PLAIN, id="b")

    assert ids(pick(twin, PLAIN, more_cpu, more_memory)) == [("z", HK), ("y", HK), ("a", HK), ("b", HK)]


def test_the_price_is_the_one_of_the_billing_mode() -> None:
    dear_on_demand = replace(PLAIN, id="b", price=Decimal("0.40"), spot_price=Decimal("0.10"))

    assert ids(pick(PLAIN, dear_on_demand, billing_mode="onDemand"))[0] == ("a", HK)
    assert pick(PLAIN, dear_on_demand).offers[0].price == Decimal("0.10")


def test_the_name_must_be_the_same_but_for_case_and_outer_white_space() -> None:
    assert ids(pick(PLAIN, product_name="  rtx 4090 24gb ")) == [("a", HK)]
    assert refused(PLAIN, product_name="RTX 4090").code == "PRODUCT_NOT_FOUND"


def test_no_product_of_that_name_anywhere_is_not_found() -> None:
    assert isinstance(refused(), NotFound)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"regions": (US,)}, Reason.NOT_SOLD),
        ({"billing_methods": ("onDemand",)}, Reason.BILLING),
        ({"available": False}, Reason.UNAVAILABLE),
        ({"min_rootfs": 61}, Reason.ROOTFS),
        ({"max_rootfs": 59}, Reason.ROOTFS),
        ({"spot_price": None}, Reason.NO_PRICE),
        ({"spot_price": Decimal(0)}, Reason.NO_PRICE),
    ],
)
def test_each_region_says_why_it_has_none(change: dict[str, Any], reason: Reason) -> None:
    error = refused(replace(PLAIN, **change), regions=(HK,))

    assert error.code == "NO_OPTIMAL_PRODUCT_ANY_REGION"
    assert error.details == {"regions": {HK: reason.value}}


def test_a_region_reports_what_came_closest() -> None:
    unsold, gone = replace(PLAIN, billing_methods=("onDemand",)), replace(PLAIN, id="b", available=False)

    error = refused(gone, unsold, regions=(HK, SG))

    assert error.details == {"regions": {HK: "NOT_AVAILABLE", SG: "NOT_SOLD_IN_REGION"}}


def test_a_product_without_billing_methods_is_judged_by_its_price() -> None:
    assert ids(pick(replace(PLAIN, billing_methods=()))) == [("a", HK)]


def test_a_region_without_a_cluster_is_never_bought_in() -> None:
    elsewhere = replace(PLAIN, regions=("XX-YY-99",))

    error = refused(elsewhere, regions=("XX-YY-99",))

    assert error.details == {"regions": {"XX-YY-99": "UNKNOWN_CLUSTER"}}


def test_an_offer_that_novita_refused_gives_way_to_the_next() -> None:
    both = replace(PLAIN, regions=(HK, SG))

    choice = pick(both, excluded={("a", HK)})

    assert ids(choice) == [("a", SG)]
    assert choice.reasons[HK] is Reason.REFUSED


def test_a_cap_that_all_exceed_is_named_with_the_lowest_price() -> None:
    error = refused(
        PLAIN, replace(PLAIN, id="b", spot_price=Decimal("0.17"), regions=(SG,)), max_price=Decimal("0.1")
    )

    assert error.code == "PRICE_CAP_EXCEEDED"
    assert error.details is not None
    assert error.details["lowestPrice"] == "0.17"
    assert error.details["regions"] == {
        HK: "PRICE_CAP_EXCEEDED",
        SG: "PRICE_CAP_EXCEEDED",
        IN: Reason.NOT_SOLD,
    }


def test_a_price_at_the_cap_is_taken() -> None:
    assert ids(pick(PLAIN, max_price=Decimal("0.18"))) == [("a", HK)]


def test_the_cap_is_not_blamed_where_nothing_is_for_sale_anyway() -> None:
    error = refused(replace(PLAIN, available=False), max_price=Decimal("0.1"))

    assert error.code == "NO_OPTIMAL_PRODUCT_ANY_REGION"


def test_cheapest_looks_at_every_region_that_sells_it() -> None:
    far = replace(PLAIN, id="b", regions=(US,), spot_price=Decimal("0.05"))

    assert ids(pick(PLAIN, far, placement="cheapest")) == [("b", US), ("a", HK)]


def test_cheapest_stays_within_the_regions_that_the_request_named() -> None:
    far = replace(PLAIN, id="b", regions=(US,), spot_price=Decimal("0.05"))
    near = replace(PLAIN, id="c", regions=(SG,), spot_price=Decimal("0.06"))

    choice = pick(PLAIN, far, near, placement="cheapest", only_these_regions=True)

    assert ids(choice) == [("c", SG), ("a", HK)]


@pytest.mark.parametrize(
    ("region", "regions", "expected"),
    [
        (None, None, (HK, SG, IN)),
        (SG, None, (SG, HK, IN)),
        (US, None, (US, SG, HK, IN)),
        ("US-CA-06 (California)", None, (US, SG, HK, IN)),
        (SG, [IN, US, IN], (IN, US)),
        (None, [], (HK, SG, IN)),
    ],
)
def test_the_region_order(region: str | None, regions: list[str] | None, expected: tuple[str, ...]) -> None:
    assert region_order(region, regions, HK, [SG, HK, IN]) == expected
