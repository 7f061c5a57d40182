"""What follows from an instance's purchases."""

from dataclasses import replace
from datetime import datetime
from decimal import Decimal

import pytest

from functions.shared.domain.instance.commands import begin_delete
from functions.shared.domain.instance.decide import decide
from functions.shared.domain.instance.observations import (
    Act,
    Buy,
    CheckHealth,
    FindByName,
    Look,
    NameNotListed,
    NotFoundById,
    PurchasesRead,
    ReadPurchases,
    Reappeared,
    Tick,
    UnknownMachine,
    WriteOffPurchase,
)
from functions.shared.domain.instance.record import Action, Purchase, PurchaseOutcome
from functions.shared.domain.instance.status import Status
from functions.shared.domain.money.ledger import Ledger
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
    new_purchase,
    new_spec,
    new_task,
)
from tests.unit.domain.instance.promises import call_once_stored

CREATING = new_instance(Status.CREATING, deadline_at=after(600))
UNSETTLED = changed(CREATING, unsettled=True, purchases=1)
INTENDED, UNCLEAR = new_purchase(PurchaseOutcome.INTENDED), new_purchase(PurchaseOutcome.UNCLEAR)
BOUGHT, REFUSED, ABSENT = (
    new_purchase(PurchaseOutcome.BOUGHT),
    new_purchase(PurchaseOutcome.REFUSED),
    new_purchase(PurchaseOutcome.ABSENT),
)
WITHOUT_CREATING = sorted(set(Status) - {Status.CREATING})


def reappeared(machine_id: str = OWN) -> Reappeared:
    return Reappeared(new_machine("running", machine_id, price=Decimal("0.5")), NOW)


@pytest.mark.parametrize("settled", [(), (REFUSED,), (ABSENT,), (REFUSED, ABSENT)])
def test_with_every_purchase_settled_and_none_bought_one_is_made(settled: tuple[Purchase, ...]) -> None:
    decision = decide(UNSETTLED, PurchasesRead(settled), NOW, POLICY)

    assert decision.call == Buy()
    assert not decision.record.purchases.unsettled


def test_while_a_purchase_is_under_way_nobody_buys() -> None:
    decision = decide(CREATING, PurchasesRead((REFUSED, INTENDED)), NOW, POLICY)

    assert decision.call is None
    assert decision.record.purchases.unsettled
    assert decision.record.next_check_at == after(30)


def test_the_end_of_a_lease_is_waited_for_no_longer_than_that() -> None:
    soon = replace(INTENDED, lease_until=after(3))

    decision = decide(UNSETTLED, PurchasesRead((soon,)), NOW, POLICY)

    assert decision.record.next_check_at == after(3)


@pytest.mark.parametrize("purchase", [UNCLEAR, replace(INTENDED, lease_until=NOW)])
def test_an_unclear_purchase_or_one_whose_buyer_is_dead_is_looked_up(purchase: Purchase) -> None:
    decision = decide(UNSETTLED, PurchasesRead((purchase,)), NOW, POLICY)

    assert decision.call == FindByName(purchase)


def test_not_there_within_the_settling_time_waits() -> None:
    unclear = replace(UNCLEAR, ended_at=ago(119))

    decision = decide(UNSETTLED, NameNotListed(unclear, NOW), NOW, POLICY)

    assert decision.call is None
    assert decision.record.purchases.unsettled
    assert decision.record.next_check_at == after(1)


def test_not_there_twice_after_the_settling_time_is_written_off() -> None:
    unclear = replace(UNCLEAR, ended_at=ago(140))
    abandoned = replace(INTENDED, lease_until=ago(140))
    looked_for = changed(UNSETTLED, unseen_at=ago(10))

    for purchase in (unclear, abandoned):
        assert decide(looked_for, NameNotListed(purchase, NOW), NOW, POLICY).call == WriteOffPurchase(
            purchase
        )


@pytest.mark.parametrize("before", [None, ago(9), ago(30)])
def test_not_there_once_or_too_soon_after_another_is_looked_up_again(before: datetime | None) -> None:
    """30 s ago the settling time was not over, so that one does not count."""
    purchase = replace(UNCLEAR, ended_at=ago(140))

    decision = decide(changed(UNSETTLED, unseen_at=before), NameNotListed(purchase, NOW), NOW, POLICY)

    assert decision.call is None
    assert decision.record.purchases.unsettled
    assert decision.record.purchases.unseen_at == (ago(9) if before == ago(9) else NOW)


def test_a_look_up_that_began_before_the_settling_time_was_over_writes_nothing_off() -> None:
    unclear = replace(UNCLEAR, ended_at=ago(120))

    decision = decide(UNSETTLED, NameNotListed(unclear, ago(1)), NOW, POLICY)

    assert decision.call is None


