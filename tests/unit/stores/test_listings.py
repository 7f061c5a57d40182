"""Lists by owner and tag: items of their own that follow the record, and what is in several lists at once."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from random import Random
from typing import Any

import pytest

from functions.shared.domain.errors import StaleInstance
from functions.shared.domain.ids import new_instance_id
from functions.shared.domain.instance.record import Instance, Spec
from functions.shared.domain.instance.status import Status
from functions.shared.stores.cache import SharedCache
from functions.shared.stores.instances import Instances, is_listed
from functions.shared.stores.listings import MOST_AT_ONCE, Listing, ids_in_all
from functions.shared.stores.table import Item, Table
from functions.shared.stores.totals import Totals
from tests.unit.builders import NOW, deciding, new_instance
from tests.unit.tables import Clock, instances_in

Tags = Sequence[tuple[str, str]]


def add(instances: Instances, number: int, *, tags: Tags = (), **changes: Any) -> Instance:
    spec = Spec("RTX 4090 24GB", "107672", tags=tuple(tags))
    plain: dict[str, Any] = {"machine_id": None, "next_check_at": None, "actor": "key_a"}
    id_ = new_instance_id(NOW + timedelta(seconds=number))
    return instances.add(deciding(new_instance(**plain | {"id": id_, "spec": spec} | changes)))


def ids(instances: Instances, limit: int = 100, **asked: str) -> list[str]:
    found, end = instances.page(Listing(**asked), limit=limit, after=None)
    while end:
        more, end = instances.page(Listing(**asked), limit=limit, after=end)
        found += more
    return [record.id for record in found]


def retagged(record: Instance, *tags: tuple[str, str]) -> Any:
    return deciding(record).change(spec=replace(record.spec, tags=tags))


def list_items(table: Table, instance_id: str) -> list[Item]:
    return table.query_all("pk = :pk AND begins_with(sk, :sk)", {":pk": instance_id, ":sk": "list#"})


def test_an_instance_is_listed_by_its_owner_and_each_of_its_tags(instances: Instances) -> None:
    one = add(instances, 1, tags=[("team", "red"), ("env", "dev")])
    two = add(instances, 2, tags=[("team", "red")], actor="key_b")

    assert ids(instances, tag="team:red") == [two.id, one.id]
    assert ids(instances, tag="env:dev") == [one.id]
    assert ids(instances, owner="key_b") == [two.id]
    assert ids(instances, owner="key_a", tag="team:red") == [one.id]
    assert ids(instances, tag="team:blue") == ids(instances, tag="team") == ids(instances, owner="key") == []


def test_names_and_values_may_be_long_and_have_colons(instances: Instances) -> None:
    name, value = "é" * 128, "字" * 256
    one = add(instances, 1, tags=[(name, value), ("a:b", "c"), ("empty", "")])

    for tag in (f"{name}:{value}", "a:b:c", "empty:"):
        assert ids(instances, tag=tag) == [one.id]


def test_the_lists_follow_the_tags_with_the_record(table: Table, instances: Instances) -> None:
    record = add(instances, 1, tags=[("team", "red"), ("env", "dev")])

    record = instances.save(retagged(record, ("team", "blue"), ("env", "dev")))
    assert ids(instances, tag="team:red") == []
    assert ids(instances, tag="team:blue") == ids(instances, tag="env:dev") == [record.id]
    assert len(list_items(table, record.id)) == 3

    read_again = instances.get(record.id)
    assert read_again
    instances.save(retagged(read_again))
    assert ids(instances, tag="team:blue") == ids(instances, tag="env:dev") == []
    assert ids(instances, owner="key_a") == [record.id]
    assert [item["lookup"] for item in list_items(table, record.id)] == ["owner#key_a"]


def test_a_save_that_changes_no_list_writes_the_record_alone(table: Table, instances: Instances) -> None:
    record = add(instances, 1, tags=[("team", "red")])
    refused: list[Any] = []
    table.client.meta.events.register(
        "before-call.dynamodb.TransactWriteItems", lambda **_: refused.append(1)
    )

    instances.save(deciding(record).change(webhook_url="https://example.com"))

    assert not refused


def test_a_loser_of_a_race_changes_no_list(instances: Instances) -> None:
    record = add(instances, 1, tags=[("team", "red")])
    instances.save(retagged(record, ("team", "blue")))

    with pytest.raises(StaleInstance):
        instances.save(retagged(record, ("team", "green")))

    assert ids(instances, tag="team:green") == ids(instances, tag="team:red") == []
    assert ids(instances, tag="team:blue") == [record.id]


def test_a_record_from_before_is_listed_from_its_next_write_on(table: Table, instances: Instances) -> None:
    record = add(instances, 1, tags=[("team", "red")])
    for item in list_items(table, record.id):
        table.delete(item["pk"], item["sk"])
    table.update(record.id, "record", "REMOVE lists")
    assert ids(instances, tag="team:red") == []
    read = instances.get(record.id)
    assert read

    instances.save(deciding(read))

    assert ids(instances, tag="team:red") == ids(instances, owner="key_a") == [record.id]


def test_what_an_index_still_says_and_the_record_no_longer_does_is_left_out(
    table: Table, instances: Instances
) -> None:
    left, one = add(instances, 1, tags=[("team", "red")]), add(instances, 2, tags=[("team", "red")])
    (item,) = (item for item in list_items(table, left.id) if item["lookup"] == "tag#team:red")
    instances.save(retagged(left))
    table.client.put_item(TableName=table.name, Item={k: {"S": v} for k, v in item.items()})

    assert ids(instances, tag="team:red") == [one.id]


@pytest.mark.parametrize("limit", [1, 3, 100])
def test_pages_of_every_combination_are_exact(table: Table, instances: Instances, limit: int) -> None:
    random = Random(7)
    records = [
        add(
            instances,
            number,
            name=random.choice(["a", "b"]),
            status=random.choice([Status.RUNNING, Status.TERMINATED]),
            actor=random.choice(["key_a", "key_b"]),
            tags=[("team", random.choice(["red", "blue"]))],
        )
        for number in range(24)
    ]
    totals = Totals(table, SharedCache(table, Clock()), Clock(), 30)
    for name in (None, "a"):
        for status in (None, "running"):
            for owner in (None, "key_a"):
                for tag in (None, "team:red"):
                    asked = {"name": name, "status": status, "owner": owner, "tag": tag}
                    listing = Listing(**asked)
                    wanted = [one.id for one in reversed(records) if is_listed(one, listing)]
                    assert ids(instances, limit, **{k: v for k, v in asked.items() if v}) == wanted
                    assert totals.of(listing) == len(wanted)


class Entries(Table):
    """An index of ids, whose queries are counted."""

    def __init__(self, lists: dict[str, list[str]]) -> None:
        self._lists = lists
        self.queries = self.read = 0

    def query(self, condition: str, values: Any, **options: Any) -> tuple[list[Item], Item | None]:
        whole = self._lists[values[":key"]]
        below = "<=" not in condition
        left = [one for one in whole if one < values[":wanted"] or (not below and one == values[":wanted"])]
        some = left[: options["limit"]]
        self.queries, self.read = self.queries + 1, self.read + len(some)
        return [{"id": one} for one in some], {"id": some[-1]} if len(some) < len(left) else None


def test_of_ten_thousand_a_page_reads_what_it_shows_and_a_rare_match_some_entries_more() -> None:
    newest_first = [f"{number:05d}" for number in range(10_000, 0, -1)]
    rare = newest_first[5000::2500]
    table = Entries({"all": newest_first, "rare": rare})
    tag, status = ("lookup", "lookup", "all"), ("status", "statusKey", "rare")

    page = ids_in_all(table, [tag], None, at_once=21)
    assert [next(page) for _ in range(21)] == newest_first[:21]
    assert (table.queries, table.read) == (1, 21)

    table.queries = table.read = 0
    assert list(ids_in_all(table, [tag, status], None, at_once=21)) == rare
    assert table.queries <= 8
    assert table.read < 2 * MOST_AT_ONCE


def test_two_long_lists_with_nothing_in_common_are_read_once() -> None:
    ids_ = [f"{number:05d}" for number in range(10_000, 0, -1)]
    table = Entries({"even": ids_[::2], "odd": ids_[1::2]})

    found = list(ids_in_all(table, [("lookup", "lookup", one) for one in ("even", "odd")], None, at_once=21))

    assert found == []
    assert table.read <= 10_100
    assert table.queries <= 20


def test_an_instance_of_another_store_is_listed_the_same(table: Table) -> None:
    """Two functions, each with its own store, keep the lists of one record."""
    one, other = instances_in(table), instances_in(table)
    record = add(one, 1, tags=[("team", "red")])
    read = other.get(record.id)
    assert read

    other.save(retagged(read, ("team", "blue")))

    assert ids(one, tag="team:red") == []
    assert ids(one, tag="team:blue") == [record.id]
