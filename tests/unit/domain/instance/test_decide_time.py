"""What time alone does: the next call of each situation, and what a passed deadline means."""

from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from functions.shared.domain.errors import Fault
from functions.shared.domain.instance.decide import decide
from functions.shared.domain.instance.health import HealthCheck
from functions.shared.domain.instance.observations import (
    Act,
    Call,
    CallPostponed,
    CheckHealth,
    HealthChecked,
    Look,
    NotFoundById,
    PurchasesRead,
    ReadPurchases,
    Seen,
    Tick,
)
from functions.shared.domain.instance.record import Action, HealthRounds, Instance, PurchaseOutcome
from functions.shared.domain.instance.status import Status
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
    new_purchase,
    new_report,
    new_spec,
    new_task,
)
from tests.unit.domain.instance.promises import call_once_stored

KEEP = new_spec(keep_on_failure=True)
CHECKED = new_spec(health_check=HealthCheck())
START: dict[str, Any] = {
    "operation": new_operation(Action.START),
    "health_check": HealthCheck(),
    "ready_at": ago(3000),
}

# What the first call of a step is.
ASKED: list[tuple[Instance, Call | None]] = [
    (new_instance(Status.CREATING), ReadPurchases()),
    (new_instance(Status.STARTING), Look(OWN)),
    (new_instance(Status.STARTING, pending=Action.START, **START), Act(Action.START, OWN)),
    (new_instance(Status.STARTING, pending=Action.RESTART, **START), Act(Action.RESTART, OWN)),
    (new_instance(Status.STARTING, **START), Look(OWN)),
    (new_instance(Status.RUNNING), None),
    (new_instance(Status.RUNNING, needs_look=True), Look(OWN)),
    (new_instance(Status.HEALTH_CHECKING), CheckHealth()),
    (new_instance(Status.HEALTH_CHECKING, health={"overall": "unhealthy"}), CheckHealth()),
    (
        new_instance(Status.HEALTH_CHECKING, looked_at=ago(30), rounds=HealthRounds(old_look=ago(30))),
        Look(OWN),
    ),
    (
        new_instance(Status.HEALTH_CHECKING, looked_at=ago(29), rounds=HealthRounds(old_look=ago(30))),
        CheckHealth(),
    ),
    (new_instance(Status.READY), None),
    (new_instance(Status.STOPPING, pending=Action.STOP), Act(Action.STOP, OWN)),
    (new_instance(Status.STOPPING), Look(OWN)),
    (new_instance(Status.STOPPED), None),
    (new_instance(Status.EXITED), None),
    (new_instance(Status.MIGRATING), Look(OWN)),
    (new_instance(Status.FAILED), None),
    (new_instance(Status.FAILED, unsettled=True), ReadPurchases()),
    (new_instance(Status.FAILED, tasks=(new_task(Action.STOP),)), Act(Action.STOP, OWN)),
    (new_instance(Status.FAILED, tasks=(new_task(asked_at=ago(60)),)), Look(OWN)),
    (new_instance(Status.DELETING, tasks=(new_task(),)), Act(Action.DELETE, OWN)),
    (new_instance(Status.DELETING, unsettled=True, machine_id=None), ReadPurchases()),
    (new_instance(Status.TERMINATED, gone=(OWN,)), None),
    (new_instance(Status.TERMINATED, gone=(OWN,), unsettled=True), ReadPurchases()),
    (
        new_instance(Status.TERMINATED, gone=(OWN,), tasks=(new_task(machine_id="m-late"),)),
        Act(Action.DELETE, "m-late"),
    ),
]


@pytest.mark.parametrize(("record", "call"), ASKED, ids=lambda one: str(getattr(one, "status", one)))
def test_a_step_begins_with_what_the_instance_needs(record: Instance, call: Call | None) -> None:
    decision = decide(record, Tick(), NOW, POLICY)

    assert decision.call == call
    assert decision.events == ()
    if call is None:
        assert (decision.record.next_check_at is None) == decision.record.at_rest


