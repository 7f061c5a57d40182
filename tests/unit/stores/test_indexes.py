"""Indexes carry little and may lag: what they find is read whole, and counts only if it is still so."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from functions.shared.domain.ids import new_instance_id
from functions.shared.domain.instance.fleet import FleetEntry
from functions.shared.domain.instance.record import Action, CleanupTask, Instance
from functions.shared.domain.instance.status import Status
from functions.shared.stores.instances import FLEET_SHARDS, Instances, fleet_key, record_item
from functions.shared.stores.listings import Listing
from functions.shared.stores.table import Item, Table, Write, marshal
from tests.unit.builders import NOW, OWN, new_instance
from tests.unit.tables import instances_in

IDS = [new_instance_id(NOW + timedelta(seconds=number)) for number in range(40)]


class Lagging(Table):
    """Its indexes show what they showed when they stood still."""

    def __init__(self, table: Table) -> None:
        super().__init__(table.client, table.name)
        self._kept: dict[str, tuple[list[Item], Item | None]] = {}
        self.stands_still = False

    def query(self, condition: str, values: Any, **options: Any) -> tuple[list[Item], Item | None]:
        if not options.get("index"):
            return super().query(condition, values, **options)
        asked = repr((condition, values, options))
        if not (self.stands_still and asked in self._kept):
            self._kept[asked] = super().query(condition, values, **options)
        return self._kept[asked]


@pytest.fixture
def lagging(table: Table) -> Lagging:
    return Lagging(table)


def put(table: Table, *records: Instance) -> None:
    for record in records:
        table.put(Write(record_item(record)))


def failed(instance_id: str, **changes: Any) -> Instance:
    return new_instance(
        Status.FAILED, id=instance_id, **{"machine_id": None, "next_check_at": None} | changes
    )


def ids(records: Sequence[Instance | FleetEntry]) -> list[str]:
    return sorted(record.id for record in records)


def test_the_fleet_is_what_may_have_a_machine_wherever_it_is_in_its_shards(
    table: Table, instances: Instances
) -> None:
    up = [new_instance(Status.RUNNING, id=one) for one in IDS]
    ended = new_instance(Status.TERMINATED, id=new_instance_id(NOW), gone=(OWN,))
    given_back = new_instance(
        Status.TERMINATED, id=new_instance_id(NOW), tasks=(CleanupTask(OWN, Action.DELETE, NOW),)
    )
    put(table, *up, failed(new_instance_id(NOW)), ended, given_back)

    assert ids(instances.fleet()) == ids([*up, given_back])
    assert len({fleet_key(one) for one in IDS}) > FLEET_SHARDS / 2


def test_what_fails_and_has_no_machine_leaves_the_fleet_and_is_still_shown(
    table: Table, instances: Instances
) -> None:
    put(table, new_instance(Status.CREATING, id=IDS[0]), failed(IDS[1], machine_id=OWN))
    assert ids(instances.fleet()) == IDS[:2]

    about_to_end = new_instance(Status.DELETING, id=IDS[2], machine_id=None)
    put(table, failed(IDS[0]), failed(IDS[1], machine_id=OWN, gone=(OWN,)), about_to_end)

    assert instances.fleet() == []
    assert ids(instances.not_terminated()) == IDS[:3]


def test_of_what_is_terminated_nothing_is_shown_even_with_a_machine_to_give_back(
    table: Table, instances: Instances
) -> None:
    task = CleanupTask(OWN, Action.DELETE, NOW)
    put(table, new_instance(Status.TERMINATED, id=IDS[0], tasks=(task,)), failed(IDS[1], tasks=(task,)))

    assert ids(instances.fleet()) == IDS[:2]
    assert ids(instances.not_terminated()) == [IDS[1]]


def test_an_instance_stays_in_its_shard() -> None:
    before, after = new_instance(Status.CREATING, id=IDS[0]), new_instance(Status.READY, id=IDS[0])

    assert record_item(before)["fleet"] == record_item(after)["fleet"] == fleet_key(IDS[0])


def test_an_entry_of_the_fleet_is_small(table: Table) -> None:
    """A sweep of thousands reads a few units of these: 4 kB hold more than a dozen."""
    record = new_instance(Status.RUNNING, id=IDS[0], machine_id="0123456789abcdef", region="CN-HK-01")
    put(table, record)

    (entry,) = table.query_all("fleet = :key", {":key": fleet_key(IDS[0])}, index="fleet")

    assert set(entry) == {"pk", "sk", "id", "fleet", "summary"}
    assert len(str(marshal(entry))) < 450  # with DynamoDB's own brackets and types


@pytest.mark.parametrize(
    ("name", "status"), [(None, None), (None, "running"), ("test", None), ("test", "running")]
)
def test_a_page_has_whole_records_in_order_as_they_are_now(
    lagging: Lagging, name: str | None, status: str | None
) -> None:
    instances = instances_in(lagging)
    put(lagging, *(new_instance(Status.RUNNING, id=one) for one in IDS[:5]))
    listing = Listing(name=name, status=status)
    first, end = instances.page(listing, limit=3, after=None)
    lagging.stands_still = True

    put(lagging, new_instance(Status.STOPPING, id=IDS[3], version=9))
    again, end_again = instances.page(listing, limit=3, after=None)

    assert ([one.id for one in first], end) == (IDS[4:1:-1], IDS[2])
    if status is None:
        assert [(one.id, one.version) for one in again] == [(IDS[4], 3), (IDS[3], 9), (IDS[2], 3)]
    else:  # it is no longer running, whatever the index says; the next one is in its place
        assert ([one.id for one in again], end_again) == ([IDS[4], IDS[2], IDS[1]], IDS[1])


def test_a_page_of_a_hundred_is_one_batch(table: Table) -> None:
    batches = []

    class Counted(Table):
        def get_all(self, keys: Any, **options: Any) -> Any:
            batches.append(list(keys))
            return super().get_all(batches[-1], **options)

    counted = Counted(table.client, table.name)
    put(table, *(failed(new_instance_id(NOW + timedelta(seconds=number))) for number in range(101)))

    page, end = instances_in(counted).page(Listing(), limit=100, after=None)

    assert (len(page), end) == (100, page[-1].id)
    assert [len(batch) for batch in batches] == [100]


def test_one_that_is_gone_from_the_table_is_passed_over(lagging: Lagging) -> None:
    instances = instances_in(lagging)
    put(lagging, *(failed(one) for one in IDS[:3]))
    instances.page(Listing(), limit=3, after=None)
    lagging.stands_still = True

    lagging.delete(IDS[1], "record")
    page, end = instances.page(Listing(), limit=3, after=None)

    assert ([one.id for one in page], end) == ([IDS[2], IDS[0]], None)


def test_of_that_name_are_those_that_are_not_over(table: Table, instances: Instances) -> None:
    kept = failed(IDS[0], machine_id=OWN)
    about_to_end = new_instance(Status.DELETING, id=IDS[1], machine_id=None)
    ended = new_instance(Status.TERMINATED, id=IDS[3], gone=(OWN,))
    put(table, kept, about_to_end, failed(IDS[2]), ended)

    assert instances.live_named("test") == IDS[1::-1]


def test_of_that_name_is_what_the_records_say(lagging: Lagging) -> None:
    instances = instances_in(lagging)
    put(lagging, *(new_instance(Status.RUNNING, id=one) for one in IDS[:2]))
    assert instances.live_named("test") == IDS[1::-1]
    lagging.stands_still = True

    put(lagging, new_instance(Status.TERMINATED, id=IDS[1], gone=(OWN,)))

    assert instances.live_named("test") == [IDS[0]]
