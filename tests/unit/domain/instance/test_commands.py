"""Each operation on each status: what it begins, or the refusal that names the status."""

from collections.abc import Callable
from typing import Any

import pytest

from functions.shared.domain.errors import Conflict
from functions.shared.domain.instance.commands import (
    begin_again,
    begin_create,
    begin_delete,
    begin_import,
    begin_restart,
    begin_start,
    begin_stop,
)
from functions.shared.domain.instance.decide import decide
from functions.shared.domain.instance.decision import Decision
from functions.shared.domain.instance.health import HealthCheck
from functions.shared.domain.instance.observations import Act, Tick
from functions.shared.domain.instance.record import Action, Instance
from functions.shared.domain.instance.status import RESTARTABLE, STARTABLE, STOPPABLE, Status
from tests.unit.builders import (
    NOW,
    OWN,
    POLICY,
    ago,
    created,
    deciding,
    new_instance,
    new_machine,
    new_operation,
    new_spec,
    new_task,
)

CHECK = HealthCheck(max_wait_time_ms=60_000)
Command = Callable[[Decision], Decision]


def start(decision: Decision) -> Decision:
    return begin_start(decision, "op_new", CHECK)


def restart(decision: Decision) -> Decision:
    return begin_restart(decision, "op_new", CHECK)


def stop(decision: Decision) -> Decision:
    return begin_stop(decision, "op_new")


def delete(decision: Decision) -> Decision:
    return begin_delete(decision, "op_new")


# The command, the statuses that it may begin from, the code of its refusal, where it leads.
TABLE: list[tuple[Command, set[Status], str, Status]] = [
    (start, {Status.EXITED, Status.STOPPED, Status.FAILED}, "INSTANCE_NOT_STARTABLE", Status.STARTING),
    (
        restart,
        {Status.RUNNING, Status.HEALTH_CHECKING, Status.READY},
        "INSTANCE_NOT_RESTARTABLE",
        Status.STARTING,
    ),
    (stop, set(STOPPABLE), "INSTANCE_NOT_STOPPABLE", Status.STOPPING),
    (delete, set(Status) - {Status.DELETING, Status.TERMINATED}, "", Status.DELETING),
]
EVERY = [(*row, status) for row in TABLE for status in Status]


def refused(command: Command, record: Instance) -> Conflict:
    with pytest.raises(Conflict) as caught:
        command(deciding(record))
    return caught.value


@pytest.mark.parametrize(("command", "allowed", "code", "leads_to", "status"), EVERY)
def test_every_operation_on_every_status_has_its_answer(
    command: Command, allowed: set[Status], code: str, leads_to: Status, status: Status
) -> None:
    record = new_instance(status)

    if status in allowed:
        decision = command(deciding(record))

        assert decision.record.status is leads_to
        assert decision.record.next_check_at == NOW
        assert [operation.id for operation in decision.operations] == ["op_new"]
        assert decision.record.operation == decision.operations[-1]
        assert decision.events[0].type == f"instance.{leads_to}"
        assert decision.events[0].actor == "key_1"
    elif code:
        error = refused(command, record)

        assert error.code == code
        assert status in error.message
        assert error.details == {"status": status}
    else:
        assert command(deciding(record)) == deciding(record)


def test_the_sets_of_statuses_are_those_of_the_product() -> None:
    assert TABLE[0][1] == STARTABLE
    assert TABLE[1][1] == RESTARTABLE


@pytest.mark.parametrize(("command", "action"), [(start, Action.START), (restart, Action.RESTART)])
def test_a_start_is_announced_timed_and_made_by_the_startup_function(
    command: Command, action: Action
) -> None:
    record = new_instance(Status.EXITED if action is Action.START else Status.READY, health={"overall": "x"})

    decision = command(deciding(record))

    begun = decision.record
    assert [event.type for event in decision.events] == ["instance.starting", "startup.initiated"]
    assert {event.operation_id for event in decision.events} == {"op_new"}
    assert (begun.pending, begun.health_check, begun.health) == (action, CHECK, None)
    assert begun.deadline_at == NOW + POLICY.boot_wait
    assert begun.queue == "monitor"
    assert decide(begun, Tick(), NOW, POLICY).call == Act(action, OWN)


@pytest.mark.parametrize("command", [start, restart])
@pytest.mark.parametrize("status", [Status.STARTING, Status.HEALTH_CHECKING, Status.MIGRATING])
def test_a_second_start_is_told_that_one_is_under_way(command: Command, status: Status) -> None:
    record = new_instance(status, operation=new_operation(Action.START))

    refusal = refused(command, record)
    assert refusal.code == "STARTUP_OPERATION_IN_PROGRESS"
    assert f" is {status}:" in refusal.message
    assert refusal.details == {"status": status}


def test_after_a_start_has_ended_another_may_begin() -> None:
    ended = new_operation(Action.START, "failed")

    assert start(deciding(new_instance(Status.EXITED, operation=ended))).record.operation != ended


@pytest.mark.parametrize("command", [start, stop])
@pytest.mark.parametrize(
    "without",
    [{"machine_id": None}, {"gone": (OWN,)}, {"tasks": (new_task(Action.DELETE),)}],
    ids=["never had one", "gone", "being deleted"],
)
def test_failed_without_a_machine_can_be_neither_started_nor_stopped(
    command: Command, without: dict[str, Any]
) -> None:
    error = refused(command, new_instance(Status.FAILED, **without))

    assert error.code in ("INSTANCE_NOT_STARTABLE", "INSTANCE_NOT_STOPPABLE")
    assert "failed and has no machine" in error.message