def test_deleting_with_nothing_left_to_give_back_is_terminated() -> None:
    record = new_instance(
        Status.DELETING, machine_id=None, purchases=0, operation=new_operation(Action.DELETE)
    )

    decision = decide(record, Tick(), NOW, POLICY)

    assert decision.record.status is Status.TERMINATED
    assert decision.record.next_check_at is None
    assert [operation.status for operation in decision.operations] == ["completed"]


def test_a_machine_that_nobody_has_seen_gone_keeps_its_instance_from_being_terminated() -> None:
    decision = decide(new_instance(Status.DELETING), Tick(), NOW, POLICY)

    assert decision.record.status is Status.DELETING
    assert [(task.machine_id, task.action) for task in decision.record.cleanup.tasks] == [
        (OWN, Action.DELETE)
    ]
    assert decision.record.next_check_at is not None


# What a passed deadline means: the code, and what is done about the machine.
LATE: list[tuple[str, Instance, str, Action | None]] = [
    ("nothing bought", new_instance(Status.CREATING), "PURCHASE_TIMEOUT", None),
    (
        "nothing to be had",
        new_instance(Status.CREATING, waiting=Fault("PRICE_CAP_EXCEEDED", "too dear")),
        "PRICE_CAP_EXCEEDED",
        None,
    ),
    ("first boot", new_instance(Status.STARTING), "STARTUP_TIMEOUT", Action.DELETE),
    ("first boot, keep", new_instance(Status.STARTING, spec=KEEP), "STARTUP_TIMEOUT", None),
    (
        "a restart that was refused",
        new_instance(Status.STARTING, ready_at=ago(3000), operation=new_operation(Action.RESTART, "failed")),
        "STARTUP_TIMEOUT",
        Action.STOP,
    ),
    ("first boot, moved", new_instance(Status.MIGRATING), "STARTUP_TIMEOUT", Action.DELETE),
    (
        "start never taken",
        new_instance(Status.STARTING, pending=Action.START, **START),
        "STARTUP_TIMEOUT",
        Action.STOP,
    ),
    ("start", new_instance(Status.STARTING, **START), "STARTUP_TIMEOUT", Action.STOP),
    ("start, moved", new_instance(Status.MIGRATING, **START), "STARTUP_TIMEOUT", Action.STOP),
    ("start, keep", new_instance(Status.STARTING, spec=KEEP, **START), "STARTUP_TIMEOUT", None),
    (
        "first check",
        new_instance(Status.HEALTH_CHECKING, spec=CHECKED, probed_at=NOW),
        "HEALTH_CHECK_FAILED",
        Action.DELETE,
    ),
    (
        "check after a start",
        new_instance(Status.HEALTH_CHECKING, probed_at=NOW, **START),
        "HEALTH_CHECK_FAILED",
        Action.STOP,
    ),
]


@pytest.mark.parametrize(
    ("record", "code", "action"), [row[1:] for row in LATE], ids=[row[0] for row in LATE]
)
def test_a_passed_deadline_fails_and_stops_the_cost(
    record: Instance, code: str, action: Action | None
) -> None:
    again = record.starting_again

    decision = decide(changed(record, deadline_at=NOW, seen_at=NOW), Tick(), NOW, POLICY)

    assert decision.record.status is Status.FAILED
    assert decision.record.error
    assert decision.record.error.code == code
    assert [event.type for event in decision.events] == ["instance.failed"] + ["startup.failed"] * again
    assert [operation.status for operation in decision.operations] == ["failed"] * again
    assert call_once_stored(decision) == (Act(action, OWN) if action else None)
    assert decision.record.at_rest == (action is None)
    assert (decision.record.next_check_at is None) == (action is None)


COMING = [
    new_instance(Status.STARTING),
    new_instance(Status.STARTING, **START),
    new_instance(Status.MIGRATING),
]


