"""The rules of a recovery, one by one."""

from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from functions.shared.domain.errors import Conflict, Fault, ValidationFailed
from functions.shared.domain.instance import recovery
from functions.shared.domain.instance.commands import begin_delete, begin_start, begin_stop
from functions.shared.domain.instance.decide import decide
from functions.shared.domain.instance.decision import Decision
from functions.shared.domain.instance.health import HealthCheck
from functions.shared.domain.instance.limits import LimitClock
from functions.shared.domain.instance.observations import (
    Act,
    ActionTaken,
    BeginRecovery,
    Buy,
    CallPostponed,
    CallRefused,
    FindOffer,
    Look,
    NotFoundById,
    OfferFound,
    OfferNotFound,
    PurchasesRead,
    RecoveryMayBegin,
    Seen,
    Tick,
)
from functions.shared.domain.instance.progress import LONGEST_STEP
from functions.shared.domain.instance.reclaim import (
    OnReclaim,
    ReclaimAction,
    Recovery,
    RecoveryCount,
    require_reclaimable,
)
from functions.shared.domain.instance.record import Action, Instance, PurchaseOutcome, Queue, Refusal
from functions.shared.domain.instance.status import Status
from tests.unit.builders import (
    NOW,
    OWN,
    POLICY,
    after,
    ago,
    deciding,
    new_instance,
    new_machine,
    new_purchase,
    new_spec,
    new_task,
)

RESTART = OnReclaim(ReclaimAction.RESTART)
REPLACE = OnReclaim(ReclaimAction.REPLACE)
NO_ROOM = Fault("RESOURCE_CONSTRAINTS", "no room")
PAUSED = Fault("PURCHASES_PAUSED", "paused")
START = Act(Action.START, OWN)


def up(asked: OnReclaim | None = RESTART, **changes: Any) -> Instance:
    plain = {"spec": new_spec(on_reclaim=asked), "ready_at": ago(3000), "acted_at": ago(3000)}
    return new_instance(Status.RUNNING, **plain | {"seen_at": ago(60), "next_check_at": None} | changes)


def lost(asked: OnReclaim = RESTART, since: float = 10, **changes: Any) -> Instance:
    """Exited, and its recovery began so many seconds ago."""
    begun = Recovery(ago(since), ago(since), ago(since) + asked.window, try_at=NOW)
    how = {name: changes.pop(name) for name in list(changes) if hasattr(begun, name)}
    begun = Recovery(**vars(begun) | how)
    record = up(asked, **{"recovery": begun, "next_check_at": NOW} | changes)
    return Instance(**vars(record) | {"status": Status.EXITED})


def types(decision: Decision) -> list[str]:
    return [event.type for event in decision.events]


@pytest.mark.parametrize("spot_status", ["", "running", "terminated"])
def test_what_exits_unasked_is_to_be_brought_back_whatever_the_fields_say(spot_status: str) -> None:
    seen = Seen(new_machine("exited", spot_status=spot_status), NOW)

    decision = decide(up(), seen, NOW, POLICY)

    assert decision.record.status is Status.EXITED
    assert (decision.call, decision.record.next_check_at) == (None, NOW), "first it is stored"
    assert decide(decision.record, Tick(), NOW, POLICY).call == BeginRecovery()
    assert not decision.record.at_rest


@pytest.mark.parametrize(
    "record",
    [up(None), up(spec=new_spec(on_reclaim=RESTART, billing_mode="onDemand")), up(billing_mode="onDemand")],
)
def test_without_a_wish_or_on_demand_it_stays_exited(record: Instance) -> None:
    decision = decide(record, Seen(new_machine("exited"), NOW), NOW, POLICY)

    assert decision.record.recovery is None
    assert decision.record.at_rest


def test_it_begins_when_it_may_and_its_window_runs_from_then() -> None:
    waiting = lost(since=0, try_at=None)
    waiting = Instance(**vars(waiting) | {"recovery": Recovery(ago(600))})

    paused = decide(waiting, CallPostponed(PAUSED), NOW, POLICY)
    begun = decide(waiting, RecoveryMayBegin(), NOW, POLICY)

    assert types(paused) == []
    assert paused.record.next_check_at == NOW + POLICY.poll
    assert types(begun) == ["recovery.started"]
    assert begun.record.recovery
    assert begun.record.recovery.until == NOW + RESTART.window
    assert begun.commits, "a cap or budget may refuse it"
    assert begun.call is None, "before anything is started"
    assert decide(begun.record, Tick(), NOW, POLICY).call == START


