"""Every situation of an instance and everything Novita can show of its machine."""

from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from functions.shared.domain.errors import Fault
from functions.shared.domain.instance.decide import decide
from functions.shared.domain.instance.decision import Decision
from functions.shared.domain.instance.health import HealthCheck
from functions.shared.domain.instance.observations import (
    Act,
    NotFoundById,
    NotListed,
    Observation,
    Seen,
    Tick,
)
from functions.shared.domain.instance.record import Action, Instance, Operation
from functions.shared.domain.instance.status import Status
from functions.shared.domain.money.ledger import Ledger, Meter
from tests.unit.builders import (
    NOW,
    OWN,
    POLICY,
    after,
    ago,
    changed,
    new_instance,
    new_machine,
    new_operation,
    new_spec,
    new_task,
)
from tests.unit.domain.instance.promises import call_once_stored

CHECK = HealthCheck()
CHECKED = new_spec(health_check=CHECK)
ON_ITS_WAY = [
    "toCreate",
    "creating",
    "pulling",
    "toStart",
    "starting",
    "toStop",
    "stopping",
    "toRestart",
    "restarting",
    "toRemove",
    "removing",
    "toReset",
    "resetting",
    "freezing",
    "pending",
]
UNKNOWN = ["quantum_leap", "", "Running", "stopped", "terminated", "failed"]  # not v1's words


def starting_again(**changes: Any) -> dict[str, Any]:
    start: Operation = new_operation(Action.START)
    return {"operation": start, "health_check": CHECK, "ready_at": ago(3000), "acted_at": ago(300)} | changes


ON, DUE = after(600), {"deadline_at": after(600)}
SITUATIONS: dict[str, Instance] = {
    "creating": new_instance(Status.CREATING, **DUE),
    "creating, a purchase unclear": new_instance(Status.CREATING, unsettled=True, purchases=1, **DUE),
    "first boot": new_instance(Status.STARTING, **DUE),
    "first boot, to be checked": new_instance(Status.STARTING, spec=CHECKED, **DUE),
    "start asked for": new_instance(Status.STARTING, **starting_again(pending=Action.START, **DUE)),
    "start taken": new_instance(Status.STARTING, **starting_again(**DUE)),
    "start taken just now": new_instance(Status.STARTING, **starting_again(acted_at=ago(60), **DUE)),
    "restart asked for": new_instance(
        Status.STARTING,
        **starting_again(pending=Action.RESTART, operation=new_operation(Action.RESTART), **DUE),
    ),
    "running": new_instance(Status.RUNNING, ready_at=ago(50)),
    "first check": new_instance(Status.HEALTH_CHECKING, spec=CHECKED, **DUE),
    "check after a start": new_instance(Status.HEALTH_CHECKING, **starting_again(**DUE)),
    "ready": new_instance(Status.READY, ready_at=ago(50)),
    "stop asked for": new_instance(
        Status.STOPPING, pending=Action.STOP, operation=new_operation(Action.STOP)
    ),
    "stop taken": new_instance(Status.STOPPING, operation=new_operation(Action.STOP)),
    "stopped": new_instance(Status.STOPPED, ready_at=ago(3000)),
    "exited": new_instance(Status.EXITED, ready_at=ago(3000)),
    "exited, was checked when it was created": new_instance(Status.EXITED, ready_at=ago(3000), spec=CHECKED),
    "migrating": new_instance(Status.MIGRATING, ready_at=ago(3000)),
    "migrating in the first boot, to be checked": new_instance(Status.MIGRATING, spec=CHECKED, **DUE),
    "migrating after a start": new_instance(Status.MIGRATING, **starting_again(**DUE)),
    "failed, machine kept": new_instance(Status.FAILED, spec=new_spec(keep_on_failure=True)),
    "failed, to be deleted": new_instance(Status.FAILED, tasks=(new_task(asked_at=ago(60)),)),
    "failed, to be stopped": new_instance(Status.FAILED, tasks=(new_task(Action.STOP, asked_at=ago(60)),)),
    "deleting": new_instance(
        Status.DELETING, tasks=(new_task(asked_at=ago(60)),), operation=new_operation(Action.DELETE)
    ),
    "deleting, not yet asked": new_instance(Status.DELETING, tasks=(new_task(),)),
    "terminated": new_instance(Status.TERMINATED, gone=(OWN,)),
}

