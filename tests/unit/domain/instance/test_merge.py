"""One list of what is here and what Novita shows: who is who, which side is newer, what is shown."""

from dataclasses import replace
from typing import Any

import pytest

from functions.shared.domain.ids import machine_name
from functions.shared.domain.instance.machine import Endpoint, Machine
from functions.shared.domain.instance.merge import (
    Consistency,
    Merged,
    Source,
    merge,
    shown_status,
    without_novita,
)
from functions.shared.domain.instance.record import Action, Instance
from functions.shared.domain.instance.status import Status
from tests.unit.builders import (
    HTTP,
    NOW,
    OWN,
    POLICY,
    after,
    ago,
    new_instance,
    new_machine,
    new_task,
)

DEPLOYMENT = "abcd1234"
ID = "inst_01JGFJJZ00ABCDEFGHJKMNPQRS"
OTHER_ID = "inst_01JGFJJZ00ZZZZZZZZZZZZZZZZ"


def ours(status: str, machine_id: str = OWN, purchase: int = 1, **changes: Any) -> Machine:
    return new_machine(
        status, machine_id, **{"name": machine_name("test", DEPLOYMENT, ID, purchase)} | changes
    )


def here(status: Status, **changes: Any) -> Instance:
    return new_instance(status, **{"region": "EU", "novita_status": "running"} | changes)


def merged(machines: list[Machine], records: list[Instance], gone: tuple[Instance, ...] = ()) -> list[Merged]:
    marked: dict[str, Instance | None] = {one.id: one for one in (*records, *gone)}
    return merge(machines, records, marked, DEPLOYMENT, NOW, NOW, POLICY)


def only(machines: list[Machine], records: list[Instance], gone: tuple[Instance, ...] = ()) -> Merged:
    (one,) = merged(machines, records, gone)
    return one


def kinds(found: list[Merged]) -> list[tuple[Source, Consistency]]:
    return [(one.source, one.consistency) for one in found]


# One side alone


@pytest.mark.parametrize("status", [Status.CREATING, Status.FAILED])
def test_an_instance_without_a_machine_is_local_and_in_order(status: Status) -> None:
    record = here(status, machine_id=None)

    one = only([], [record])

    assert (one.source, one.consistency, one.record) == (Source.LOCAL, Consistency.CONSISTENT, record)


def test_an_instance_whose_machine_is_not_listed_is_shown_as_it_was_last_known() -> None:
    lost = here(Status.RUNNING, seen_at=ago(500))
    just_seen = here(Status.RUNNING, seen_at=ago(5))
    leaving = here(Status.DELETING, seen_at=ago(500), tasks=(new_task(),))

    assert only([], [lost]) == Merged(Source.LOCAL, Consistency.CONFLICTED, lost)
    assert only([], [just_seen]).consistency is Consistency.LOCAL_NEWER
    assert only([], [leaving]).consistency is Consistency.LOCAL_NEWER


def test_a_machine_that_is_nobodys_is_novitas_and_in_order() -> None:
    theirs = new_machine("running", name="theirs")

    assert only([theirs], []) == Merged(Source.NOVITA, Consistency.CONSISTENT, None, theirs)


def test_a_machine_with_our_mark_and_no_record_is_a_conflict() -> None:
    assert kinds([only([ours("running")], [])]) == [(Source.NOVITA, Consistency.CONFLICTED)]


def test_a_machine_that_is_gone_is_not_shown() -> None:
    assert merged([ours("removed"), new_machine("removed", "x")], []) == []


# Both sides