def test_a_cap_holds_it_as_long_as_room_is_waited_for_and_then_its_failure_is_told() -> None:
    full = CallPostponed(Fault("CAP_EXCEEDED", "all of it is in use"))
    waiting = Instance(**vars(lost(since=0, try_at=None)) | {"recovery": Recovery(ago(6000))})
    held = decide(waiting, full, NOW, POLICY).record
    window = RESTART.window.total_seconds()

    still = decide(decide(held, full, after(window - 60), POLICY).record, Tick(), after(window - 1), POLICY)
    paused = decide(held, CallPostponed(PAUSED), after(60), POLICY).record
    over = decide(held, Tick(), after(window), POLICY)

    assert still.call == BeginRecovery()
    assert decide(paused, Tick(), after(10 * window), POLICY).call == BeginRecovery(), "a pause has no end"
    assert types(over) == ["recovery.failed"]
    assert over.events[0].error
    assert "all of it is in use" in over.events[0].error.message
    assert over.record.at_rest
    assert (over.record.status, over.record.recoveries) == (Status.EXITED, waiting.recoveries)


def test_one_that_novita_moves_before_it_is_back_moves_no_limit() -> None:
    clock = LimitClock(ran_at=ago(9000), running_since=ago(9000))
    record = lost(clock=clock)

    moving = decide(record, Seen(new_machine("migrating"), NOW), NOW, POLICY).record
    back = decide(moving, Seen(new_machine("running"), after(60)), after(60), POLICY).record

    assert (moving.status, back.status) == (Status.MIGRATING, Status.RUNNING)
    assert back.recoveries.completed == 1
    assert (back.clock.running_since, back.clock.start_at) == (ago(9000), None)


def test_too_many_within_a_day_are_told_and_no_more() -> None:
    many = RecoveryCount(5, tuple(ago(3600 * hours) for hours in (1, 2, 3, 4, 5)))
    old = RecoveryCount(5, tuple(ago(3600 * hours) for hours in (1, 2, 3, 4, 25)))

    refused = decide(up(recoveries=many), Seen(new_machine("exited"), NOW), NOW, POLICY)
    again = decide(up(recoveries=old), Seen(new_machine("exited"), NOW), NOW, POLICY)

    assert types(refused) == ["instance.exited", "recovery.failed"]
    assert refused.record.at_rest
    assert again.record.recovery is not None


def test_a_start_that_is_taken_is_no_operation_and_has_a_deadline() -> None:
    decision = decide(lost(), ActionTaken(START, NOW), NOW, POLICY)

    assert decision.record.status is Status.STARTING
    assert decision.record.deadline_at == NOW + POLICY.boot_wait
    assert decision.operations == ()
    assert decision.events[0].actor == "system"


def test_waits_for_room_grow_to_five_minutes() -> None:
    record, now, waits = lost(), NOW, []
    for _ in range(7):
        decision = decide(record, CallRefused(NO_ROOM, START, capacity=True), now, POLICY)
        record = decision.record
        assert record.next_check_at
        waits.append((record.next_check_at - now).total_seconds())
        now = record.next_check_at

    assert waits == [30, 60, 120, 240, 300, 300, 300]
    assert record.status is Status.EXITED
    assert record.waiting == NO_ROOM


def test_an_answer_that_was_lost_shows_in_the_state_and_a_look_tells() -> None:
    wrong = CallRefused(Fault("CONFLICT", "invalid state change"), START, wrong_state=True)

    looking = decide(lost(), wrong, NOW, POLICY)
    back = decide(looking.record, Seen(new_machine("running"), after(1)), after(1), POLICY)

    assert looking.call == Look(OWN)
    assert types(back) == ["instance.starting", "instance.running", "recovery.completed"]
    assert back.record.recoveries.completed == 1
    assert back.record.ready_at == ago(3000)