RUN, GO_CHECK = ("instance.running",), ("instance.running", "instance.health_checking")
EXIT, MOVE, END = ("instance.exited",), ("instance.migrating",), ("instance.terminated",)
EXIT_AGAIN = ("instance.exited", "startup.failed")

# What is announced when Novita shows the machine so; what is not here announces nothing.
SHOWN: dict[str, dict[str, tuple[str, ...]]] = {
    "first boot": {"running": RUN, "exited": EXIT, "migrating": MOVE},
    "first boot, to be checked": {"running": GO_CHECK, "exited": EXIT, "migrating": MOVE},
    # Until Novita has taken a start, what it shows is from before it.
    "start taken": {"running": GO_CHECK, "exited": EXIT_AGAIN, "migrating": MOVE},
    "start taken just now": {"running": GO_CHECK, "migrating": MOVE},
    "running": {"exited": EXIT, "migrating": MOVE},
    "first check": {"exited": EXIT, "migrating": MOVE},
    "check after a start": {"exited": EXIT_AGAIN, "migrating": MOVE},
    "ready": {"exited": EXIT, "migrating": MOVE},
    "stop asked for": {"exited": ("instance.stopped",)},
    "stop taken": {"exited": ("instance.stopped",)},
    "stopped": {"running": RUN, "migrating": MOVE},
    "exited": {"running": RUN, "migrating": MOVE},
    "exited, was checked when it was created": {"running": RUN, "migrating": MOVE},
    "migrating": {"running": RUN, "exited": EXIT},
    # A machine that was on its way up when Novita moved it still has to answer.
    "migrating in the first boot, to be checked": {"running": GO_CHECK, "exited": EXIT},
    "migrating after a start": {"running": GO_CHECK, "exited": EXIT_AGAIN},
    "deleting": {"gone": END},
    "deleting, not yet asked": {"gone": END},
}
BOOKKEEPING: dict[str, Any] = {"looked_at": None, "next_check_at": None, "waiting": None}


def seen(status: str, began: datetime) -> Seen:
    return Seen(new_machine(status), began)


def types(decision: Decision) -> tuple[str, ...]:
    return tuple(event.type for event in decision.events)


def kept(record: Instance) -> Instance:
    """Without what only says when was looked."""
    tasks = tuple(replace(task, checked_at=None) for task in record.cleanup.tasks)
    return changed(record, tasks=tasks, **BOOKKEEPING)


def doubted_long_enough(record: Instance) -> Instance:
    """Not found already, longer than the settling time ago."""
    tasks = tuple(replace(d, missing_at=ago(125), seen_at=ago(130)) for d in record.cleanup.tasks)
    missed = {"first_missed_at": ago(125), "last_missed_at": ago(125), "needs_look": True}
    return changed(record, tasks=tasks, seen_at=ago(130), acted_at=ago(130), **missed)


def is_ending(record: Instance) -> bool:
    return any(task.action is Action.DELETE for task in record.cleanup.tasks)


@pytest.mark.parametrize("late", [False, True], ids=["in time", "past the deadline"])
@pytest.mark.parametrize("shown", ["running", "exited", "migrating", "gone"])
@pytest.mark.parametrize("situation", SITUATIONS)
def test_a_status_follows_what_novita_shows(situation: str, shown: str, late: bool) -> None:
    record = SITUATIONS[situation]
    if late and record.deadline_at:
        record = replace(record, deadline_at=ago(1))

    decision = decide(record, seen("removed" if shown == "gone" else shown, ago(1)), NOW, POLICY)

    expected = SHOWN.get(situation, {}).get(shown, ())
    assert types(decision) == expected
    ends = [name.removeprefix("instance.") for name in expected if name.startswith("instance.")]
    assert decision.record.status == (ends[-1] if ends else record.status)
    assert [e.sequence for e in decision.events] == list(range(8, 8 + len(expected)))