@pytest.mark.parametrize("record", COMING)
def test_what_may_have_come_up_in_time_is_looked_at_before_it_fails(record: Instance) -> None:
    late = changed(record, deadline_at=NOW, seen_at=ago(20), acted_at=ago(1000))

    asked = decide(late, Tick(), after(1), POLICY)
    up = decide(asked.record, Seen(new_machine("running"), after(1)), after(1), POLICY, step=asked.step)
    down = decide(asked.record, Seen(new_machine("pulling"), after(1)), after(1), POLICY, step=asked.step)

    assert (asked.record.status, asked.call) == (record.status, Look(OWN))
    assert up.record.status in (Status.RUNNING, Status.HEALTH_CHECKING)
    assert (down.record.status, down.record.next_check_at) == (record.status, after(1))
    assert decide(down.record, Tick(), after(1), POLICY).record.status is Status.FAILED


@pytest.mark.parametrize("record", COMING)
def test_a_deadline_ends_nothing_that_was_not_looked_at_however_long_that_takes(record: Instance) -> None:
    late = changed(record, deadline_at=NOW, seen_at=ago(20), acted_at=ago(1000))

    before = decide(late, Tick(), after(7200), POLICY)
    unanswered = decide(
        before.record,
        CallPostponed(Fault("NOVITA_UNAVAILABLE", "down"), 5),
        before.now,
        POLICY,
        step=before.step,
    )

    assert unanswered.record.status is record.status
    assert decide(unanswered.record, Tick(), after(7205), POLICY).call == Look(OWN)


@pytest.mark.parametrize("record", COMING)
def test_one_not_found_after_the_deadline_fails_nothing_and_a_second_one_does(record: Instance) -> None:
    late = changed(record, deadline_at=NOW, seen_at=ago(20), acted_at=ago(1000))

    missed = decide(late, NotFoundById(OWN, after(1)), after(1), POLICY)
    waiting = decide(missed.record, Tick(), after(2), POLICY)
    up = decide(missed.record, Seen(new_machine("running"), after(121)), after(121), POLICY)
    again = decide(missed.record, NotFoundById(OWN, after(121)), after(121), POLICY)

    assert (waiting.record.status, missed.record.next_check_at) == (record.status, after(121))
    assert up.record.status in (Status.RUNNING, Status.HEALTH_CHECKING)
    assert decide(again.record, Tick(), after(122), POLICY).record.status is Status.FAILED


def test_our_own_lack_of_slots_fails_no_start_and_a_restart_that_was_never_sent_stops_nothing() -> None:
    no_slot, down = (Fault(code, "no") for code in ("RATE_LIMIT_EXCEEDED", "NOVITA_UNAVAILABLE"))
    late: dict[str, Any] = {"deadline_at": ago(1), "ready_at": ago(900)}
    start = new_instance(Status.STARTING, pending=Action.START, waiting=no_slot, **late)
    restart = new_instance(
        Status.STARTING,
        pending=Action.RESTART,
        operation=new_operation(Action.RESTART),
        waiting=down,
        **late,
    )

    assert decide(start, Tick(), NOW, POLICY).call == Act(Action.START, OWN)
    given_up = decide(restart, Tick(), NOW, POLICY)

    assert [event.type for event in given_up.events] == ["startup.failed"]
    assert (given_up.call, given_up.record.cleanup.tasks) == (Look(OWN), ())


@pytest.mark.parametrize(("lost", "fails"), [(0, False), (4, False), (5, True)])
def test_an_application_that_nobody_lives_to_ask_fails_after_its_deadline(lost: int, fails: bool) -> None:
    def status(deadline_at: datetime) -> Status:
        rounds = HealthRounds(lost=lost)
        record = new_instance(Status.HEALTH_CHECKING, spec=CHECKED, deadline_at=deadline_at, rounds=rounds)
        return decide(record, Tick(), NOW, POLICY).record.status

    assert status(after(1)) is Status.HEALTH_CHECKING
    assert status(ago(1)) is (Status.FAILED if fails else Status.HEALTH_CHECKING)