def test_what_is_back_while_another_was_looked_for_is_checked_by_who_can() -> None:
    """The function that buys would hand it to itself for ever, and no health check be made."""
    checked = new_spec(on_reclaim=REPLACE, health_check=HealthCheck())
    seeking = lost(REPLACE, 601, no_room=True, seeks_offer=True, spec=checked)

    back = decide(seeking, Seen(new_machine("running"), NOW), NOW, POLICY).record
    looked = replace(seeking, status=Status.HEALTH_CHECKING)  # as it was stored before this was mended

    assert (back.status, back.queue) == (Status.HEALTH_CHECKING, Queue.STARTUP)
    assert looked.queue is Queue.STARTUP
    assert back.recovery is not None
    assert not back.recovery.seeks_offer


@pytest.mark.parametrize("word", ["toStart", "starting"])
def test_what_is_seen_starting_is_waited_for_and_not_started_again(word: str) -> None:
    """Its start was taken, and the answer lost."""
    seen = decide(lost(refused=5), Seen(new_machine(word), NOW), NOW, POLICY).record
    unasked = decide(up(), Seen(new_machine("exited"), NOW), NOW, POLICY).record
    by_hand = decide(unasked, Seen(new_machine(word), after(1)), after(1), POLICY).record

    assert (seen.status, seen.deadline_at) == (Status.STARTING, NOW + POLICY.boot_wait)
    assert seen.next_check_at == NOW + POLICY.poll
    assert seen.machine.acted_at == NOW, "a list from before it is not believed"
    assert decide(seen, Tick(), after(30), POLICY).call == Look(OWN)
    assert by_hand.status is Status.EXITED, "that has not begun"


def test_the_window_ends_with_a_look_later_than_it() -> None:
    late = lost(since=RESTART.window.total_seconds() + 1)

    unseen = decide(late, Tick(), NOW, POLICY)
    seen = decide(unseen.record, Seen(new_machine("exited"), after(1)), after(1), POLICY)
    over = decide(seen.record, Tick(), after(2), POLICY)

    assert unseen.call == Look(OWN)
    assert types(over) == ["recovery.failed"]
    assert over.record.status is Status.EXITED
    assert over.record.at_rest


def test_another_is_looked_for_only_after_its_time_and_for_lack_of_room() -> None:
    early, due = lost(REPLACE, 60, no_room=True), lost(REPLACE, 601, no_room=True, try_at=after(60))
    refused = lost(REPLACE, 601, no_room=False, try_at=after(60))

    assert decide(early, Tick(), NOW, POLICY).call == START
    assert decide(due, Tick(), NOW, POLICY).call == FindOffer()
    assert decide(due, Tick(), NOW, POLICY).record.queue is Queue.CREATE
    assert decide(refused, Tick(), NOW, POLICY).call is None
    assert decide(lost(RESTART, 601, no_room=True, try_at=after(60)), Tick(), NOW, POLICY).call is None


def test_without_an_offer_nothing_is_given_back_and_none_is_asked_for_again_in_this_step() -> None:
    due = decide(lost(REPLACE, 601, no_room=True, try_at=after(60)), Tick(), NOW, POLICY)

    decision = decide(due.record, OfferNotFound(NO_ROOM), NOW, POLICY, step=NOW)

    assert decision.call is None
    assert decision.record.cleanup.tasks == ()
    assert decision.record.next_check_at
    assert decision.record.next_check_at > NOW


def replaced() -> Decision:
    return decide(lost(REPLACE, 601, no_room=True, try_at=after(60)), OfferFound(Decimal(2)), NOW, POLICY)


def test_with_an_offer_the_machine_is_given_back_which_is_stored_before_the_call() -> None:
    decision = replaced()

    assert decision.record.status is Status.CREATING
    assert [(task.machine_id, task.action) for task in decision.record.cleanup.tasks] == [
        (OWN, Action.DELETE)
    ]
    assert decision.call is None
    assert decision.record.next_check_at == NOW
    assert decision.commits, "a cap or budget may refuse it"
    assert decision.record.purchases.price == Decimal(2)