@pytest.mark.parametrize("situation", SITUATIONS)
def test_a_word_on_its_way_or_unknown_changes_no_status(situation: str) -> None:
    record = SITUATIONS[situation]

    for status in ON_ITS_WAY + UNKNOWN:
        decision = decide(record, seen(status, ago(1)), NOW, POLICY)

        assert (decision.events, decision.record.status) == ((), record.status), status
        assert decision.record.cleanup.tasks or not record.cleanup.tasks


@pytest.mark.parametrize("situation", SITUATIONS)
@pytest.mark.parametrize("began", [ago(400), "acted", "just before"], ids=str)
def test_a_stale_observation_changes_nothing(situation: str, began: Any) -> None:
    """Also at the very moment of the action; and not what is older than something seen since."""
    record = doubted_long_enough(SITUATIONS[situation])
    record = changed(
        record,
        acted_at=ago(200) if record.machine.id else None,
        tasks=tuple(replace(task, asked_at=ago(200)) for task in record.cleanup.tasks),
    )
    began = {"acted": ago(200), "just before": ago(131)}.get(began, began)
    if began == ago(131) and record.cleanup.tasks:
        return  # a task is checked against when it was asked for
    before = replace(record, waiting=None)

    words = [*ON_ITS_WAY, *UNKNOWN, "running", "exited", "migrating", "removed"]
    observations: list[Observation] = [seen(word, began) for word in words]
    for observation in [*observations, NotFoundById(OWN, began), NotListed(OWN, began)]:
        decision = decide(before, observation, NOW, POLICY)

        assert decision.events == ()
        assert kept(decision.record) == kept(before), observation


@pytest.mark.parametrize("situation", SITUATIONS)
def test_one_not_found_ends_nothing_but_makes_another_look_due(situation: str) -> None:
    record = SITUATIONS[situation]

    decision = decide(record, NotFoundById(OWN, ago(1)), NOW, POLICY)

    assert (decision.events, decision.record.status) == ((), record.status)
    assert decision.record.cleanup.gone == record.cleanup.gone
    if record.machine.id and OWN not in record.cleanup.gone:
        assert not decision.record.at_rest


@pytest.mark.parametrize("status", [Status.DELETING, Status.FAILED, Status.TERMINATED])
def test_two_looks_are_enough_to_see_a_deleted_machine_gone(status: Status) -> None:
    asked = new_task(asked_at=ago(1), seen_at=ago(86400))
    record = new_instance(status, tasks=(asked,))

    first = decide(record, NotFoundById(OWN, NOW), NOW, POLICY).record
    due = first.next_check_at
    assert due == NOW + POLICY.settle
    second = decide(first, NotFoundById(OWN, due), due, POLICY).record

    assert second.cleanup.gone == (OWN,)
    assert second.at_rest


GONE = new_task(asked_at=ago(1), seen_at=ago(2))
STILL_THERE = new_task(machine_id="m-other", asked_at=ago(1), checked_at=NOW)


@pytest.mark.parametrize(
    "record",
    [
        new_instance(Status.DELETING, tasks=(GONE, STILL_THERE)),
        new_instance(Status.DELETING, tasks=(GONE,), unsettled=True, read_at=NOW),
    ],
)
def test_where_anything_else_may_show_looks_go_on_as_ever(record: Instance) -> None:
    decision = decide(record, NotFoundById(OWN, NOW), NOW, POLICY)

    assert (decision.call, decision.record.next_check_at) == (None, after(30))


@pytest.mark.parametrize("action", [Action.DELETE, Action.STOP])
@pytest.mark.parametrize("asked_at", [None, ago(1)], ids=["refused as not found", "taken"])
def test_what_is_to_be_given_back_is_not_gone_for_a_hiccup_either(
    action: Action, asked_at: datetime | None
) -> None:
    task = new_task(action, asked_at=asked_at, seen_at=ago(86400))
    record = new_instance(Status.FAILED, seen_at=ago(86400), tasks=(task,))

    first = decide(record, NotFoundById(OWN, NOW), NOW, POLICY).record
    second = decide(first, NotFoundById(OWN, after(31)), after(31), POLICY).record

    assert (second.cleanup.gone, len(second.cleanup.tasks)) == ((), 1)


