"""The cache between processes: large values in parts, a clear that all see, statistics, and a clean-up."""

from datetime import datetime
from random import Random
from typing import Any

import pytest

from functions.shared.stores.cache import CacheCounts, CacheStore, SharedCache, total_counts
from functions.shared.stores.table import Table, Write
from tests.unit.builders import NOW, after

LIFETIMES = {"products": 300.0, "list": 5.0}


class Clock:
    now: datetime = NOW

    def __call__(self) -> datetime:
        return self.now


class Counted(Table):
    """Every call is counted, and how much it read."""

    def __init__(self, table: Table) -> None:
        super().__init__(table.client, table.name)
        self.reads = 0
        self.queries: list[str] = []

    def get(self, pk: str, sk: str) -> Any:
        self.reads += 1
        return super().get(pk, sk)

    def query(self, condition: str, values: Any, **options: Any) -> Any:
        self.queries.append(str(options.get("index")))
        return super().query(condition, values, **options)


@pytest.fixture
def clock() -> Clock:
    return Clock()


def process(table: Table, clock: Clock) -> SharedCache:
    return SharedCache(table, clock, lambda: LIFETIMES)


def noise(size: int, seed: int = 1) -> str:
    return "".join(Random(seed).choices("abcdefghijklmnopqrstuvwxyz0123456789", k=size))


@pytest.mark.parametrize("size", [1_000, 10_000, 600_000, 1_500_000])
def test_values_of_any_size_are_shared(table: Table, clock: Clock, size: int) -> None:
    process(table, clock).put("list", noise(size))

    assert process(table, clock).get("list", 5) == noise(size)


def test_statistics_of_a_large_value_do_not_read_it(table: Table, clock: Clock) -> None:
    process(table, clock).put("list", noise(600_000))

    (entry,) = CacheStore(table, clock).entries()

    assert "packed" not in entry.item
    assert (entry.item["parts"] > 1, entry.size > 500_000) == (True, True)


def test_whoever_reads_a_large_value_while_it_is_renewed_gets_one_of_the_two(
    table: Table, clock: Clock
) -> None:
    """Or nothing, if it was renewed twice meanwhile; never a mixture."""
    writer, store = process(table, clock), CacheStore(table, clock)
    writer.put("list", noise(600_000, 1))
    read_first = store.find("list")
    assert read_first

    writer.put("list", noise(600_000, 2))
    assert store.value(read_first) == noise(600_000, 1)
    writer.put("list", noise(600_000, 3))
    with pytest.raises(KeyError):
        store.value(read_first)

    assert process(table, clock).get("list", 5) == noise(600_000, 3)


def test_the_newest_is_what_another_process_has_renewed(table: Table, clock: Clock) -> None:
    warm, other = process(table, clock), process(table, clock)
    warm.put("list", ["old"])
    other.put("list", ["new"])

    assert warm.get("list", 5) == ["old"]
    newest = warm.newest("list")
    assert newest
    assert newest.value == ["new"]
    assert warm.get("list", 5) == ["new"]


def test_a_value_that_has_not_changed_is_not_read_again(table: Table, clock: Clock) -> None:
    process(table, clock).put("list", noise(600_000))
    counted = Counted(table)
    warm = process(counted, clock)
    warm.newest("list")
    before = counted.reads

    warm.newest("list")

    assert counted.reads == before + 1  # the entry, and none of its parts


def test_a_clear_is_seen_here_at_once_and_everywhere_within_five_seconds(table: Table, clock: Clock) -> None:
    here, there = process(table, clock), process(table, clock)
    here.put("products", ["p"])
    assert there.get("products", 300) == ["p"]

    here.clear()

    assert here.get("products", 300) is None
    clock.now = after(5)
    assert there.get("products", 300) is None
    assert process(table, clock).get("products", 300) is None


def test_what_a_process_puts_that_has_not_seen_the_clear_is_not_used(table: Table, clock: Clock) -> None:
    here, there = process(table, clock), process(table, clock)
    there.put("products", ["before"])
    here.clear()

    there.put("products", ["from what was read before"])

    assert here.get("products", 300) is None
    clock.now = after(5)
    there.put("products", ["anew"])
    assert here.get("products", 300) == ["anew"]