def test_a_start_of_a_failed_one_drops_the_task_to_stop_it() -> None:
    surplus = new_task(machine_id="m-surplus")
    record = new_instance(Status.FAILED, tasks=(new_task(Action.STOP), surplus))

    assert start(deciding(record)).record.cleanup.tasks == (surplus,)


def test_a_delete_gives_the_machine_back_even_if_it_was_to_be_stopped() -> None:
    stopping = new_instance(Status.FAILED, tasks=(new_task(Action.STOP, asked_at=ago(60)),))

    for record in (new_instance(Status.READY), stopping):
        decision = delete(deciding(record))

        assert [(task.machine_id, task.action) for task in decision.record.cleanup.tasks] == [
            (OWN, Action.DELETE)
        ]
        assert decide(decision.record, Tick(), NOW, POLICY).call == Act(Action.DELETE, OWN)


@pytest.mark.parametrize("status", sorted(set(Status) - {Status.DELETING, Status.TERMINATED}))
def test_a_delete_takes_back_whatever_was_asked_for_before(status: Status) -> None:
    record = new_instance(
        status, pending=Action.START, health_check=CHECK, deadline_at=NOW, unsettled=True, needs_look=True
    )

    deleted = delete(deciding(record)).record

    assert (deleted.pending, deleted.health_check, deleted.deadline_at) == (None, None, None)
    assert deleted.purchases.unsettled


def test_deleting_twice_changes_nothing_the_second_time() -> None:
    once = delete(deciding(new_instance(Status.RUNNING))).record

    assert begin_delete(deciding(once), "op_other") == deciding(once)


def test_a_delete_of_what_was_never_bought_ends_at_once() -> None:
    deleted = delete(deciding(created().record)).record

    assert decide(deleted, Tick(), NOW, POLICY).record.status is Status.TERMINATED


@pytest.mark.parametrize("command", [stop, delete])
def test_a_start_that_is_overtaken_ends_as_failed_and_says_so(command: Command) -> None:
    record = new_instance(Status.STARTING, operation=new_operation(Action.START), health_check=CHECK)

    decision = command(deciding(record))

    before, after = decision.operations
    assert (before.id, before.status) == ("op_start", "failed")
    assert before.error
    assert before.error.code == "OPERATION_SUPERSEDED"
    assert (after.id, after.status) == ("op_new", "initiated")
    assert decision.events[0].type == "startup.failed"
    assert decision.events[0].operation_id == "op_start"
    assert decision.events[1].operation_id == "op_new"


def test_a_stop_that_is_overtaken_by_a_delete_ends_as_failed() -> None:
    record = new_instance(Status.STOPPING, operation=new_operation(Action.STOP))

    decision = delete(deciding(record))

    assert [operation.status for operation in decision.operations] == ["failed", "initiated"]
    assert [event.type for event in decision.events] == ["instance.deleting"]


def test_an_operation_that_ended_is_not_ended_again() -> None:
    record = new_instance(Status.READY, operation=new_operation(Action.START, "completed"))

    assert [operation.id for operation in delete(deciding(record)).operations] == ["op_new"]


def test_a_create_is_stored_as_creating_and_due_at_once() -> None:
    decision = begin_create(
        instance_id="inst_1",
        name="a name",
        spec=new_spec(region="CN-HK-01"),
        webhook_url="https://hook.example",
        actor="key_1",
        correlation_id="corr",
        now=NOW,
        policy=POLICY,
    )

    record = decision.record
    assert (record.status, record.next_check_at, record.queue) == (Status.CREATING, NOW, "create")
    assert record.deadline_at == NOW + POLICY.purchase_wait
    assert [(event.type, event.sequence) for event in decision.events] == [("instance.creating", 1)]
    assert decision.events[0].webhook_url == "https://hook.example"


@pytest.mark.parametrize(
    ("shown", "status"),
    [("running", Status.RUNNING), ("exited", Status.EXITED), ("pulling", Status.STARTING)],
)
def test_an_imported_machine_is_as_novita_shows_it_and_kept(shown: str, status: Status) -> None:
    decision = begin_import(
        instance_id="inst_1",
        name="theirs",
        machine=new_machine(shown),
        webhook_url=None,
        actor="key_1",
        correlation_id="corr",
        now=NOW,
        policy=POLICY,
    )

    record = decision.record
    assert (record.status, record.machine.id, record.sequence) == (status, OWN, 1)
    assert record.spec.keep_on_failure
    assert (record.next_check_at is None) == record.at_rest == (status is not Status.STARTING)


def test_a_redrive_buys_anew_what_failed_without_a_machine() -> None:
    record = new_instance(Status.FAILED, gone=(OWN,), purchases=2, sequence=9)

    decision = begin_again(deciding(record))

    again = decision.record
    assert (again.status, again.machine.id, again.cleanup.gone) == (Status.CREATING, None, (OWN,))
    assert (again.purchases.count, again.sequence, again.version) == (2, 10, record.version)
    assert again.deadline_at == NOW + POLICY.purchase_wait
    assert again.next_check_at == NOW


@pytest.mark.parametrize(
    "record",
    [
        *(new_instance(status) for status in Status),
        new_instance(Status.FAILED, gone=(OWN,), unsettled=True),
        new_instance(Status.FAILED, gone=(OWN,), tasks=(new_task(machine_id="m-2"),)),
    ],
    ids=lambda record: record.status,
)
def test_nothing_else_is_redriven(record: Instance) -> None:
    refused(begin_again, record)