def test_a_bought_machine_is_the_instances_and_its_boot_is_timed_from_then() -> None:
    decision = decide(
        UNSETTLED, PurchasesRead((REFUSED, replace(BOUGHT, number=2, region="EU"))), NOW, POLICY
    )

    record = decision.record
    assert (record.status, record.machine.id, record.machine.region) == (Status.STARTING, OWN, "EU")
    assert record.machine.bought_at == record.machine.acted_at == ago(60)
    assert record.deadline_at == ago(60) + POLICY.boot_wait
    assert not record.purchases.unsettled
    assert decision.call == Look(OWN)


def test_the_requests_own_wait_goes_before_the_settings() -> None:
    record = replace(UNSETTLED, spec=new_spec(boot_wait_seconds=90.0))

    assert decide(record, PurchasesRead((BOUGHT,)), NOW, POLICY).record.deadline_at == after(30)


def test_of_two_that_turn_up_one_is_adopted_and_the_other_given_back() -> None:
    second = replace(BOUGHT, number=2, machine_id="m-2")

    decision = decide(UNSETTLED, PurchasesRead((BOUGHT, second)), NOW, POLICY)

    assert decision.record.machine.id == OWN
    assert [(task.machine_id, task.action) for task in decision.record.cleanup.tasks] == [
        ("m-2", Action.DELETE)
    ]
    assert call_once_stored(decision) == Act(Action.DELETE, "m-2")


@pytest.mark.parametrize("status", WITHOUT_CREATING)
def test_nobody_buys_for_an_instance_that_is_not_creating(status: Status) -> None:
    record = new_instance(status, unsettled=True, machine_id=None)

    for purchases in ((), (REFUSED,), (ABSENT,)):
        decision = decide(record, PurchasesRead(purchases), NOW, POLICY)

        assert decision.call != Buy()
        assert not decision.record.purchases.unsettled


@pytest.mark.parametrize("status", [Status.DELETING, Status.TERMINATED, Status.FAILED])
def test_one_that_turns_out_bought_too_late_is_given_back(status: Status) -> None:
    record = new_instance(status, unsettled=True, machine_id=None)

    decision = decide(record, PurchasesRead((BOUGHT,)), NOW, POLICY)

    assert call_once_stored(decision) == Act(Action.DELETE, OWN)
    assert decision.record.status is status
    assert not decision.record.at_rest


def test_one_that_turns_out_bought_on_a_failed_instance_that_keeps_is_its_machine() -> None:
    record = new_instance(Status.FAILED, unsettled=True, machine_id=None, spec=new_spec(keep_on_failure=True))

    decision = decide(record, PurchasesRead((BOUGHT,)), NOW, POLICY)

    assert (decision.record.status, decision.record.machine.id) == (Status.FAILED, OWN)
    assert decision.record.at_rest


def test_what_is_gone_is_neither_adopted_nor_given_back_again() -> None:
    redriven = changed(UNSETTLED, machine_id=OWN, gone=(OWN,))

    same = decide(redriven, PurchasesRead((BOUGHT,)), NOW, POLICY)
    another = decide(
        redriven, PurchasesRead((BOUGHT, replace(BOUGHT, number=2, machine_id="m-2"))), NOW, POLICY
    )

    assert same.call == Buy()
    assert (another.record.machine.id, another.record.cleanup.tasks) == ("m-2", ())


@pytest.mark.parametrize("status", [Status.DELETING, Status.FAILED, Status.RUNNING, Status.TERMINATED])
def test_an_instance_stays_due_while_a_purchase_may_turn_out_bought(status: Status) -> None:
    record = new_instance(status, unsettled=True, gone=(OWN,))

    for open_one in (INTENDED, UNCLEAR):
        looked_up = decide(record, PurchasesRead((open_one,)), NOW, POLICY)
        decision = decide(record, NameNotListed(open_one, NOW), NOW, POLICY) if looked_up.call else looked_up

        assert decision.record.status is status
        assert decision.record.purchases.unsettled
        assert decision.record.next_check_at == after(30)


def test_a_machine_found_by_its_mark_makes_the_instance_read_its_purchases() -> None:
    for status in Status:
        record = new_instance(status, gone=(OWN,) if status is Status.TERMINATED else ())

        decision = decide(record, UnknownMachine("m-late"), NOW, POLICY)

        # A round of health checks that is next has its turn first; the monitor reads them after it.
        expected = CheckHealth() if status is Status.HEALTH_CHECKING else ReadPurchases()
        assert decision.call == expected
        assert decision.record.purchases.unsettled


def test_its_own_machine_is_never_unknown_to_it() -> None:
    own = decide(new_instance(Status.RUNNING), UnknownMachine(OWN), NOW, POLICY)

    assert own.record.cleanup.tasks == ()
    assert own.record.at_rest


def test_a_machine_that_was_released_is_not_given_back_when_the_purchases_are_read() -> None:
    record = new_instance(Status.TERMINATED, released=(OWN,), machine_id=None, unsettled=True)

    decision = decide(record, PurchasesRead((BOUGHT,)), NOW, POLICY)

    assert (decision.record.cleanup.tasks, decision.call, decision.record.at_rest) == ((), None, True)