@pytest.mark.parametrize(
    ("status", "word"),
    [
        (Status.STARTING, "pulling"),
        (Status.RUNNING, "running"),
        (Status.HEALTH_CHECKING, "running"),
        (Status.READY, "running"),
        (Status.STOPPING, "stopping"),
        (Status.STOPPED, "exited"),
        (Status.EXITED, "exited"),
        (Status.MIGRATING, "migrating"),
        (Status.DELETING, "removing"),
        (Status.FAILED, "running"),  # and kept
    ],
)
def test_both_agree(status: Status, word: str) -> None:
    one = only([ours(word, region="EU")], [here(status)])

    assert (one.source, one.consistency) == (Source.MERGED, Consistency.CONSISTENT)
    assert one.record
    assert one.record.status is status


@pytest.mark.parametrize(
    ("status", "word", "shown"),
    [
        (Status.STARTING, "running", Status.RUNNING),
        (Status.RUNNING, "exited", Status.EXITED),
        (Status.READY, "migrating", Status.MIGRATING),
        (Status.STOPPED, "running", Status.RUNNING),
        (Status.EXITED, "running", Status.RUNNING),
        (Status.STOPPING, "exited", Status.STOPPED),
        (Status.MIGRATING, "running", Status.RUNNING),
    ],
)
def test_novita_wins_on_status(status: Status, word: str, shown: Status) -> None:
    one = only([ours(word)], [here(status)])

    assert (one.source, one.consistency) == (Source.MERGED, Consistency.NOVITA_NEWER)
    assert one.record
    assert one.record.status is shown


def test_novita_wins_on_region_and_endpoints() -> None:
    moved = Endpoint(8188, "http", "https://elsewhere.example")

    one = only([ours("running", region="US", endpoints=(moved,))], [here(Status.RUNNING)])

    assert one.consistency is Consistency.NOVITA_NEWER
    assert one.record
    assert (one.record.machine.region, one.record.machine.endpoints) == ("US", (moved,))


def test_a_list_without_addresses_takes_none_away() -> None:
    one = only([ours("running", region="EU", endpoints=(replace(HTTP, address=""),))], [here(Status.RUNNING)])

    assert one.consistency is Consistency.CONSISTENT
    assert one.record
    assert one.record.machine.endpoints == (HTTP,)


@pytest.mark.parametrize(
    "record",
    [
        here(Status.STARTING, acted_at=after(1), pending=None),  # started after the list was asked for
        here(Status.STARTING, pending=Action.START),  # Novita has yet to take it
        here(Status.STOPPING),
        here(Status.DELETING, tasks=(new_task(),)),
        here(Status.FAILED, tasks=(new_task(),)),
        here(Status.EXITED, seen_at=after(1)),  # seen since by a get
    ],
)
def test_what_was_done_here_is_newer_than_what_novita_shows(record: Instance) -> None:
    one = only([ours("running")], [record])

    assert (one.source, one.consistency) == (Source.MERGED, Consistency.LOCAL_NEWER)
    assert one.record
    assert one.record.status is record.status


def test_what_follows_from_neither_is_a_conflict() -> None:
    record = here(Status.EXITED, novita_status="starting")

    assert only([ours("starting", region="EU")], [record]).consistency is Consistency.CONFLICTED


# Who is who


def test_the_id_goes_before_the_mark() -> None:
    owner = here(Status.RUNNING)
    named = here(Status.CREATING, id=OTHER_ID, machine_id=None)
    machine = ours("running", name=machine_name("test", DEPLOYMENT, OTHER_ID, 1))

    found = merged([machine], [owner, named])

    assert {one.record.id: one.source for one in found if one.record} == {
        owner.id: Source.MERGED,
        named.id: Source.LOCAL,
    }


def test_the_mark_finds_the_instance_that_does_not_know_its_machine_yet() -> None:
    record = new_instance(Status.CREATING, unsettled=True, purchases=1, deadline_at=after(600))

    one = only([ours("running")], [record])

    assert (one.source, one.consistency) == (Source.MERGED, Consistency.NOVITA_NEWER)
    assert one.record
    assert (one.record.status, one.record.machine.id) == (Status.RUNNING, OWN)