@pytest.mark.parametrize(
    ("asked_at", "seen_at", "ended_at"),
    [(None, 900, 300), (600, 900, 600), (600, 550, 550), (600, 200, 300)],
    ids=["never taken", "not seen since", "seen since", "seen later than missed"],
)
def test_a_machine_that_is_gone_was_billed_until_novita_took_its_delete_or_it_was_last_seen(
    asked_at: float | None, seen_at: float, ended_at: float
) -> None:
    """Nobody may have been able to look for long after the delete."""
    asked = None if asked_at is None else ago(asked_at)
    task = new_task(asked_at=asked, seen_at=ago(seen_at), missing_at=ago(300))
    ledger = Ledger().add(Meter(OWN, Decimal("0.36"))).expect(OWN, ago(1000))
    record = new_instance(Status.DELETING, tasks=(task,), ledger=ledger)

    decision = decide(record, NotFoundById(OWN, ago(1)), NOW, POLICY)

    assert decision.record.cleanup.gone == (OWN,)
    assert decision.record.ledger.ended == ((OWN, ago(ended_at)),)


def test_what_was_last_seen_long_ago_is_not_gone_for_a_hiccup_of_half_a_minute() -> None:
    """At rest nobody writes down that it is there, so that a restart finds an old time on the record."""
    record = new_instance(Status.STARTING, seen_at=ago(86400), acted_at=ago(1))

    first = decide(record, NotFoundById(OWN, NOW), NOW, POLICY).record
    second = decide(first, NotFoundById(OWN, after(31)), after(31), POLICY).record
    settled = decide(second, NotFoundById(OWN, NOW + POLICY.settle), NOW + POLICY.settle, POLICY).record

    assert (second.status, second.missing) == (Status.STARTING, False)
    assert (settled.status, settled.missing) == (Status.STARTING, True)


@pytest.mark.parametrize("situation", SITUATIONS)
def test_a_second_not_found_well_after_the_first_means_gone_if_its_end_was_asked_for_and_missing_if_not(
    situation: str,
) -> None:
    record = doubted_long_enough(SITUATIONS[situation])

    decision = decide(record, NotFoundById(OWN, ago(1)), NOW, POLICY)

    if record.live_machine_id is None:
        assert decision.events == ()
    elif is_ending(record):
        assert types(decision) == SHOWN.get(situation, {}).get("gone", ())
        assert (decision.record.cleanup.gone, decision.record.cleanup.tasks) == ((OWN,), ())
    else:
        assert types(decision) == ("instance.missing",)
        assert (decision.record.status, decision.record.cleanup.gone) == (record.status, ())
        assert (decision.record.missing, decision.record.machine.missing_since) == (True, ago(125))
        assert decision.record.next_check_at is not None


@pytest.mark.parametrize("situation", SITUATIONS)
def test_what_was_missing_and_is_shown_is_found_and_that_is_all(situation: str) -> None:
    record = doubted_long_enough(SITUATIONS[situation])
    missing = decide(record, NotFoundById(OWN, ago(1)), NOW, POLICY).record
    if not missing.missing:
        return

    decision = decide(missing, seen("pulling", after(600)), after(600), POLICY)

    assert types(decision) == ("instance.found",)
    assert (decision.record.status, decision.record.missing) == (record.status, False)
    again = decide(decision.record, seen("pulling", after(700)), after(700), POLICY)
    assert "instance.found" not in types(again)


def test_looks_for_a_missing_machine_wait_longer_and_longer_up_to_an_hour() -> None:
    record, now, waits = SITUATIONS["ready"], NOW, []
    for _ in range(30):
        record = decide(record, NotFoundById(OWN, now), now, POLICY).record
        assert record.next_check_at is not None
        waits.append((record.next_check_at - now).total_seconds())
        now = record.next_check_at

    assert waits[:4] == [120, 120, 240, 480]
    assert waits == sorted(waits)
    assert waits[-1] < 3600


def missed_until_it_ends(record: Instance, gap: timedelta, most: int) -> tuple[Instance, datetime]:
    """Not found again and again, so far apart."""
    now = NOW
    for _ in range(most):
        record = decide(record, NotFoundById(OWN, now), now, POLICY).record
        if not record.missing and record.cleanup.gone:
            break
        now += gap
    return record, now