def test_nothing_is_bought_before_the_machine_is_gone() -> None:
    record = replaced().record
    bought = (new_purchase(PurchaseOutcome.BOUGHT),)

    before = decide(record, PurchasesRead(bought), after(1), POLICY)
    missing = decide(record, NotFoundById(OWN, after(2)), after(2), POLICY).record
    gone = decide(missing, NotFoundById(OWN, after(200)), after(200), POLICY)
    then = decide(gone.record, PurchasesRead(bought), after(201), POLICY)

    assert before.call == Act(Action.DELETE, OWN)
    assert gone.record.machine.id is None
    assert OWN in gone.record.cleanup.gone
    assert then.call == Buy()


def test_another_that_does_not_come_up_is_deleted_and_its_failure_says_what_was_lost() -> None:
    record = replaced().record
    record = decide(record, NotFoundById(OWN, after(2)), after(2), POLICY).record
    record = decide(record, NotFoundById(OWN, after(200)), after(200), POLICY).record
    second = new_purchase(PurchaseOutcome.BOUGHT, 2, machine_id="m-2", ended_at=after(201))
    starting = decide(record, PurchasesRead((second,)), after(201), POLICY).record
    late = after(201) + POLICY.boot_wait + timedelta(seconds=1)
    pulling = decide(starting, Seen(new_machine("pulling", "m-2"), late), late, POLICY).record

    failed = decide(pulling, Tick(), late, POLICY)

    assert starting.machine.untried
    assert failed.record.status is Status.FAILED
    assert failed.record.error
    assert failed.record.error.code == recovery.FAILED
    assert [(task.machine_id, task.action) for task in failed.record.cleanup.tasks] == [
        ("m-2", Action.DELETE)
    ]
    assert types(failed) == ["instance.failed", "recovery.failed"]


def test_what_a_user_asks_for_ends_it_and_that_is_told() -> None:
    asked = {
        "stop": begin_stop(deciding(lost()), "op_1"),
        "start": begin_start(deciding(lost()), "op_1", HealthCheck()),
        "delete": begin_delete(deciding(lost()), "op_1"),
    }

    assert {name: one.record.status.value for name, one in asked.items()} == {
        "stop": "stopping",
        "start": "starting",
        "delete": "deleting",
    }
    for decision in asked.values():
        assert decision.record.recovery is None
        assert types(decision)[0] == "recovery.failed"


def test_a_stop_is_confirmed_only_when_no_start_of_ours_can_be_under_way() -> None:
    stopping = begin_stop(deciding(lost()), "op_1").record
    later = NOW + LONGEST_STEP

    soon = decide(stopping, Seen(new_machine("exited"), after(5)), after(5), POLICY)
    then = decide(soon.record, Seen(new_machine("exited"), later), later, POLICY)

    assert soon.record.status is Status.STOPPING
    assert soon.record.next_check_at
    assert then.record.status is Status.STOPPED


def test_a_stop_while_another_is_bought_has_failed_for_lack_of_a_machine() -> None:
    decision = begin_stop(deciding(replaced().record), "op_1")

    assert decision.record.status is Status.FAILED
    assert decision.record.error
    assert decision.record.error.code == recovery.FAILED
    assert decision.record.operation
    assert decision.record.operation.status == "completed"
    assert decision.record.cleanup.tasks


def test_a_start_while_another_is_bought_is_under_way_already() -> None:
    with pytest.raises(Conflict, match="being started already"):
        begin_start(deciding(replaced().record), "op_1", HealthCheck())


def test_what_is_exited_and_not_to_be_brought_back_cannot_be_stopped() -> None:
    with pytest.raises(Conflict):
        begin_stop(deciding(new_instance(Status.EXITED)), "op_1")


def test_missing_after_its_notice_it_is_replaced_and_without_one_only_missing() -> None:
    missed = {"first_missed_at": ago(300), "last_missed_at": ago(10), "needs_look": True}
    notified = up(REPLACE, spot_status="notified", **missed)

    decision = decide(notified, NotFoundById(OWN, NOW), NOW, POLICY)
    silent = decide(up(REPLACE, **missed), NotFoundById(OWN, NOW), NOW, POLICY)

    assert types(decision) == types(silent) == ["instance.missing"]
    assert decide(decision.record, Tick(), NOW, POLICY).call == BeginRecovery()
    assert silent.record.recovery is None


