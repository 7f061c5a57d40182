"""What follows from an instance's purchases: adopt, give back, look up, write off, buy."""

from datetime import datetime, timedelta

from functions.shared.domain.instance.decision import Decision
from functions.shared.domain.instance.observations import Buy, FindByName, WriteOffPurchase
from functions.shared.domain.instance.progress import give_up_buying, give_up_machine
from functions.shared.domain.instance.record import Action, Instance, Purchase, PurchaseOutcome
from functions.shared.domain.instance.status import Status


def purchases_read(decision: Decision, purchases: tuple[Purchase, ...]) -> Decision:
    # One that the sweep entered for a machine it found counts too: no two have the same number.
    highest = max((purchase.number for purchase in purchases), default=0)
    decision = decision.having(purchases=max(decision.record.purchases, highest))
    for purchase in purchases:
        if purchase.outcome is PurchaseOutcome.BOUGHT and purchase.machine_id:
            decision = _bought(decision, purchase, purchase.machine_id)
    decision = give_up_buying(decision)
    creating = decision.record.status is Status.CREATING
    open_ones = [purchase for purchase in purchases if not purchase.settled]
    if leases := [one.lease_until for one in open_ones if one.under_way(decision.now)]:
        return _later(decision, min(leases))
    if open_ones:
        return decision.ask(FindByName(open_ones[0]))
    decision = decision.having(unsettled=False, reviewed_at=decision.step)
    return decision.ask(Buy()) if creating else decision


def name_not_listed(decision: Decision, purchase: Purchase, began: datetime) -> Decision:
    """Not in the list: twice after the settling time, that means there is no such machine."""
    shows_by, policy = purchase.unclear_since + decision.policy.settle, decision.policy
    if began < shows_by:
        return _later(decision, shows_by)
    first = decision.record.unseen_at
    if first is None or first < shows_by:
        return _later(decision.having(unseen_at=began), began + policy.gone_confirm)
    if began - first < policy.gone_confirm:
        return _later(decision, first + policy.gone_confirm)
    return decision.having(unseen_at=None).ask(WriteOffPurchase(purchase))


def unknown_machine(decision: Decision, machine_id: str, *, booked: bool) -> Decision:
    """A machine that turned up late: the books decide whose it is; one too many is given back."""
    if machine_id == decision.record.machine_id:
        return decision
    return decision.having(unsettled=True) if booked else _give_back(decision, machine_id)


def reappeared(decision: Decision, machine_id: str) -> Decision:
    """Novita had confirmed that it was gone, and yet it is there. It is deleted only if somebody had asked
    for its end; what a failed start left behind is stopped, as that failure had it."""
    record = decision.record
    if machine_id not in record.gone:
        return decision
    decision = decision.having(gone=tuple(one for one in record.gone if one != machine_id))
    if record.status is Status.FAILED and machine_id == record.machine_id:
        return decision if record.spec.keep_on_failure else give_up_machine(decision)
    if machine_id not in record.vanished:
        return _give_back(decision, machine_id)
    return decision.note("orphan.detected", f"machine {machine_id} is back; nobody had asked for its end")


def _give_back(decision: Decision, machine_id: str) -> Decision:
    """Announced where nobody would expect it: beside the instance's own machine, or after the end."""
    record = decision.record
    owing = decision.add_cleanup(machine_id, Action.DELETE)
    has_one = record.machine not in (None, machine_id)
    if owing is decision or not (has_one or record.status is Status.TERMINATED):
        return owing
    return owing.note("orphan.detected", f"surplus machine {machine_id} is being deleted")


def wants_machine(record: Instance) -> bool:
    """Whether one that turns out bought is taken: by one that waits for it, or is to keep what it has."""
    kept = record.status is Status.FAILED and record.spec.keep_on_failure
    return record.machine is None and (record.status is Status.CREATING or kept)


def _later(decision: Decision, at_most: datetime) -> Decision:
    """Nothing to settle for now. An instance with other business goes on with that."""
    decision = decision.having(reviewed_at=decision.step, unsettled=True)
    if decision.record.status is not Status.CREATING:
        return decision
    return decision.wait_until(min(at_most, decision.now + decision.policy.poll))


def _bought(decision: Decision, purchase: Purchase, machine_id: str) -> Decision:
    record = decision.record
    if machine_id == record.machine_id or machine_id in record.gone:
        return decision
    if not wants_machine(record):
        return _give_back(decision, machine_id)
    bought_at = purchase.ended_at or decision.now
    decision = decision.having(
        machine_id=machine_id,
        region=purchase.region or record.region,
        product_id=purchase.product_id or record.product_id,
        price=purchase.price,
        expects_endpoints=purchase.expects_endpoints,
        bought_at=bought_at,
        seen_at=bought_at,
        acted_at=bought_at,
    )
    if record.status is Status.FAILED:
        return decision
    asked_wait = record.spec.boot_wait_seconds
    wait = decision.policy.boot_wait if asked_wait is None else timedelta(seconds=asked_wait)
    return decision.move(Status.STARTING, deadline_at=bought_at + wait)
