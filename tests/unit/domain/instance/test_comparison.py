"""Novita's list against the records: what matches, what is missed, what is too much to be believed."""

from dataclasses import replace
from typing import Any

import pytest

from functions.shared.domain.ids import Mark, machine_name, new_instance_id
from functions.shared.domain.instance.comparison import Comparison, compare, too_many
from functions.shared.domain.instance.machine import Machine
from functions.shared.domain.instance.record import Action, Instance
from functions.shared.domain.instance.status import Status
from tests.unit.builders import NOW, ago, changed, new_instance, new_machine, new_task

OURS, THEIRS = "0123abcd", "9999zzzz"
SETTLED = ago(120)  # what was seen after this may not be in the list yet


def having(machine_id: str, status: Status = Status.RUNNING, **changes: Any) -> Instance:
    fields: dict[str, Any] = {"machine_id": machine_id, "seen_at": ago(600)} | changes
    return changed(new_instance(status), id=new_instance_id(NOW), **fields)


def marked(record: Instance, machine_id: str, purchase: int = 1, deployment: str = OURS) -> Machine:
    name = machine_name(record.name, deployment, record.id, purchase)
    return replace(new_machine("running", machine_id), name=name)


def compared(machines: list[Machine], *records: Instance, live: bool = True) -> Comparison:
    """`live=False`: the records are found by their id alone, as those that are terminated."""
    by_id = {record.id: record for record in records}
    return compare(machines, records if live else (), by_id, OURS, missed_since=SETTLED)


def test_a_record_is_matched_by_its_machines_id_whatever_the_name() -> None:
    record = having("m-1")
    imported = replace(new_machine("running", "m-1"), name="somebody's")

    found = compared([imported], record)

    assert found.matched == ((record, imported),)
    assert found.known == 1
    assert (found.unlisted, found.unknown, found.orphans) == ((), (), ())


def test_a_machine_of_another_deployment_or_without_a_mark_is_nothing_to_us() -> None:
    record = having("m-1")
    machines = [
        marked(record, "m-1"),
        marked(having("m-2"), "m-2", deployment=THEIRS),
        replace(new_machine("running", "m-3"), name="by hand"),
        replace(new_machine("running", "m-4"), name=f"x-{OURS}-too-short"),
        replace(new_machine("running", "m-5"), name=f"{marked(record, 'm-5').name}-more"),
    ]

    found = compared(machines, record)

    assert [machine.id for _, machine in found.matched] == ["m-1"]
    assert (found.unlisted, found.unknown, found.orphans) == ((), (), ())


def test_a_mark_without_a_record_is_an_orphan() -> None:
    machine = marked(having("m-1"), "m-1")

    found = compared([machine])

    assert [marked.machine for marked in found.orphans] == [machine]


def test_a_mark_whose_record_has_another_machine_is_unknown_with_its_purchase() -> None:
    record = having("m-1")

    found = compared([marked(record, "m-1"), marked(record, "m-2", purchase=2)], record)

    assert [(r.id, s.machine.id, s.mark) for r, s in found.unknown] == [
        (record.id, "m-2", Mark(record.id, 2))
    ]


@pytest.mark.parametrize("status", [Status.CREATING, Status.DELETING, Status.FAILED, Status.TERMINATED])
def test_a_machine_that_turns_up_late_is_unknown(status: Status) -> None:
    record = changed(having("m-1", status), machine_id=None)

    found = compared([marked(record, "m-1")], record, live=status is not Status.TERMINATED)

    assert [marked.machine.id for _, marked in found.unknown] == ["m-1"]
    assert found.known == 0


def test_what_is_being_given_back_is_no_news() -> None:
    record = having("m-1", tasks=(new_task(machine_id="m-2"),))

    found = compared([marked(record, "m-1"), marked(record, "m-2", purchase=2)], record)

    assert (found.unknown, found.reappeared, found.orphans) == ((), (), ())


def test_what_counted_as_gone_and_is_listed_is_asked_about() -> None:
    record = having("m-1", Status.TERMINATED, gone=("m-1",))

    found = compared([marked(record, "m-1")], record, live=False)

    assert [machine.id for _, machine in found.reappeared] == ["m-1"]
    assert not found.unknown


def test_a_machine_shown_as_removed_counts_as_absent() -> None:
    record = having("m-1")
    removed = replace(marked(record, "m-1"), status="removed")

    found = compared([removed], record)

    assert found.unlisted == (record,)
    assert not found.matched


def test_what_was_bought_just_now_is_not_missed() -> None:
    old, new = having("m-1"), having("m-2", Status.STARTING, seen_at=ago(119))

    assert compared([], old, new).unlisted == (old,)


def test_what_was_to_be_taken_away_is_missed_at_once() -> None:
    record = having("m-1", seen_at=ago(10), spot_status="notified", spot_reclaim_at=ago(5))

    assert compared([], record).unlisted == (record,)


def test_what_we_are_deleting_is_not_missed() -> None:
    leaving = [having(f"m-{n}", Status.DELETING, tasks=(new_task(machine_id=f"m-{n}"),)) for n in range(9)]
    stopping = having("m-9", Status.FAILED, tasks=(new_task(Action.STOP, machine_id="m-9"),))

    found = compared([], *leaving, stopping)

    assert found.unlisted == (stopping,)


def test_an_imported_machine_that_vanished_and_is_back_is_asked_about_though_it_has_no_mark() -> None:
    record = having("m-1", Status.TERMINATED, gone=("m-1",), vanished=("m-1",))

    found = compared([new_machine("running", "m-1", name="theirs")], record)

    assert found.reappeared == ((record, new_machine("running", "m-1", name="theirs")),)


def test_what_was_released_is_nobodys_surplus() -> None:
    record = having("m-1", Status.TERMINATED, released=("m-1",))

    found = compared([marked(record, "m-1")], record, live=False)

    assert (found.unknown, found.reappeared, found.orphans) == ((), (), ())


@pytest.mark.parametrize(
    ("known", "orphans", "held"),
    [(0, 3, False), (0, 4, True), (15, 3, False), (16, 4, True), (20, 4, False), (20, 5, True)],
)
def test_more_than_three_orphans_and_a_fifth_of_what_is_known_are_not_deleted_at_once(
    known: int, orphans: int, held: bool
) -> None:
    assert too_many(orphans, known) is held
