"""What follows from how a call went: taken, refused, postponed, and what the application answered."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from functions.shared.domain.errors import Fault
from functions.shared.domain.instance.decide import decide
from functions.shared.domain.instance.health import HealthCheck
from functions.shared.domain.instance.observations import (
    Act,
    ActionTaken,
    CallPostponed,
    CallRefused,
    CheckHealth,
    DeadLettered,
    FindByName,
    HealthChecked,
    Look,
    OwnedByAnother,
    RoundHeld,
    Seen,
    Tick,
)
from functions.shared.domain.instance.outcomes import begin_round
from functions.shared.domain.instance.record import Action, HealthRounds, Instance, PurchaseOutcome, Queue
from functions.shared.domain.instance.status import Status
from tests.unit.builders import (
    NOW,
    OWN,
    POLICY,
    after,
    ago,
    changed,
    deciding,
    new_instance,
    new_machine,
    new_operation,
    new_purchase,
    new_report,
    new_spec,
    new_task,
)
from tests.unit.domain.instance.promises import call_once_stored

NO = Fault("NOVITA_REJECTED", "no")
FULL = Fault("RESOURCE_CONSTRAINTS", "full")
DOWN = Fault("NOVITA_UNAVAILABLE", "down")


def bringing_up(action: Action = Action.START, **changes: Any) -> Instance:
    plain: dict[str, Any] = {
        "pending": action,
        "operation": new_operation(action, "initiated"),
        "health_check": HealthCheck(),
        "ready_at": ago(3000),
        "deadline_at": after(100),
    }
    return new_instance(Status.STARTING, **plain | changes)


def stopping(**changes: Any) -> Instance:
    plain: dict[str, Any] = {"pending": Action.STOP, "operation": new_operation(Action.STOP, "initiated")}
    return new_instance(Status.STOPPING, **plain | changes)


def types(record: Instance, *observations: Any) -> list[str]:
    return [e.type for one in observations for e in decide(record, one, NOW, POLICY).events]


@pytest.mark.parametrize("action", [Action.START, Action.RESTART])
def test_a_start_that_novita_took_is_timed_from_then(action: Action) -> None:
    decision = decide(bringing_up(action), ActionTaken(Act(action, OWN), NOW), NOW, POLICY)

    record = decision.record
    assert (record.pending, record.machine.acted_at) == (None, NOW)
    assert record.deadline_at == NOW + POLICY.boot_wait
    assert [operation.status for operation in decision.operations] == ["monitoring"]
    assert decision.call is None
    assert record.next_check_at == after(30)


def test_a_stop_that_novita_took_is_confirmed_by_a_later_look() -> None:
    decision = decide(stopping(), ActionTaken(Act(Action.STOP, OWN), NOW), NOW, POLICY)

    assert (decision.record.status, decision.record.pending) == (Status.STOPPING, None)
    assert decision.record.next_check_at == after(30)


def test_a_start_refused_for_capacity_leaves_it_startable_and_deletes_nothing() -> None:
    refusal = CallRefused(FULL, Act(Action.START, OWN), capacity=True)

    decision = decide(bringing_up(), refusal, NOW, POLICY)

    assert [event.type for event in decision.events] == ["instance.exited", "startup.failed"]
    assert decision.record.operation
    assert (decision.record.operation.status, decision.record.operation.error) == ("failed", FULL)
    assert decision.record.cleanup.tasks == ()
    assert decision.record.at_rest


@pytest.mark.parametrize(
    ("before", "then"),
    [
        (Status.STOPPED, Status.STOPPED),
        (Status.EXITED, Status.EXITED),
        (Status.FAILED, Status.EXITED),
        (None, Status.EXITED),  # begun by an older version
    ],
)
def test_a_start_refused_for_capacity_is_what_it_was_before(before: Status | None, then: Status) -> None:
    record = bringing_up()
    assert record.operation
    record = replace(record, operation=replace(record.operation, began_in=before))

    decision = decide(record, CallRefused(FULL, Act(Action.START, OWN), capacity=True), NOW, POLICY)

    assert decision.record.status is then
    assert decision.record.at_rest


@pytest.mark.parametrize(("shown", "status"), [("running", Status.RUNNING), ("exited", Status.EXITED)])
def test_a_restart_refused_for_capacity_is_as_a_look_shows_it(shown: str, status: Status) -> None:
    refusal = CallRefused(FULL, Act(Action.RESTART, OWN), capacity=True)

    decision = decide(bringing_up(Action.RESTART), refusal, NOW, POLICY)
    looked = decide(decision.record, Seen(new_machine(shown), NOW), NOW, POLICY)

    assert [event.type for event in decision.events] == ["startup.failed"]
    assert decision.call == Look(OWN)
    assert looked.record.status is status
    assert looked.record.at_rest


@pytest.mark.parametrize("keep", [False, True])
def test_a_start_refused_for_good_fails_and_the_machine_is_stopped_unless_kept(keep: bool) -> None:
    record = bringing_up(spec=new_spec(keep_on_failure=keep))

    decision = decide(record, CallRefused(NO, Act(Action.START, OWN)), NOW, POLICY)

    assert [event.type for event in decision.events] == ["instance.failed", "startup.failed"]
    assert call_once_stored(decision) == (None if keep else Act(Action.STOP, OWN))
    assert decision.record.at_rest == keep


def test_a_start_in_the_wrong_state_is_asked_for_again_until_the_machine_runs() -> None:
    """It runs already, or is still being stopped: by us, where a start before this one failed."""
    refusal = CallRefused(NO, Act(Action.START, OWN), wrong_state=True)

    decision = decide(bringing_up(), refusal, NOW, POLICY)

    def shown(status: str) -> Instance:
        machine = Seen(new_machine(status), NOW)
        return decide(decision.record, machine, NOW, POLICY, step=decision.step).record

    assert (decision.events, decision.call) == ((), Look(OWN))
    assert decision.record.machine.needs_look, "a look by id, since lists lag"
    for status in ("stopping", "exited", "starting"):
        assert (shown(status).pending, shown(status).next_check_at) == (Action.START, after(30))
        assert decide(shown(status), Tick(), after(30), POLICY).call == Act(Action.START, OWN)
    assert (shown("running").status, shown("running").pending) == (Status.HEALTH_CHECKING, None)


@pytest.mark.parametrize("record", [bringing_up(Action.RESTART), stopping()])
def test_an_action_in_the_wrong_state_may_have_been_done_already_so_a_look_tells(record: Instance) -> None:
    assert record.pending
    act = Act(record.pending, OWN)

    decision = decide(record, CallRefused(NO, act, wrong_state=True), NOW, POLICY)

    assert decision.events == ()
    assert decision.record.pending is None
    assert decision.record.next_check_at == after(30)


ENDING = [
    (new_instance(Status.STOPPING, pending=Action.STOP, operation=new_operation(Action.STOP)), Action.STOP),
    (new_instance(Status.FAILED, tasks=(new_task(Action.STOP),)), Action.STOP),
    (new_instance(Status.DELETING, tasks=(new_task(),)), Action.DELETE),
]


@pytest.mark.parametrize(("record", "action"), ENDING)
def test_a_refused_end_is_asked_for_again_after_waits_that_grow_and_told_of_once(
    record: Instance, action: Action
) -> None:
    now, calls, told = NOW, 0, list[tuple[str, datetime]]()
    while now < NOW + timedelta(hours=24):
        asked = decide(record, Tick(), now, POLICY)
        if asked.call:
            assert asked.call == Act(action, OWN)
            calls += 1
            asked = decide(asked.record, CallRefused(NO, Act(action, OWN)), now, POLICY, step=asked.step)
            told += [(event.type, now) for event in asked.events]
        record = asked.record
        assert record.next_check_at is not None
        assert timedelta() < record.next_check_at - now <= timedelta(hours=1)
        now = record.next_check_at

    assert calls <= 40
    assert told == [("cleanup.stuck", NOW + timedelta(minutes=10))]
    assert record.stuck


@pytest.mark.parametrize(("record", "action"), ENDING)
def test_a_refused_end_that_finds_no_slot_is_refused_still_and_told_of_after_ten_minutes(
    record: Instance, action: Action
) -> None:
    act, crowded = Act(action, OWN), Fault("RATE_LIMIT_EXCEEDED", "No call is free")
    record = decide(record, CallRefused(NO, act), NOW, POLICY).record
    told = []
    for seconds in range(30, 660, 30):
        asked = decide(record, Tick(), after(seconds), POLICY)
        assert asked.call == act
        no_slot = CallPostponed(crowded, 3.0, act)
        put_off = decide(asked.record, no_slot, after(seconds), POLICY, step=asked.step)
        record = put_off.record
        told += [(event.type, event.error, event.at) for event in put_off.events]
        assert (record.waiting, record.next_check_at) == (NO, after(seconds + 30))

    assert told == [("cleanup.stuck", NO, after(600))]


@pytest.mark.parametrize(("record", "action"), ENDING)
def test_the_yes_after_a_refusal_is_followed_as_any_other(record: Instance, action: Action) -> None:
    refused = decide(record, CallRefused(NO, Act(action, OWN)), NOW, POLICY).record

    taken = decide(refused, ActionTaken(Act(action, OWN), after(40)), after(40), POLICY, step=after(40))

    assert (taken.record.stuck, taken.record.waiting) == (False, None)
    assert decide(taken.record, Tick(), after(70), POLICY).call == Look(OWN)


@pytest.mark.parametrize(("action", "done"), [(Action.DELETE, "removed"), (Action.STOP, "exited")])
def test_a_clean_up_refused_for_its_state_is_asked_for_again_unless_a_look_shows_it_done(
    action: Action, done: str
) -> None:
    """A machine that is off already refuses to be stopped: asking for ever would never come to rest."""
    record = new_instance(Status.FAILED, tasks=(new_task(action),))

    decision = decide(record, CallRefused(NO, Act(action, OWN), wrong_state=True), NOW, POLICY)
    still = decide(decision.record, Seen(new_machine("running"), NOW), NOW, POLICY)
    over = decide(decision.record, Seen(new_machine(done), NOW), NOW, POLICY)

    assert decision.call == Look(OWN)
    assert (still.call, still.record.next_check_at, still.record.waiting) == (None, after(30), NO)
    assert decide(still.record, Tick(), after(30), POLICY).call == Act(action, OWN)
    assert over.record.at_rest


def test_a_machine_that_another_instance_has_by_now_is_left_to_it() -> None:
    record = new_instance(Status.DELETING, tasks=(new_task(),), operation=new_operation(Action.DELETE))

    decision = decide(record, OwnedByAnother(OWN), NOW, POLICY)

    assert (decision.record.status, decision.call) == (Status.TERMINATED, None)
    assert decision.record.cleanup.released == (OWN,)


@pytest.mark.parametrize("status", Status)
def test_a_purchase_that_cannot_be_made_fails_only_what_is_being_created(status: Status) -> None:
    record = new_instance(status)

    decision = decide(record, CallRefused(NO), NOW, POLICY)

    assert types(record, CallRefused(NO)) == (["instance.failed"] if status is Status.CREATING else [])
    assert decision.record.status is (Status.FAILED if status is Status.CREATING else status)


def test_what_is_postponed_comes_back_after_its_wait_with_the_reason() -> None:
    decision = decide(new_instance(Status.CREATING), CallPostponed(DOWN, 12), NOW, POLICY)

    assert decision.record.waiting == DOWN
    assert decision.record.next_check_at == after(12)
    assert decision.events == ()


def test_a_postponed_call_without_a_wait_does_not_come_back_at_once() -> None:
    decision = decide(new_instance(Status.CREATING), CallPostponed(DOWN, 0), NOW, POLICY)

    assert decision.record.next_check_at == after(1)


def test_a_look_up_that_cannot_be_made_does_not_keep_a_machine_from_being_deleted() -> None:
    """Stop and delete pass an open circuit; the look-ups beside them do not."""
    record = new_instance(Status.DELETING, unsettled=True, tasks=(new_task(),))
    unclear = new_purchase(PurchaseOutcome.UNCLEAR, 2)

    decision = decide(record, CallPostponed(DOWN, 60), NOW, POLICY)

    assert decide(record, Seen(new_machine("running"), ago(90)), NOW, POLICY).call != FindByName(unclear)
    assert decision.call == Act(Action.DELETE, OWN)
    assert decision.record.purchases.unsettled


def test_one_machine_that_cannot_be_deleted_does_not_keep_another_from_it() -> None:
    record = new_instance(Status.DELETING, tasks=(new_task(), new_task(machine_id="m-2")))

    first = decide(record, CallPostponed(DOWN, 60), NOW, POLICY)
    second = decide(first.record, CallPostponed(DOWN, 60), NOW, POLICY, step=NOW)

    assert first.call == Act(Action.DELETE, "m-2")
    assert second.call is None
    assert second.record.next_check_at == after(60)
    assert [task.asked_at for task in second.record.cleanup.tasks] == [None, None]


def test_what_was_waited_for_is_forgotten_once_it_has_come() -> None:
    record = new_instance(Status.STARTING, waiting=DOWN, deadline_at=after(600))

    assert decide(record, Seen(new_machine("pulling"), NOW), NOW, POLICY).record.waiting is None


@pytest.mark.parametrize(
    ("record", "fails"),
    [
        (new_instance(Status.CREATING), True),
        (bringing_up(), False),
        (new_instance(Status.HEALTH_CHECKING), True),
        (new_instance(Status.STARTING), False),
        (stopping(), False),
        (new_instance(Status.DELETING, tasks=(new_task(),)), False),
        (new_instance(Status.FAILED, tasks=(new_task(),)), False),
    ],
    ids=lambda one: str(getattr(one, "queue", one)),
)
def test_a_message_that_failed_for_the_last_time_fails_its_instance_except_in_monitor(
    record: Instance, fails: bool
) -> None:
    decision = decide(record, DeadLettered(record.queue, NO), NOW, POLICY)

    assert ("instance.failed" in types(record, DeadLettered(record.queue, NO))) == fails
    assert not decision.record.at_rest or fails


def test_a_dead_letter_of_a_queue_that_the_instance_has_left_changes_nothing() -> None:
    assert (
        types(new_instance(Status.CREATING), DeadLettered(Queue.STARTUP, NO), DeadLettered(Queue.MONITOR, NO))
        == []
    )
    assert types(new_instance(Status.HEALTH_CHECKING), DeadLettered(Queue.CREATE, NO)) == []


def checking(**changes: Any) -> Instance:
    return new_instance(Status.HEALTH_CHECKING, deadline_at=after(100), **changes)


def test_an_application_that_answers_makes_the_instance_ready() -> None:
    decision = decide(checking(), HealthChecked(new_report(healthy=True), NOW), NOW, POLICY)

    assert [event.type for event in decision.events] == ["instance.ready"]
    assert decision.events[0].health == decision.record.health == new_report(healthy=True).as_json()
    assert decision.record.ready_at == NOW
    assert decision.record.at_rest


def test_after_a_start_it_completes_the_startup_too() -> None:
    record = checking(operation=new_operation(Action.START), ready_at=ago(3000))

    decision = decide(record, HealthChecked(new_report(healthy=True), NOW), NOW, POLICY)

    completed = decision.events[-1]
    assert [event.type for event in decision.events] == ["instance.ready", "startup.completed"]
    assert (completed.operation_id, completed.elapsed_ms) == ("op_start", 120_000)
    assert decision.record.ready_at == ago(3000)


def silent(record: Instance, at: datetime = NOW, chance: float = 1.0, **report: bool) -> Instance:
    return decide(record, HealthChecked(new_report(healthy=False, **report), at, chance), at, POLICY).record


def test_one_that_does_not_answer_is_asked_again_soon_and_then_at_the_usual_interval() -> None:
    check = HealthCheck(retry_attempts=2, retry_delay_ms=4000)
    record, waits = checking(spec=new_spec(health_check=check), looked_at=NOW), []

    for _ in range(4):
        record = silent(record)
        assert record.health == new_report(healthy=False).as_json()
        waits.append(((record.next_check_at or NOW) - NOW).total_seconds())

    assert waits == [4, 8, 30, 4]
    assert silent(checking(looked_at=NOW), chance=0).next_check_at == after(1)


def test_a_look_at_the_machine_that_is_too_old_by_then_is_made_again_before_the_next_round() -> None:
    soon = silent(checking(looked_at=ago(10)))
    late = silent(checking(looked_at=ago(10), spec=new_spec(health_check=HealthCheck(retry_attempts=0))))
    now = after(30)

    look = decide(late, Tick(), now, POLICY, step=now)
    running = Seen(new_machine("running"), now)
    seen = decide(look.record, running, now, POLICY, step=now)
    no_answer = decide(look.record, CallPostponed(DOWN, 60), now, POLICY, step=now)

    assert (soon.queue, late.queue) == (Queue.STARTUP, Queue.MONITOR)
    assert decide(soon, Tick(), after(2), POLICY).call == CheckHealth()
    assert look.call == Look(OWN)
    assert seen.call == no_answer.call == CheckHealth()
    assert (seen.record.queue, no_answer.record.queue) == (Queue.STARTUP, Queue.STARTUP)


def test_a_machine_to_be_given_back_meanwhile_does_not_keep_the_application_from_being_asked() -> None:
    record = silent(checking(looked_at=ago(60), tasks=(new_task(machine_id="m-2"),)))
    now = after(30)

    first = decide(record, Tick(), now, POLICY, step=now)
    postponed = decide(first.record, CallPostponed(DOWN, 60), now, POLICY, step=now)
    looked = decide(postponed.record, Seen(new_machine("running"), now), now, POLICY, step=now)

    assert first.call == Act(Action.DELETE, "m-2")
    assert postponed.call == Look(OWN)
    assert looked.call == CheckHealth()


def test_a_round_is_due_again_when_its_lease_ends_and_its_report_ends_it() -> None:
    begun = begin_round(deciding(checking(looked_at=NOW)), after(60))
    ended = silent(begun.record)

    assert (begun.call, begun.record.next_check_at) == (None, after(60))
    assert begun.record.rounds == HealthRounds(until=after(60), lost=1)
    assert begun.record.rounds.under_way(after(59))
    assert not begun.record.rounds.under_way(after(60))
    assert ended.rounds == HealthRounds(made=1)


def test_what_timed_out_is_slow_until_it_answers_also_over_a_restart() -> None:
    timed_out = silent(checking(looked_at=NOW), timed_out=True)
    came_up = Seen(new_machine("running"), after(9))
    starting = changed(timed_out, status=Status.STARTING, spec=new_spec(health_check=HealthCheck()))
    again = decide(starting, came_up, after(9), POLICY).record
    answered = silent(again, after(10))

    assert timed_out.rounds.slow
    assert (again.status, again.rounds) == (Status.HEALTH_CHECKING, HealthRounds(slow=True))
    assert not answered.rounds.slow


def test_a_round_that_is_held_is_none_and_no_deadline_is_judged_by_it() -> None:
    record = checking(looked_at=NOW, rounds=HealthRounds(made=2, slow=True))

    held = decide(changed(record, deadline_at=ago(1)), RoundHeld(7), NOW, POLICY).record

    assert held.status is Status.HEALTH_CHECKING
    assert held.rounds == HealthRounds(made=2, slow=True, held=1)
    assert (held.next_check_at, held.probed_at) == (after(7), record.probed_at)
    assert decide(held, Tick(), after(7), POLICY).call == CheckHealth()
    assert silent(held, after(7)).rounds.held == 0


@pytest.mark.parametrize("began", [ago(60), ago(90)])
def test_an_answer_from_before_the_last_action_is_no_answer(began: datetime) -> None:
    decision = decide(checking(), HealthChecked(new_report(healthy=True), began), NOW, POLICY)

    assert decision.events == ()
    assert decision.record.health is None


@pytest.mark.parametrize("status", sorted(set(Status) - {Status.HEALTH_CHECKING}))
def test_an_answer_means_nothing_in_another_status(status: Status) -> None:
    assert types(new_instance(status), HealthChecked(new_report(healthy=True), NOW)) == []


def test_an_action_taken_on_a_machine_to_be_given_back_is_noted_there() -> None:
    record = new_instance(Status.RUNNING, tasks=(new_task(machine_id="m-2"),))

    decision = decide(record, ActionTaken(Act(Action.DELETE, "m-2"), NOW), NOW, POLICY)

    assert decision.record.cleanup.tasks[0].asked_at == NOW
    assert decision.record.machine.acted_at == record.machine.acted_at


def test_events_after_an_operation_do_not_count_as_its_doing() -> None:
    record = new_instance(Status.READY, operation=replace(new_operation(Action.START), status="completed"))

    event = decide(record, Seen(new_machine("exited"), NOW), NOW, POLICY).events[0]

    assert event.operation_id is None
    assert event.elapsed_ms == 3_600_000