@pytest.mark.parametrize("situation", ["ready", "running", "stopped", "exited", "migrating", "stop taken"])
def test_what_stays_missing_for_a_day_has_vanished(situation: str) -> None:
    record, ended = missed_until_it_ends(SITUATIONS[situation], timedelta(minutes=45), 100)

    assert (record.status, record.cleanup.vanished) == (Status.TERMINATED, (OWN,))
    assert timedelta(hours=24) <= ended - NOW <= timedelta(hours=25)
    assert record.machine.missing_since == NOW
    assert record.at_rest


def test_a_machine_that_was_kept_after_a_failure_can_vanish_too() -> None:
    for situation in ("failed, machine kept", "failed, to be stopped"):
        record, _ = missed_until_it_ends(SITUATIONS[situation], timedelta(minutes=45), 100)

        assert (record.status, record.cleanup.tasks) == (Status.TERMINATED, ())


def test_more_than_an_hour_without_a_not_found_does_not_count_as_missing() -> None:
    record, _ = missed_until_it_ends(SITUATIONS["ready"], timedelta(minutes=61), 100)

    assert (record.status, record.missing) == (Status.READY, True)


BARE = Fault("NOVITA_UNAVAILABLE", "404")


@pytest.mark.parametrize("situation", SITUATIONS)
def test_a_not_found_without_a_reason_is_no_answer(situation: str) -> None:
    record = doubted_long_enough(SITUATIONS[situation])
    bare = NotFoundById(OWN, ago(1), with_reason=False, unlisted=False, fault=BARE)

    decision = decide(record, bare, NOW, POLICY)

    assert (decision.events, decision.record.cleanup.gone) == ((), record.cleanup.gone)
    assert decision.record.machine.last_missed_at == record.machine.last_missed_at
    assert decision.record.waiting in (BARE, None)


def test_a_bare_not_found_counts_for_a_delete_that_novita_took_once_lists_lack_the_machine() -> None:
    bare = NotFoundById(OWN, ago(1), with_reason=False, unlisted=True, fault=BARE)
    taken, untaken = (doubted_long_enough(SITUATIONS[one]) for one in ("deleting", "deleting, not yet asked"))
    others = doubted_long_enough(SITUATIONS["ready"])

    assert decide(taken, bare, NOW, POLICY).record.status is Status.TERMINATED
    assert decide(untaken, bare, NOW, POLICY).record.status is Status.DELETING
    assert not decide(others, bare, NOW, POLICY).record.missing


def test_a_deadline_runs_on_for_what_is_missing_and_its_machine_is_given_back() -> None:
    record = doubted_long_enough(replace(SITUATIONS["first boot"], deadline_at=ago(2)))
    missing = decide(record, NotFoundById(OWN, ago(1)), NOW, POLICY)
    assert types(missing) == ("instance.missing",)

    decision = decide(missing.record, Tick(), NOW, POLICY)

    assert types(decision) == ("instance.failed",)
    assert call_once_stored(decision) == Act(Action.DELETE, OWN)


@pytest.mark.parametrize("situation", SITUATIONS)
def test_two_not_founds_too_soon_are_not_gone(situation: str) -> None:
    record = SITUATIONS[situation]
    if OWN in record.cleanup.gone:
        return
    times: dict[str, Any] = {"missing_at": ago(119.9), "seen_at": ago(130)}
    tasks = tuple(replace(task, asked_at=ago(130), **times) for task in record.cleanup.tasks)
    missed = {"first_missed_at": ago(119.9), "last_missed_at": ago(119.9), "needs_look": True}
    record = changed(record, tasks=tasks, acted_at=ago(130), seen_at=ago(130), **missed)

    decision = decide(record, NotFoundById(OWN, NOW), NOW, POLICY)

    assert (decision.events, decision.record.cleanup.gone) == ((), ())


def test_a_machine_that_was_seen_in_between_is_not_gone() -> None:
    for record in (SITUATIONS["ready"], SITUATIONS["deleting"]):
        once = decide(record, NotFoundById(OWN, ago(30)), ago(30), POLICY).record
        back = decide(once, seen("running", ago(20)), ago(20), POLICY).record

        again = decide(back, NotFoundById(OWN, after(130)), after(130), POLICY)

        assert again.record.cleanup.gone == ()


