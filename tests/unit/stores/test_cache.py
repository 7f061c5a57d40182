"""The shared cache: as old as the reader allows, shared through the table, and never an error."""

import json
from random import Random
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from functions.shared.stores.cache import SharedCache
from functions.shared.stores.table import Table, Write
from tests.unit.builders import NOW, after
from tests.unit.tables import Clock, Counted

VALUE: Any = [{"name": "RTX 4090", "price": 0.25, "none": None, "ü": "🐴"}]


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_what_one_process_puts_another_gets(table: Table, clock: Clock) -> None:
    SharedCache(table, clock).put("products", VALUE)

    assert SharedCache(table, clock).get("products", 300) == VALUE
    assert SharedCache(table, clock).get("other", 300) is None


@pytest.mark.parametrize(("age", "found"), [(0, True), (299.9, True), (300, True), (300.1, False)])
def test_nothing_is_older_than_the_reader_allows(table: Table, clock: Clock, age: float, found: bool) -> None:
    holder = SharedCache(table, clock)
    holder.put("products", VALUE)
    clock.now = after(age)

    for cache in (holder, SharedCache(table, clock)):
        assert (cache.get("products", 300) is not None) == found


def test_a_warm_process_reads_the_table_once(table: Table, clock: Clock) -> None:
    SharedCache(table, clock).put("products", VALUE)
    counted = Counted(table.client, table.name)
    warm = SharedCache(counted, clock)

    for _ in range(5):
        assert warm.get("products", 300) == VALUE

    assert counted.reads == 2  # the value, and the epoch that a clear raises


def test_what_another_process_has_renewed_is_found_once_the_own_copy_is_too_old(
    table: Table, clock: Clock
) -> None:
    warm = SharedCache(table, clock)
    warm.put("products", ["old"])
    clock.now = after(200)
    SharedCache(table, clock).put("products", ["new"])

    assert warm.get("products", 300) == ["old"]
    assert warm.get("products", 30) == ["new"]


def test_a_table_that_does_not_answer_is_an_empty_cache(clock: Clock) -> None:
    class Down:
        def __getattr__(self, name: str) -> Any:
            def call(**_: Any) -> Any:
                if name == "get_item":
                    raise EndpointConnectionError(endpoint_url="http://127.0.0.1:9")
                raise ClientError({"Error": {"Code": "ThrottlingException", "Message": ""}}, name)

            return call

    down: Any = Down()
    cache = SharedCache(Table(down, "table"), clock)

    assert cache.get("products", 300) is None
    cache.put("products", VALUE)
    assert cache.get("products", 300) == VALUE


@pytest.mark.parametrize("bad", [{"packed": "%%%"}, {"packed": "bm90IHpsaWI="}, {"packed": 5}, {}])
def test_an_item_that_makes_no_sense_is_an_empty_cache(
    table: Table, clock: Clock, bad: dict[str, Any]
) -> None:
    table.put(Write({"pk": "cache#products", "sk": "cache", "storedAt": int(NOW.timestamp() * 1000), **bad}))

    assert SharedCache(table, clock).get("products", 300) is None


def test_large_values_are_no_error(table: Table, clock: Clock) -> None:
    random = Random(1)
    large = ["".join(random.choices("abcdefghijklmnopqrstuvwxyz0123456789", k=1000)) for _ in range(1000)]
    cache = SharedCache(table, clock)

    cache.put("products", large)

    assert len(json.dumps(large)) > 400_000
    assert cache.get("products", 300) == large
