"""What is asked of Novita when the cache does not know: once for all who want it, in the caller's time."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from functions.shared.domain.errors import CallerError, NotFound, NotNow, NovitaForNow
from functions.shared.domain.market import Product, Template
from functions.shared.engine.catalog import SURE_SECONDS, Catalog
from functions.shared.stores.cache import SharedCache
from functions.shared.stores.table import Table
from tests.unit.builders import NOW, new_spec
from tests.unit.tables import Clock

RTX = Product(
    "p1", "RTX 4090 24GB", ("CN-HK-01",), True, Decimal("0.35"), Decimal("0.2"), ("spot", "onDemand")
)
NO_SLOT = NotNow("RATE_LIMIT_EXCEEDED", "no slot", retry_after=0.4)


@dataclass
class World:
    """Time that all processes share, and a Novita whose every call is noted."""

    table: Table
    time: Clock = field(default_factory=Clock)
    sells: dict[str, tuple[Product, ...]] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)
    within: list[float] = field(default_factory=list)
    slots: list[tuple[str | None, float]] = field(default_factory=list)  # whose, and how long it may wait
    refusals: list[Exception] = field(default_factory=list)
    meanwhile: Callable[[], Any] = lambda: None  # happens while Novita is asked
    takes: float = 0.0

    def __post_init__(self) -> None:
        self.time.now = NOW

    def clock(self) -> float:
        return self.time().timestamp()

    def wait(self, seconds: float) -> None:
        self.time.now += timedelta(seconds=seconds)

    def process(self) -> Catalog:
        cache = SharedCache(self.table, self.time)
        novita: Any = self
        return Catalog(novita, cache, "CN-HK-01", (), 300, 600, self.wait, clock=self.clock)

    def products(
        self, *, billing_method: str, within: float, slot_wait: float, reads_as: str | None
    ) -> tuple[Product, ...]:
        self._asked(f"products {billing_method}", within)
        self.slots.append((reads_as, slot_wait))
        return self.sells.get(billing_method, ())

    def clusters(self, *, within: float) -> dict[str, str]:
        self._asked("clusters", within)
        return {"CN-HK-01": "hk"}

    def template(self, template_id: str, *, within: float, **_: Any) -> Template:
        self._asked(f"template {template_id}", within)
        return Template(template_id, "a template", "image")

    def _asked(self, what: str, within: float) -> None:
        if self.refusals:
            raise self.refusals.pop(0)
        self.calls.append(what)
        self.within.append(round(within, 3))
        self.time.now += timedelta(seconds=self.takes)
        self.meanwhile()


@pytest.fixture
def world(table: Table) -> World:
    return World(table, sells={"spot": (RTX,), "onDemand": (RTX,)})


def test_whatever_is_asked_one_after_the_other_shares_the_time(world: World) -> None:
    world.sells, world.takes = {}, 0.5

    with pytest.raises(NotFound):
        world.process().quote(new_spec(), within=2.0)
    world.wait(SURE_SECONDS + 1)
    with pytest.raises(NotFound):
        world.process().offers(new_spec(), max_age=30, excluded=frozenset(), within=5.0)

    assert world.within == [2.0, 1.5, 5.0, 4.5, 4.0]


def test_one_list_serves_every_name_in_every_process(world: World) -> None:
    names = [f"H{number}" for number in range(10)]

    for name in names:
        with pytest.raises(NotFound):
            world.process().quote(new_spec(product_name=name), within=2)
        assert world.process().products(name, "spot", 300, within=2) == []

    assert world.process().quote(new_spec(), within=2).offers
    assert world.calls == ["products spot", "products onDemand"]


def test_a_name_that_the_list_lacks_is_asked_for_again_when_the_list_is_not_new(world: World) -> None:
    world.sells = {}
    catalog = world.process()
    with pytest.raises(NotFound):
        catalog.quote(new_spec(), within=2)
    world.sells = {"spot": (RTX,)}

    world.wait(SURE_SECONDS - 1)
    with pytest.raises(NotFound):
        catalog.quote(new_spec(), within=2)
    world.wait(2)

    assert catalog.quote(new_spec(), within=2).offers


def test_any_other_no_is_asked_of_novita(world: World) -> None:
    catalog = world.process()
    assert catalog.quote(new_spec(), within=2).offers
    dear = new_spec(max_price=Decimal("0.01"))

    for _ in range(2):
        with pytest.raises(CallerError):
            catalog.quote(dear, within=2)

    assert world.calls == ["products spot"] * 3


def test_what_is_sold_only_the_other_way_is_no_unknown_product(world: World) -> None:
    world.sells = {"onDemand": (replace(RTX, billing_methods=("onDemand",)),)}

    for _ in range(3):
        with pytest.raises(CallerError) as refusal:
            world.process().quote(new_spec(), within=2)
        assert refusal.value.code == "NO_OPTIMAL_PRODUCT_ANY_REGION"

    assert world.calls == ["products spot", "products onDemand"]


def test_products_are_found_by_words_of_their_name(world: World) -> None:
    catalog = world.process()

    assert catalog.products("rtx", "spot", 300, within=2) == [RTX]
    assert catalog.products(" 4090 ", "spot", 300, within=2) == [RTX]
    assert catalog.products(None, "spot", 300, within=2) == [RTX]
    assert world.calls == ["products spot"]


def test_whoever_asks_while_another_reads_waits_for_what_it_reads(world: World) -> None:
    reader, other = world.process(), world.process()
    seen: list[Any] = []

    def another_asks() -> None:
        world.meanwhile = lambda: None
        with pytest.raises(NovitaForNow) as late:
            other.quote(new_spec(), within=0.7)
        seen.append(late.value.code)

    world.meanwhile = another_asks
    reader.quote(new_spec(), within=2)

    assert seen == ["NOVITA_TIMEOUT"]
    assert other.quote(new_spec(), within=2).offers
    assert world.calls == ["products spot"]


@pytest.mark.parametrize(("readers", "patience"), [("callers", 0), ("purchases", 10)])
def test_a_purchase_waits_for_no_caller_and_not_for_long_for_one_that_has_died(
    world: World, readers: str, patience: float
) -> None:
    died = world.process().cache.lease("products#spot", readers)
    assert died.take(10)
    began = world.clock()

    choice = world.process().offers(new_spec(), max_age=30, excluded=frozenset(), within=20)

    assert choice.offers
    assert world.clock() - began == pytest.approx(patience, abs=0.5)


def test_a_reader_that_has_died_is_replaced_within_the_callers_time(world: World) -> None:
    assert world.process().cache.lease("products#spot", "callers").take(0.8)

    assert world.process().quote(new_spec(), within=2).offers
    assert world.calls == ["products spot"]


def test_a_lack_of_slots_is_waited_for_without_keeping_others_from_reading(world: World) -> None:
    world.refusals = [NO_SLOT]
    free: list[bool] = []
    wait = world.wait

    def others_look(seconds: float) -> None:
        lease = world.process().cache.lease("products#spot", "callers")
        free.append(bool(holder := lease.take(1)))
        lease.release(holder or "")
        wait(seconds)

    world.wait = others_look  # type: ignore[method-assign]  # what happens while it waits

    assert world.process().quote(new_spec(), 2, "lookups").offers
    assert free == [True]
    assert world.slots == [("lookups", 0.0)]


def test_a_lack_of_slots_that_outlasts_the_callers_time_is_told_as_one(world: World) -> None:
    world.refusals = [NO_SLOT] * 10

    with pytest.raises(NotNow) as refusal:
        world.process().quote(new_spec(), within=2)

    assert refusal.value is NO_SLOT
    assert world.calls == []


def test_a_purchase_waits_for_its_slot_itself(world: World) -> None:
    world.process().offers(new_spec(), max_age=30, excluded=frozenset(), within=20)

    assert world.slots == [(None, float("inf"))]


def test_a_template_is_read_once_for_all_and_without_its_values(world: World) -> None:
    found = [world.process().template("107672", within=2) for _ in range(3)]

    assert world.calls == ["template 107672"]
    assert all(one == found[0] for one in found)