@pytest.mark.parametrize("status", [Status.TERMINATED, Status.FAILED, Status.DELETING])
def test_a_machine_that_was_deleted_and_comes_back_is_deleted_again(status: Status) -> None:
    record = new_instance(status, gone=(OWN, "m-2"))

    decision = decide(record, reappeared(), NOW, POLICY)

    assert call_once_stored(decision) == Act(Action.DELETE, OWN)
    assert decision.record.cleanup.gone == ("m-2",)
    assert decide(record, reappeared("m-3"), NOW, POLICY).record.cleanup.gone == (OWN, "m-2")


def test_a_machine_that_vanished_and_comes_back_is_told_of_once_and_never_deleted() -> None:
    missed = {"first_missed_at": ago(90000), "last_missed_at": ago(600), "missed_seconds": 89000.0}
    record = new_instance(Status.READY, next_check_at=None, seen_at=ago(90001), **missed)
    ended = decide(changed(record, acted_at=ago(90002)), NotFoundById(OWN, ago(1)), NOW, POLICY).record
    assert (ended.status, ended.cleanup.vanished) == (Status.TERMINATED, (OWN,))

    decision = decide(ended, reappeared(), after(60), POLICY)

    assert (decision.call, decision.record.cleanup.tasks, decision.record.at_rest) == (None, (), True)
    assert [event.type for event in decision.events] == ["orphan.detected"]
    assert decide(decision.record, reappeared(), after(120), POLICY).events == ()


@pytest.mark.parametrize(("machine_id", "price"), [(OWN, Decimal("0.36")), ("m-2", Decimal("0.5"))])
def test_a_machine_that_was_taken_for_gone_is_counted_on_from_then_when_it_is_back(
    machine_id: str, price: Decimal
) -> None:
    """It may have been billed all along; its price is that of its purchase, or what Novita shows."""
    ledger = Ledger(ended=((machine_id, ago(600)),))
    record = new_instance(Status.TERMINATED, gone=(machine_id,), price=Decimal("0.36"), ledger=ledger)

    (meter,) = decide(record, reappeared(machine_id), NOW, POLICY).record.ledger.meters

    assert (meter.machine_id, meter.since, meter.unsure) == (machine_id, ago(600), True)
    assert meter.usd_per_hour == price


def test_a_machine_that_vanished_costs_nothing_more_when_it_is_back() -> None:
    record = new_instance(Status.TERMINATED, gone=(OWN,), vanished=(OWN,))

    assert decide(record, reappeared(), NOW, POLICY).record.ledger.meters == ()


def test_a_machine_that_vanished_is_deleted_on_its_return_if_somebody_asked_for_that_since() -> None:
    record = new_instance(Status.FAILED, gone=(OWN,), vanished=(OWN,), ready_at=ago(900))
    asked = begin_delete(deciding(record), "op_1").record

    decision = decide(asked, reappeared(), NOW, POLICY)

    assert call_once_stored(decision) == Act(Action.DELETE, OWN)


@pytest.mark.parametrize(("ready_at", "action"), [(None, Action.DELETE), (ago(900), Action.STOP)])
def test_what_a_failed_boot_left_behind_is_given_up_as_that_failure_had_it(
    ready_at: datetime | None, action: Action
) -> None:
    record = new_instance(Status.FAILED, gone=(OWN,), vanished=(OWN,), ready_at=ready_at)

    assert call_once_stored(decide(record, reappeared(), NOW, POLICY)) == Act(action, OWN)


def test_an_end_that_nobody_asked_for_does_not_take_the_machine_that_came_back() -> None:
    """Another machine was still to be given back when this one vanished."""
    record = new_instance(Status.DELETING, vanished=(OWN,))

    decision = decide(record, Tick(), NOW, POLICY)

    assert (decision.record.status, decision.call) == (Status.TERMINATED, None)


def test_a_kept_machine_that_comes_back_is_kept() -> None:
    record = new_instance(Status.FAILED, gone=(OWN,), spec=new_spec(keep_on_failure=True))

    decision = decide(record, reappeared(), NOW, POLICY)

    assert (decision.record.cleanup.gone, decision.record.cleanup.tasks, decision.call) == ((), (), None)


def test_a_machine_that_is_being_given_back_is_not_adopted_any_more() -> None:
    """It reappeared after a failed boot, and somebody had redriven the instance meanwhile."""
    record = new_instance(Status.CREATING, tasks=(new_task(machine_id=OWN),), unsettled=True)

    decision = decide(record, PurchasesRead((BOUGHT,)), NOW, POLICY)

    assert decision.record.machine.id is None
    assert (decision.record.status, decision.call) == (Status.CREATING, Buy())


def test_a_clean_up_task_is_not_added_twice() -> None:
    held = new_task(machine_id="m-2", asked_at=ago(60))
    record = new_instance(Status.RUNNING, unsettled=True, tasks=(held,))

    decision = decide(record, PurchasesRead((replace(BOUGHT, machine_id="m-2"),)), NOW, POLICY)

    assert decision.record.cleanup.tasks == (held,)