def test_an_old_not_found_does_not_count_against_a_machine_to_be_deleted() -> None:
    record = SITUATIONS["deleting"]

    decision = decide(record, NotFoundById(OWN, ago(60)), NOW, POLICY)

    assert decision.record.cleanup.tasks[0].missing_at is None


@pytest.mark.parametrize("situation", SITUATIONS)
def test_absence_from_a_list_proves_nothing_and_makes_a_get_due(situation: str) -> None:
    record = SITUATIONS[situation]

    decision = decide(record, NotListed(OWN, ago(1)), NOW, POLICY)

    assert (decision.events, decision.record.status) == ((), record.status)
    assert decision.record.cleanup.gone == record.cleanup.gone
    if record.machine.id and OWN not in record.cleanup.gone:
        assert decision.record.machine.needs_look
        assert decision.call is not None


@pytest.mark.parametrize("situation", SITUATIONS)
def test_what_is_said_of_another_machine_changes_nothing(situation: str) -> None:
    record = replace(SITUATIONS[situation], waiting=None)
    other: list[Observation] = [NotFoundById("m-other", ago(1)), NotListed("m-other", ago(1))]
    shown = ["running", "exited", "migrating", "removed", "pulling"]

    for observation in other + [Seen(new_machine(word, "m-other"), ago(1)) for word in shown]:
        decision = decide(record, observation, NOW, POLICY)

        assert decision.events == ()
        assert kept(decision.record) == kept(record)


def test_running_waits_until_every_endpoint_has_an_address() -> None:
    record = changed(SITUATIONS["first boot"], endpoints=())

    without = decide(record, Seen(new_machine("running", endpoints=()), ago(1)), NOW, POLICY)
    with_them = decide(record, seen("running", ago(1)), NOW, POLICY)
    none_expected = decide(
        changed(record, expects_endpoints=False),
        Seen(new_machine("running", endpoints=()), ago(1)),
        NOW,
        POLICY,
    )

    assert without.record.status is Status.STARTING
    assert with_them.record.status is none_expected.record.status is Status.RUNNING


def test_a_list_read_before_a_start_does_not_turn_starting_back_to_exited() -> None:
    record = changed(SITUATIONS["start taken just now"], acted_at=ago(2))

    decision = decide(record, Seen(new_machine("exited"), ago(5)), NOW, POLICY)

    assert (decision.events, decision.record.status) == ((), Status.STARTING)


def test_a_start_without_an_http_endpoint_is_ready_at_once() -> None:
    record = changed(SITUATIONS["start taken"], endpoints=(), expects_endpoints=False)

    decision = decide(record, Seen(new_machine("running", endpoints=()), ago(1)), NOW, POLICY)

    assert types(decision) == ("instance.running", "instance.ready", "startup.completed")
    assert decision.record.at_rest
    assert decision.record.operation
    assert decision.record.operation.status == "completed"


def test_ready_at_is_set_once_and_with_a_check_not_before_ready() -> None:
    first = decide(SITUATIONS["first boot"], seen("running", ago(1)), NOW, POLICY).record
    checked = decide(SITUATIONS["first boot, to be checked"], seen("running", ago(1)), NOW, POLICY).record
    again = decide(SITUATIONS["exited"], seen("running", ago(1)), NOW, POLICY).record

    assert first.ready_at == NOW
    assert checked.ready_at is None
    assert again.ready_at == ago(3000)


def test_the_check_begins_with_running_and_in_the_function_that_can_make_it() -> None:
    decision = decide(SITUATIONS["first boot, to be checked"], seen("running", ago(1)), NOW, POLICY)

    assert decision.record.deadline_at == NOW + timedelta(milliseconds=CHECK.max_wait_time_ms)
    assert decision.call is None
    assert decision.record.next_check_at == NOW
    assert decision.record.queue == "startup"


@pytest.mark.parametrize("situation", ["first boot", "start taken"])
def test_a_machine_that_is_moved_while_it_comes_up_keeps_its_deadline(situation: str) -> None:
    record = decide(SITUATIONS[situation], seen("migrating", ago(1)), NOW, POLICY).record

    assert record.deadline_at == ON