def test_hits_and_misses_are_counted_for_the_process_and_for_all(table: Table, clock: Clock) -> None:
    here, there = process(table, clock), process(table, clock)
    here.get("products", 300)  # a miss on both sides
    here.put("products", ["p"])
    here.get("products", 300)  # held here
    there.get("products", 300)  # held there by none, and found in the table
    there.get("products", 300)
    there.flush_counts()

    shared, (own, held) = here.flush_counts(), here.of_process()

    assert own == {"products": CacheCounts(hits=1, misses=1, sets=1)}
    assert own["products"].hit_ratio == 0.5
    assert shared == {"products": CacheCounts(hits=1, misses=1, sets=1)}
    assert held == [entry.key for entry in here.entries()] == ["products"]
    assert here.entries()[0].size


def test_each_kind_is_counted_for_itself(table: Table, clock: Clock) -> None:
    here = process(table, clock)
    here.get("products", 300)
    here.get("template#1", 300)
    here.put("template#1", ["t"])
    here.get("template#2", 300)
    here.count("details", hit=True)
    here.count_set("details")

    shared = here.flush_counts()

    assert shared == {
        "products": CacheCounts(misses=1),
        "template": CacheCounts(misses=2, sets=1),
        "details": CacheCounts(hits=1, sets=1),
    }
    assert total_counts(shared) == CacheCounts(hits=1, misses=3, sets=2)
    assert here.flush_counts() == shared  # nothing new


def test_what_an_earlier_version_counted_for_all_together_is_left_out(table: Table, clock: Clock) -> None:
    table.put(Write({"pk": "cache#:tally", "sk": "tally", "kind": "count", "hits": 7, "misses": 3}))

    assert process(table, clock).flush_counts() == {}


def test_counts_of_a_process_reach_the_table_by_and_by(table: Table, clock: Clock) -> None:
    busy, other = process(table, clock), process(table, clock)
    busy.get("products", 300)
    clock.now = after(61)
    busy.get("products", 300)

    assert other.flush_counts()["products"].misses == 2


def test_a_clean_up_removes_what_has_expired_and_nothing_else(table: Table, clock: Clock) -> None:
    here = process(table, clock)
    here.put("list", noise(600_000))
    here.put("products", ["p"])
    clock.now = after(6)

    assert here.cleanup() == (1, 1)

    own, held = here.of_process()
    assert held == [entry.key for entry in here.entries()] == ["products"]
    assert (here.flush_counts()["list"].evictions, own["list"].evictions) == (1, 1)
    left = table.query_all("pk = :pk AND begins_with(sk, :sk)", {":pk": "cache#list", ":sk": "part#"})
    assert left == []


def test_a_clean_up_removes_what_a_clear_has_made_useless(table: Table, clock: Clock) -> None:
    here = process(table, clock)
    here.put("products", ["p"])
    here.clear()

    assert here.cleanup()[0] == 1


def test_a_clean_up_leaves_what_was_renewed_meanwhile(table: Table, clock: Clock) -> None:
    store = CacheStore(table, clock)
    process(table, clock).put("list", ["old"])
    found = store.find("list")
    assert found
    process(table, clock).put("list", ["new"])

    assert not store.remove(found)

    assert process(table, clock).get("list", 5) == ["new"]


def test_statistics_and_clean_up_ask_an_index_and_scan_nothing(table: Table, clock: Clock) -> None:
    counted = Counted(table)
    here = process(counted, clock)
    table.put(Write({"pk": "inst_1", "sk": "record", "kind": "instance", "lookup": "name#x", "id": "inst_1"}))
    here.put("products", ["p"])

    here.entries()
    here.cleanup()

    assert set(counted.queries) == {"lookup"}


def test_a_process_holds_no_more_than_it_has_room_for(table: Table, clock: Clock) -> None:
    here = process(table, clock)
    for number in range(300):
        here._process.hold(f"products#{number}", here._process.held.get("none"))  # type: ignore[arg-type]  # only the number counts

    assert len(here._process.held) == 256
    assert here._process.counts["products"].evictions == 44