@pytest.mark.parametrize("probed_at", [None, ago(1)])
@pytest.mark.parametrize("late_by", [0, 10_000])
def test_an_application_is_asked_once_more_before_it_fails(probed_at: datetime | None, late_by: int) -> None:
    """Also by a function that comes long after the deadline: nobody may have asked before it."""
    late = new_instance(
        Status.HEALTH_CHECKING, spec=CHECKED, deadline_at=NOW, acted_at=ago(500), probed_at=probed_at
    )
    now = after(late_by)

    def answered(healthy: bool) -> Instance:
        return decide(
            asked.record, HealthChecked(new_report(healthy=healthy), now), now, POLICY, step=asked.step
        ).record

    asked = decide(late, Tick(), now, POLICY)

    assert (asked.record.status, asked.call) == (Status.HEALTH_CHECKING, CheckHealth())
    assert answered(healthy=True).status is Status.READY
    silent = answered(healthy=False)
    assert (silent.status, silent.next_check_at) == (Status.HEALTH_CHECKING, now)
    assert decide(silent, Tick(), now, POLICY).record.status is Status.FAILED


@pytest.mark.parametrize("record", [row[1] for row in LATE], ids=[row[0] for row in LATE])
def test_before_its_deadline_nothing_fails(record: Instance) -> None:
    decision = decide(replace(record, deadline_at=after(0.001)), Tick(), NOW, POLICY)

    assert decision.events == ()
    assert decision.record.status is record.status


@pytest.mark.parametrize("status", sorted(set(Status) - {row[1].status for row in LATE}))
def test_other_statuses_have_no_deadline(status: Status) -> None:
    record = new_instance(
        status,
        deadline_at=ago(1),
        gone=(OWN,) if status is Status.TERMINATED else (),
        tasks=(new_task(),),
    )

    decision = decide(record, Tick(), NOW, POLICY)

    assert decision.events == ()


def test_an_unclear_purchase_outlives_the_deadline_of_the_instance() -> None:
    record = new_instance(Status.CREATING, unsettled=True, purchases=1, deadline_at=NOW)

    asked = decide(record, Tick(), NOW, POLICY)
    decision = decide(
        asked.record, PurchasesRead((new_purchase(PurchaseOutcome.UNCLEAR),)), NOW, POLICY, step=asked.step
    )

    assert (asked.record.status, asked.call) == (Status.CREATING, ReadPurchases())
    assert decision.record.status is Status.FAILED
    assert not decision.record.at_rest


def test_what_was_bought_in_time_and_not_yet_noted_is_no_failure() -> None:
    record = new_instance(Status.CREATING, machine_id=None, unsettled=True, purchases=1, deadline_at=NOW)

    asked = decide(record, Tick(), after(60), POLICY)
    read = PurchasesRead((new_purchase(PurchaseOutcome.BOUGHT),))
    decision = decide(asked.record, read, after(60), POLICY, step=asked.step)

    assert [event.type for event in decision.events] == ["instance.starting"]
    assert decision.record.machine.id == OWN


def test_nothing_is_bought_after_the_deadline() -> None:
    record = new_instance(Status.CREATING, machine_id=None, unsettled=True, purchases=1, deadline_at=NOW)

    asked = decide(record, Tick(), NOW, POLICY)
    decision = decide(
        asked.record, PurchasesRead((new_purchase(PurchaseOutcome.REFUSED),)), NOW, POLICY, step=asked.step
    )

    assert (decision.record.status, decision.call, decision.record.at_rest) == (Status.FAILED, None, True)


def test_a_wait_never_outlasts_the_deadline() -> None:
    record = new_instance(Status.STARTING, deadline_at=after(5), looked_at=NOW)

    decision = decide(record, Tick(), NOW, POLICY)

    assert decision.record.next_check_at == after(5)