def test_still_running_long_after_a_stop_was_taken_is_asked_again() -> None:
    record = changed(SITUATIONS["stop taken"], acted_at=ago(130))

    soon = decide(SITUATIONS["stop taken"], seen("running", ago(1)), NOW, POLICY)
    late = decide(record, seen("running", ago(1)), NOW, POLICY)

    assert soon.record.pending is None
    assert late.record.pending is Action.STOP


@pytest.mark.parametrize("action", [Action.DELETE, Action.STOP])
def test_a_clean_up_is_asked_for_again_only_where_nothing_happens_for_long(action: Action) -> None:
    def asked_again(word: str, asked_at: datetime) -> bool:
        record = new_instance(Status.FAILED, tasks=(new_task(action, asked_at=asked_at),))
        return decide(record, seen(word, ago(1)), NOW, POLICY).record.cleanup.tasks[0].asked_at is None

    assert asked_again("running", ago(130))
    assert not asked_again("running", ago(60))
    assert not asked_again("removing", ago(130))
    assert not asked_again("stopping", ago(130))


def test_a_machine_to_be_stopped_is_done_with_when_it_is_off() -> None:
    decision = decide(SITUATIONS["failed, to be stopped"], seen("exited", ago(1)), NOW, POLICY)

    assert decision.record.cleanup.tasks == ()
    assert decision.record.at_rest
    assert decision.record.next_check_at is None


@pytest.mark.parametrize("keep", [False, True])
def test_a_machine_that_runs_again_after_its_instance_failed_is_stopped_unless_it_is_kept(keep: bool) -> None:
    record = new_instance(Status.FAILED, spec=new_spec(keep_on_failure=keep))

    decision = decide(record, seen("running", ago(1)), NOW, POLICY)

    assert decision.record.status is Status.FAILED
    assert [task.action for task in decision.record.cleanup.tasks] == ([] if keep else [Action.STOP])
    assert call_once_stored(decision) == (None if keep else Act(Action.STOP, OWN))


def test_a_machine_that_ends_while_another_is_owed_is_not_yet_terminated() -> None:
    missed = {"first_missed_at": ago(90000), "last_missed_at": ago(600), "missed_seconds": 86399.0}
    tasks = (new_task(machine_id="m-surplus", asked_at=ago(60)),)
    record = new_instance(Status.RUNNING, tasks=tasks, seen_at=ago(90001), acted_at=ago(90002), **missed)

    decision = decide(record, NotFoundById(OWN, ago(1)), NOW, POLICY)
    later = decide(decision.record, Seen(new_machine("removed", "m-surplus"), after(30)), after(31), POLICY)

    assert types(decision) == ("instance.deleting",)
    assert types(later) == ("instance.terminated",)
    assert later.record.cleanup.gone == (OWN, "m-surplus")


def test_reclaimed_and_stopped_by_novita_are_told_apart() -> None:
    reclaimed = decide(
        SITUATIONS["ready"], Seen(new_machine("exited", spot_status="reclaimed"), ago(1)), NOW, POLICY
    )
    stopped = decide(SITUATIONS["ready"], seen("exited", ago(1)), NOW, POLICY)

    assert [reclaimed.events[0].reason, stopped.events[0].reason] == [
        "reclaimed by Novita",
        "stopped at Novita",
    ]


def test_what_failed_while_it_was_missing_waits_for_its_delete_to_be_confirmed_and_asks_no_more() -> None:
    missed = {"first_missed_at": ago(125), "last_missed_at": ago(1), "needs_look": True}
    record = new_instance(Status.FAILED, tasks=(new_task(),), seen_at=ago(200), acted_at=ago(200), **missed)

    decision = decide(record, NotFoundById(OWN, NOW), NOW, POLICY)

    assert (decision.call, decision.record.next_check_at) == (None, NOW + POLICY.settle)


def test_one_that_is_coming_up_has_failed_when_its_machine_is_gone_by_a_delete() -> None:
    task = new_task(asked_at=ago(300), missing_at=ago(200), seen_at=ago(400))
    record = new_instance(Status.STARTING, tasks=(task,), deadline_at=after(600))

    decision = decide(record, NotFoundById(OWN, NOW), NOW, POLICY)

    assert (decision.record.status, decision.record.at_rest) == (Status.FAILED, True)
