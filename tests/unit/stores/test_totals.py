"""Totals: right, and at a price that does not grow with the number of instances."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

import pytest

from functions.shared.domain.ids import new_instance_id
from functions.shared.domain.instance.commands import begin_delete
from functions.shared.stores.cache import SharedCache
from functions.shared.stores.instances import Instances
from functions.shared.stores.listings import Listing
from functions.shared.stores.table import Table
from functions.shared.stores.totals import Totals
from tests.unit.builders import NOW, created, deciding


class Clock:
    now: datetime = NOW

    def __call__(self) -> datetime:
        return self.now


class Short:
    """The real client, whose answers end early: as if the index were longer than what one query reads."""

    def __init__(self, client: Any, most: int) -> None:
        self._client = client
        self._most = most
        self.queries = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def query(self, **request: Any) -> Any:
        self.queries += 1
        return self._client.query(**{**request, "Limit": self._most})


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def short(table: Table) -> Short:
    return Short(table.client, 5)


@pytest.fixture
def totals(table: Table, short: Short, clock: Clock) -> Totals:
    short_table = Table(short, table.name)  # type: ignore[arg-type]  # a client with small pages
    return Totals(short_table, SharedCache(table, clock), clock, 30)


def add(instances: Instances, number: int, at: datetime, name: str = "test") -> list[str]:
    ids = [new_instance_id(at + timedelta(milliseconds=n)) for n in range(number)]
    for one in ids:
        instances.add(created(name=name, instance_id=one))
    return ids


@contextmanager
def queries(short: Short, number: int) -> Iterator[None]:
    before = short.queries
    yield
    assert short.queries - before == number


def test_a_short_listing_is_counted_exactly_whenever_it_is_asked_for(
    instances: Instances, totals: Totals, short: Short
) -> None:
    for expected in range(1, 4):
        add(instances, 1, NOW)

        with queries(short, 1):
            assert totals.of(Listing()) == expected


def test_names_and_statuses_are_counted_apart(instances: Instances, totals: Totals) -> None:
    ids = add(instances, 3, NOW, "a") + add(instances, 2, NOW, "b")
    leaving = instances.get(ids[0])
    assert leaving
    instances.save(begin_delete(deciding(leaving), "op_1"))

    assert totals.of(Listing(name="a")) == 3
    assert totals.of(Listing(name="b")) == 2
    assert totals.of(Listing(status="creating")) == 4
    assert totals.of(Listing(status="deleting")) == 1
    assert totals.of(Listing(name="a", status="creating")) == 2
    assert totals.of(Listing(name="b", status="deleting")) == 0


def test_a_long_listing_is_counted_once_for_all(instances: Instances, totals: Totals, short: Short) -> None:
    add(instances, 12, NOW - timedelta(hours=1))
    assert totals.of(Listing()) == 12

    with queries(short, 0):
        assert totals.of(Listing()) == 12


def test_what_was_counted_once_is_never_counted_again(
    instances: Instances, totals: Totals, short: Short, clock: Clock
) -> None:
    """However many there are: only those of the last minutes are."""
    add(instances, 13, NOW - timedelta(hours=1))
    totals.of(Listing())
    add(instances, 3, NOW)
    clock.now = NOW + timedelta(seconds=31)

    with queries(short, 3):  # whether it is short, what is new since the last count, what is newer still
        assert totals.of(Listing()) == 16


def test_an_instance_that_is_stored_late_is_counted(
    instances: Instances, totals: Totals, clock: Clock
) -> None:
    """Its id is from when the request began."""
    add(instances, 8, NOW - timedelta(hours=1))
    assert totals.of(Listing()) == 8
    clock.now = NOW + timedelta(seconds=31)
    add(instances, 1, NOW - timedelta(seconds=20))

    assert totals.of(Listing()) == 9
    clock.now = NOW + timedelta(minutes=10)
    assert totals.of(Listing()) == 9


def test_a_long_listing_of_a_status_is_as_old_as_the_setting_allows(
    instances: Instances, totals: Totals, clock: Clock
) -> None:
    add(instances, 7, NOW)
    assert totals.of(Listing(status="creating")) == 7
    add(instances, 1, NOW)
    assert totals.of(Listing(status="creating")) == 7
    clock.now = NOW + timedelta(seconds=31)
    assert totals.of(Listing(status="creating")) == 8


def test_the_terminated_are_all_but_the_others(instances: Instances, table: Table, totals: Totals) -> None:
    ids = add(instances, 12, NOW - timedelta(hours=1))
    for one in ids[:8]:
        table.update(
            one,
            "record",
            "SET statusKey = :key",
            values={":key": "instances#terminated"},
        )

    assert totals.of(Listing(status="terminated")) == 8