@pytest.mark.parametrize(
    "status", [Status.STOPPING, Status.STOPPED, Status.EXITED, Status.DELETING, Status.FAILED]
)
def test_what_nobody_wants_to_run_is_not_brought_back_for_being_missing(status: Status) -> None:
    missed = {"first_missed_at": ago(300), "last_missed_at": ago(10), "needs_look": True}
    record = up(REPLACE, spot_status="notified", **missed)

    decision = decide(Instance(**vars(record) | {"status": status}), NotFoundById(OWN, NOW), NOW, POLICY)

    assert decision.record.recovery is None


@pytest.mark.parametrize(
    ("asked", "billing_mode", "imported"),
    [
        (RESTART, "onDemand", False),
        (REPLACE, "spot", True),
        (OnReclaim(ReclaimAction.RESTART, fallback="onDemand"), "spot", False),
        (OnReclaim(ReclaimAction.REPLACE, window=timedelta(minutes=10)), "spot", False),
    ],
)
def test_what_makes_no_sense_is_refused(asked: OnReclaim, billing_mode: str, imported: bool) -> None:
    require_reclaimable(RESTART, "spot", imported=True)
    require_reclaimable(REPLACE, "spot")

    with pytest.raises(ValidationFailed):
        require_reclaimable(asked, billing_mode, imported=imported)


def test_a_given_back_machine_is_deleted_whatever_becomes_of_the_rest() -> None:
    record = new_instance(Status.FAILED, tasks=(new_task(),))

    assert decide(record, Tick(), NOW, POLICY).call == Act(Action.DELETE, OWN)


def noticed(record: Instance, at: datetime, status: str = "running", **spot: Any) -> tuple[Instance, int]:
    """The record after Novita has shown that, and how many notices were announced for it."""
    shown = new_machine(status, **{"spot_status": "notified", **spot})
    decision = decide(record, Seen(shown, at), at, POLICY)
    return decision.record, types(decision).count("instance.reclaim_notified")


def test_a_notice_whose_time_moves_at_every_look_is_announced_when_it_is_another_one() -> None:
    record, told = up(), 0
    for minute in range(9):
        record, news = noticed(record, after(60 * minute), spot_reclaim_at=after(60 * minute + 3600))
        told += news
    sooner = noticed(record, after(600), spot_reclaim_at=after(1200))

    assert told == 1
    assert record.machine.spot_reclaim_at == after(8 * 60 + 3600), "the view has the last one"
    assert sooner[1] == 1


@pytest.mark.parametrize("status", [Status.EXITED, Status.STOPPED])
def test_a_notice_without_a_time_is_announced_once_for_each_run(status: Status) -> None:
    first, told = noticed(up(), NOW)
    again, repeated = noticed(first, after(60))
    if status is Status.STOPPED:
        again = begin_stop(deciding(again, after(90)), "op_1").record
    off, _ = noticed(again, after(120), "exited")
    assert off.status is status

    back = Instance(**vars(off) | {"status": Status.RUNNING, "recovery": None})
    _, renewed = noticed(back, after(7200))

    assert (told, repeated, renewed) == (1, 0, 1)


def test_what_novita_refused_to_stop_while_it_came_up_is_looked_at_before_it_is_asked_again() -> None:
    """It may be back by then: what runs would be stopped and started anew."""
    refused = Refusal(ago(600), 3, NOW)
    waiting = lost(tasks=(new_task(Action.STOP, refusal=refused),), no_room=True, try_at=after(300))

    looks = decide(waiting, Tick(), NOW, POLICY)
    back = decide(looks.record, Seen(new_machine("running"), NOW), NOW, POLICY, step=NOW)
    still = decide(looks.record, Seen(new_machine("starting"), NOW), NOW, POLICY, step=NOW)
    unseen = decide(looks.record, CallPostponed(Fault("NOVITA_UNAVAILABLE", "")), NOW, POLICY, step=NOW)

    assert looks.call == Look(OWN)
    assert (back.record.status, back.record.recovery, back.call) == (Status.RUNNING, None, None)
    assert still.call == Act(Action.STOP, OWN)
    assert unseen.call == Act(Action.STOP, OWN), "what cannot be looked at must not go on costing money"