def test_of_two_machines_with_one_mark_one_is_the_instances_and_the_other_a_conflict() -> None:
    record = here(Status.RUNNING)

    found = merged([ours("running", region="EU"), ours("running", "m-2", purchase=2)], [record])

    assert kinds(found) == [
        (Source.MERGED, Consistency.CONSISTENT),
        (Source.NOVITA, Consistency.CONFLICTED),
    ]


def test_a_surplus_machine_that_is_being_given_back_is_no_conflict() -> None:
    record = here(Status.RUNNING, tasks=(new_task(Action.DELETE, "m-2"),))

    found = merged([ours("running", region="EU"), ours("running", "m-2", purchase=2)], [record])

    assert kinds(found)[1] == (Source.NOVITA, Consistency.LOCAL_NEWER)


def test_two_without_a_machine_do_not_share_one_mark() -> None:
    record = new_instance(Status.CREATING, unsettled=True, deadline_at=after(600))

    found = merged([ours("running", "m-1"), ours("running", "m-2", purchase=2)], [record])

    assert kinds(found) == [
        (Source.MERGED, Consistency.NOVITA_NEWER),
        (Source.NOVITA, Consistency.CONFLICTED),
    ]


def test_a_name_that_occurs_twice_confuses_nobody() -> None:
    first = here(Status.RUNNING, name="same")
    second = here(Status.RUNNING, name="same", id=OTHER_ID, machine_id="m-2")
    theirs = [new_machine("running", f"m-{number}", name="same") for number in (3, 4)]
    machines = [
        ours("running", region="EU"),
        ours("exited", "m-2", name=machine_name("same", DEPLOYMENT, OTHER_ID, 1)),
        *theirs,
    ]

    found = merged(machines, [first, second])

    assert kinds(found) == [
        (Source.MERGED, Consistency.CONSISTENT),
        (Source.MERGED, Consistency.NOVITA_NEWER),
        (Source.NOVITA, Consistency.CONSISTENT),
        (Source.NOVITA, Consistency.CONSISTENT),
    ]
    assert [one.record.status for one in found if one.record] == [Status.RUNNING, Status.EXITED]


def test_a_machine_that_a_terminated_instance_had_is_a_conflict_unless_the_list_only_lags() -> None:
    confirmed_gone = here(Status.TERMINATED, gone=(OWN,))
    never_known = here(Status.TERMINATED, machine_id=None)

    assert only([ours("running")], [], (confirmed_gone,)).consistency is Consistency.LOCAL_NEWER
    assert only([ours("running")], [], (never_known,)).consistency is Consistency.CONFLICTED


def test_every_record_and_every_machine_is_there_once() -> None:
    records = [here(Status.RUNNING, id=f"inst_{n:026d}", machine_id=f"m-{n}") for n in range(40)]
    machines = [new_machine("running", f"m-{n}", name=f"n{n}") for n in range(20, 60)]

    found = merged(machines, records)

    assert len(found) == 60
    assert {one.record.id for one in found if one.record} == {record.id for record in records}
    assert {one.machine.id for one in found if one.machine} == {machine.id for machine in machines}


# Without Novita


def test_without_novita_what_is_here_is_the_newest_there_is() -> None:
    found = list(without_novita([here(Status.RUNNING), here(Status.CREATING, machine_id=None)]))

    assert kinds(found) == [
        (Source.LOCAL, Consistency.LOCAL_NEWER),
        (Source.LOCAL, Consistency.CONSISTENT),
    ]


@pytest.mark.parametrize(
    ("word", "status"),
    [
        ("running", Status.RUNNING),
        ("exited", Status.EXITED),
        ("migrating", Status.MIGRATING),
        ("toStop", Status.STOPPING),
        ("removing", Status.DELETING),
        ("pulling", Status.STARTING),
        ("some day a new word", Status.STARTING),
    ],
)
def test_a_machine_that_is_nobodys_is_shown_in_our_words(word: str, status: Status) -> None:
    assert shown_status(new_machine(word)) is status
