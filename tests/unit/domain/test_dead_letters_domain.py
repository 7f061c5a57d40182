"""What a dead letter says, what it does to an instance, and how an instance begins again."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from functions.shared.domain.errors import Conflict, Fault
from functions.shared.domain.instance.commands import begin_again
from functions.shared.domain.instance.decide import decide
from functions.shared.domain.instance.decision import Decision
from functions.shared.domain.instance.observations import (
    Buy,
    DeadLettered,
    PurchasesRead,
    ReadPurchases,
    Reappeared,
)
from functions.shared.domain.instance.record import Action, CleanupTask, Instance, PurchaseOutcome, Queue
from functions.shared.domain.instance.status import Status
from functions.shared.domain.messages import (
    DeliveryMessage,
    JobFailure,
    StepMessage,
    UnreadableMessage,
    read_dead_letter,
)
from tests.unit.builders import (
    NOW,
    OWN,
    POLICY,
    ago,
    new_instance,
    new_machine,
    new_operation,
    new_purchase,
    new_spec,
    new_task,
)

FAULT = Fault("INTERNAL_ERROR", "it broke")
FAILURE = JobFailure("RuntimeError", FAULT, 4, NOW)
STEP = StepMessage("inst_1", "token", "correlation")


def failed(**changes: Any) -> Instance:
    return new_instance(Status.FAILED, **({"error": FAULT, "machine_id": None} | changes))


def again(record: Instance) -> Decision:
    return begin_again(Decision(record, NOW, POLICY, NOW, "key_1"))


def test_messages_are_read_as_they_were_written() -> None:
    delivery = DeliveryMessage("dlv_1", 3, "")

    assert StepMessage.from_json(STEP.as_json()) == STEP
    assert DeliveryMessage.from_json(delivery.as_json()) == delivery
    assert StepMessage.from_json(STEP.as_json()[:-1] + ', "of": "tomorrow"}') == STEP


@pytest.mark.parametrize(
    "body",
    ["", "x", "1", "[]", "{}", '{"instance_id": 1, "token": "t"}', '{"instance_id": "i"}', "[" * 100_000]
    + [f'{{"instance_id": "{id_}", "token": "t"}}' for id_ in ("", "a\\nb", "\\ud800", "x" * 256)],
)
def test_a_body_that_is_none_of_ours_is_named_as_such(body: str) -> None:
    with pytest.raises(UnreadableMessage):
        StepMessage.from_json(body)
    with pytest.raises(UnreadableMessage):
        DeliveryMessage.from_json(body)


def test_a_letter_says_what_its_message_was_about() -> None:
    step = read_dead_letter("m-1", "create", STEP.as_json(), FAILURE)
    delivery = read_dead_letter("m-2", "webhook", DeliveryMessage("dlv_1", 1, "c").as_json(), FAILURE)
    unread = read_dead_letter("m-3", "monitor", "x" * 999, FAILURE)

    assert (step.id, step.instance_id, step.token, step.correlation_id) == (
        "dead_m-1",
        "inst_1",
        "token",
        "correlation",
    )
    assert (delivery.delivery_id, delivery.instance_id) == ("dlv_1", None)
    assert unread.body == "x" * 500
    assert [one.stops for one in (step, delivery, unread)] == [Queue.CREATE, None, None]


@pytest.mark.parametrize(
    ("record", "queue", "dead"),
    [
        (new_instance(Status.CREATING), Queue.CREATE, True),
        (new_instance(Status.CREATING), Queue.STARTUP, False),
        (new_instance(Status.STARTING), Queue.MONITOR, False),
        (new_instance(Status.HEALTH_CHECKING), Queue.STARTUP, True),
        (new_instance(Status.STARTING, operation=new_operation(Action.START)), Queue.MONITOR, False),
        (new_instance(Status.DELETING, tasks=(new_task(),)), Queue.MONITOR, False),
        (new_instance(Status.RUNNING), Queue.CREATE, False),
    ],
)
def test_a_message_that_dies_fails_what_it_was_to_create_or_check(
    record: Instance, queue: Queue, dead: bool
) -> None:
    decision = decide(record, DeadLettered(queue, FAULT), NOW, POLICY)

    assert (decision.record.status is Status.FAILED) is dead
    assert (decision.record.error == FAULT) is dead
    assert [event.type for event in decision.events][:1] == (["instance.failed"] if dead else [])


def test_what_never_was_ready_is_then_deleted_and_what_was_is_stopped() -> None:
    first = decide(new_instance(Status.HEALTH_CHECKING), DeadLettered(Queue.STARTUP, FAULT), NOW, POLICY)
    started = new_instance(Status.HEALTH_CHECKING, ready_at=ago(900), operation=new_operation(Action.START))
    later = decide(started, DeadLettered(Queue.STARTUP, FAULT), NOW, POLICY)

    assert [task.action for task in first.record.cleanup.tasks] == [Action.DELETE]
    assert [task.action for task in later.record.cleanup.tasks] == [Action.STOP]
    assert [event.type for event in later.events] == ["instance.failed", "startup.failed"]


def test_a_purchase_that_may_have_been_made_is_looked_for_before_anything_rests() -> None:
    record = new_instance(Status.CREATING, unsettled=True, purchases=1)

    decision = decide(record, DeadLettered(Queue.CREATE, FAULT), NOW, POLICY)

    assert decision.record.status is Status.FAILED
    assert decision.call == ReadPurchases()


def test_an_instance_begins_again_like_a_new_one_and_keeps_its_books() -> None:
    record = failed(
        machine_id=OWN,
        gone=(OWN,),
        purchases=2,
        ready_at=ago(900),
        seen_at=ago(800),
        endpoints=(),
        bought_at=ago(950),
        novita_status="removed",
    )

    decision = again(record)

    after = decision.record
    assert (after.status, after.error, after.machine.id, after.ready_at) == (
        Status.CREATING,
        None,
        None,
        None,
    )
    assert (after.created_at, after.purchases.count, after.cleanup.gone) == (record.created_at, 2, (OWN,))
    assert after.deadline_at == NOW + POLICY.purchase_wait
    assert after.next_check_at == NOW
    assert (after.version, after.token) == (record.version, record.token)
    (event,) = decision.events
    assert (event.type, event.sequence, event.actor) == ("instance.creating", record.sequence + 1, "key_1")


def test_the_machine_of_its_former_life_is_not_taken_for_the_new_one() -> None:
    record = again(failed(machine_id=OWN, gone=(OWN,), purchases=1)).record
    former = new_purchase(PurchaseOutcome.BOUGHT, machine_id=OWN)

    decision = decide(record, PurchasesRead((former,)), NOW, POLICY)

    assert decision.call == Buy()
    assert decision.record.status is Status.CREATING


@pytest.mark.parametrize(
    ("record", "why"),
    [
        (new_instance(Status.RUNNING), "is running, not failed"),
        (new_instance(Status.TERMINATED, gone=(OWN,)), "is terminated, not failed"),
        (failed(machine_id=OWN), f"has the machine {OWN}"),
        (failed(tasks=(CleanupTask("m-2", Action.DELETE, ago(9)),)), "has not settled yet"),
        (failed(unsettled=True), "has not settled yet"),
        (failed(spec=new_spec(template_id="")), "was imported"),
    ],
)
def test_an_instance_that_cannot_begin_again_says_why(record: Instance, why: str) -> None:
    with pytest.raises(Conflict, match=why) as refused:
        again(record)

    assert refused.value.code == "NOT_REDRIVABLE"


def test_what_never_counted_as_gone_cannot_be_back() -> None:
    record = new_instance(Status.RUNNING, next_check_at=None)

    assert decide(record, Reappeared(new_machine("running"), NOW), NOW, POLICY).record == record


@pytest.mark.parametrize("status", [Status.RUNNING, Status.TERMINATED])
def test_a_second_machine_is_announced_when_it_is_first_given_back(status: Status) -> None:
    record = new_instance(status, unsettled=True, gone=(OWN,) if status is Status.TERMINATED else ())
    second = replace(new_purchase(PurchaseOutcome.BOUGHT, machine_id="m-2"), number=2)

    decision = decide(record, PurchasesRead((second,)), NOW, POLICY)
    repeated = decide(decision.record, PurchasesRead((second,)), NOW + timedelta(seconds=5), POLICY)

    assert [event.type for event in decision.events] == ["orphan.detected"]
    assert decision.events[0].reason == "surplus machine m-2 is being deleted"
    assert repeated.events == ()


def test_numbers_of_purchases_go_on_after_one_that_the_sweep_entered() -> None:
    record = new_instance(Status.CREATING, machine_id=None, purchases=1)
    entered = replace(new_purchase(PurchaseOutcome.ABSENT), number=7)

    assert decide(record, PurchasesRead((entered,)), NOW, POLICY).record.purchases.count == 7
