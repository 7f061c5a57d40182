"""When instances were last used: noted apart from their records, and read a hundred at a time."""

from typing import Any

from functions.shared.domain.instance.observations import LastUse
from functions.shared.stores.last_used import LastUsed
from functions.shared.stores.table import Table
from tests.unit.builders import after, created
from tests.unit.tables import instances_in


class Busy:
    """The real client, which leaves out half of what a batch asks for."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.asked: list[int] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def batch_get_item(self, RequestItems: Any) -> Any:  # noqa: N803  # boto3's own name
        ((name, wanted),) = RequestItems.items()
        keys = wanted["Keys"]
        self.asked.append(len(keys))
        half = max(1, len(keys) // 2)
        answer = self._client.batch_get_item(RequestItems={name: {"Keys": keys[:half]}})
        return {**answer, "UnprocessedKeys": {name: {"Keys": keys[half:]}} if keys[half:] else {}}


def test_a_record_and_its_last_use_are_one_read_or_two_where_the_table_is_busy(table: Table) -> None:
    busy = instances_in(Table(Busy(table.client), table.name))  # type: ignore[arg-type]  # a client still
    instances = instances_in(table)
    record = instances.add(created())
    unused = instances.get_with_use(record.id)
    LastUsed(table).note(record.id, after(5))

    assert unused == (record, LastUse(None))
    assert instances.get_with_use(record.id) == (record, LastUse(after(5)))
    assert busy.get_with_use(record.id) == (record, LastUse(after(5)))
    assert instances.get_with_use("inst_none") == (None, LastUse(None))


def test_the_latest_use_counts_whenever_it_is_noted(table: Table) -> None:
    """Of two who note uses one may be late: what the other has used is in use."""
    uses, record = LastUsed(table), created().record

    answers = [uses.note(record.id, after(seconds)) for seconds in (5, 3, 5.5, 5, 6)]

    assert answers == [after(5), after(5), after(5.5), after(5.5), after(6)]
    assert uses.on(record).last_used_at == after(6)
    assert uses.of([record.id, "inst_other"]) == {record.id: after(6)}


def test_what_nobody_noted_is_as_the_record_has_it(table: Table) -> None:
    record = created().record

    assert LastUsed(table).on(record) == record
    assert LastUsed(table).of([]) == {}


def test_a_table_that_answers_in_parts_is_asked_for_the_rest(table: Table) -> None:
    ids = [f"inst_{number}" for number in range(130)]
    for number, id_ in enumerate(ids):
        LastUsed(table).note(id_, after(number))
    busy = Busy(table.client)

    found = LastUsed(Table(busy, table.name)).of(ids)  # type: ignore[arg-type]  # a fake client

    assert found == {id_: after(number) for number, id_ in enumerate(ids)}
    assert max(busy.asked) == 100


def test_a_table_that_gives_nothing_is_not_asked_for_ever(table: Table) -> None:
    class Throttled(Busy):
        def batch_get_item(self, RequestItems: Any) -> Any:  # noqa: N803  # boto3's own name
            self.asked.append(1)
            return {"Responses": {}, "UnprocessedKeys": RequestItems}

    throttled = Throttled(table.client)

    assert LastUsed(Table(throttled, table.name)).of(["inst_1"]) == {}  # type: ignore[arg-type]  # a fake client
    assert len(throttled.asked) <= 10


def test_one_that_is_shown_twice_is_read_once(table: Table) -> None:
    LastUsed(table).note("inst_1", after(1))

    assert LastUsed(table).of(["inst_1", "inst_1"]) == {"inst_1": after(1)}
