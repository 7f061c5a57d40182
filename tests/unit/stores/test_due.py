"""The index of what is due: it follows the record, and each overdue thing is claimed by one sweep."""

from typing import Any

import pytest
from botocore.exceptions import ClientError

from functions.shared.domain.instance.record import Instance
from functions.shared.stores.instances import read_record
from functions.shared.stores.table import Due, Table
from tests.unit.builders import NOW, after, ago, created, deciding
from tests.unit.tables import instances_in


def add(table: Table, number: int, due_at: Any) -> Instance:
    decision = created(instance_id=f"inst_{number:026d}")
    return instances_in(table).add(decision.due(due_at))


def ids(table: Table, until: Any = NOW) -> list[str]:
    return [item["pk"] for item in Due(table).overdue("instance", until, 10)]


def test_what_is_due_is_found_longest_overdue_first(table: Table) -> None:
    add(table, 1, ago(10))
    add(table, 2, ago(20))
    add(table, 3, after(1))

    assert ids(table) == [f"inst_{2:026d}", f"inst_{1:026d}"]


def test_the_index_follows_the_due_time_of_the_record(table: Table) -> None:
    record = add(table, 1, NOW)
    instances = instances_in(table)

    seen = [ids(table)]
    later = instances.save(deciding(record).due(after(60)))
    seen += [ids(table), ids(table, after(60))]
    at_rest = instances.save(deciding(later).due(None))
    seen += [ids(table, after(60))]
    instances.save(deciding(at_rest).due(ago(1)))
    seen += [ids(table)]

    assert seen == [[record.id], [], [record.id], [], [record.id]]


def test_of_two_sweeps_one_claims_it_with_the_current_token(table: Table) -> None:
    record = add(table, 1, ago(20))
    first, second = Due(table), Due(table)
    (overdue,) = first.overdue("instance", NOW, 10)

    claims = [sweep.claim(overdue, after(60)) for sweep in (first, second)]

    assert claims[0] is not None
    assert read_record(claims[0]).token == record.token
    assert claims[1] is None
    assert ids(table) == []


def test_a_step_that_was_quicker_is_not_claimed(table: Table) -> None:
    record = add(table, 1, ago(20))
    (overdue,) = Due(table).overdue("instance", NOW, 10)
    instances_in(table).save(deciding(record).due(after(30)))

    assert Due(table).claim(overdue, after(60)) is None


def test_a_claim_does_not_keep_the_step_it_asks_for_from_being_saved(table: Table) -> None:
    record = add(table, 1, ago(20))
    (overdue,) = Due(table).overdue("instance", NOW, 10)
    Due(table).claim(overdue, after(60))

    saved = instances_in(table).save(deciding(record).due(after(30)))

    assert instances_in(table).get(record.id) == saved
    assert ids(table, after(30)) == [record.id]


@pytest.mark.parametrize(
    ("code", "raised"), [("TransactionConflictException", False), ("InternalServerError", True)]
)
def test_an_item_that_is_being_written_is_left_alone(table: Table, code: str, raised: bool) -> None:
    class Busy:
        def update_item(self, **_: Any) -> Any:
            raise ClientError({"Error": {"Code": code, "Message": ""}}, "UpdateItem")

    busy: Any = Busy()
    due = Due(Table(busy, table.name))
    overdue = {"pk": "x", "sk": "record", "dueAt": 1}

    if raised:
        with pytest.raises(ClientError):
            due.claim(overdue, NOW)
    else:
        assert due.claim(overdue, NOW) is None
