"""Boot times that are kept: learned by one process, known to all, and never worth a failure."""

from typing import Any

import pytest
from botocore.exceptions import EndpointConnectionError

from functions.shared.domain.instance.boot_times import BOOT_TIMES_KEPT, BootTime
from functions.shared.stores.machines import BootTimes
from functions.shared.stores.table import Table, Write
from tests.unit.builders import NOW


def boots(table: Table) -> BootTimes:
    return BootTimes(table, lambda: NOW)


def test_what_one_process_learns_another_expects(table: Table) -> None:
    for seconds in (100.0, 110.0, 90.0, 100.0):
        boots(table).learn(BootTime("create", "p1", "EU", seconds))

    expected = boots(table).expected("create", "p1", "EU")

    assert expected
    assert expected.median_seconds == pytest.approx(100, rel=0.05)


@pytest.mark.parametrize("other", [("start", "p1", "EU"), ("create", "p2", "EU"), ("create", "p1", "US")])
def test_products_regions_and_kinds_of_start_are_kept_apart(
    table: Table, other: tuple[str, str, str]
) -> None:
    for _ in range(5):
        boots(table).learn(BootTime("create", "p1", "EU", 100.0))

    assert boots(table).expected(*other) is None


def test_nothing_is_expected_of_what_is_not_known(table: Table) -> None:
    assert boots(table).expected("create", None, None) is None
    assert boots(table).expected("create", "p1", "EU") is None


def test_the_item_stays_small(table: Table) -> None:
    many = {"pk": "boots#create#p1#EU", "sk": "boots", "samples": list(range(2 * BOOT_TIMES_KEPT))}
    table.put(Write(many))

    boots(table).learn(BootTime("create", "p1", "EU", 100.0))

    item = table.get("boots#create#p1#EU", "boots")
    assert item
    assert item["samples"] == [*range(BOOT_TIMES_KEPT + 1, 2 * BOOT_TIMES_KEPT), 100_000]
    assert item["expiresAt"] > NOW.timestamp()


def test_without_the_table_nothing_is_known_and_nothing_fails() -> None:
    class Down:
        def __getattr__(self, _: str) -> Any:
            def call(**__: Any) -> Any:
                raise EndpointConnectionError(endpoint_url="http://127.0.0.1:9")

            return call

    down: Any = Down()
    lost = boots(Table(down, "table"))

    lost.learn(BootTime("create", "p1", "EU", 100.0))
    assert lost.expected("create", "p1", "EU") is None
