"""What follows from the books: adopt, give back, look up, write off, buy."""

from datetime import datetime, timedelta

from functions.shared.domain.decision import Decision
from functions.shared.domain.instance import Action
from functions.shared.domain.observation import Buy, LookUp, WriteOff
from functions.shared.domain.purchase import Outcome, Purchase
from functions.shared.domain.status import Status


def read_books(decision: Decision, purchases: tuple[Purchase, ...]) -> Decision:
    for purchase in purchases:
        if purchase.outcome is Outcome.BOUGHT and purchase.machine_id:
            decision = _bought(decision, purchase, purchase.machine_id)
    creating = decision.record.status is Status.CREATING
    open_ones = [purchase for purchase in purchases if not purchase.settled]
    if leases := [one.lease_until for one in open_ones if one.under_way(decision.now)]:
        return _later(decision, min(leases))
    if open_ones:
        return decision.ask(LookUp(open_ones[0]))
    decision = decision.having(unsettled=False, reviewed_at=decision.step)
    return decision.ask(Buy()) if creating else decision


def not_there(decision: Decision, purchase: Purchase, began: datetime) -> Decision:
    """Not in the list: only after the settling time does that mean there is no such machine."""
    shows_by = purchase.unclear_since + decision.policy.settle
    if began >= shows_by:
        return decision.ask(WriteOff(purchase))
    return _later(decision, shows_by)


def astray(decision: Decision, machine_id: str, *, booked: bool) -> Decision:
    """A machine that turned up late: the books decide whose it is; one too many is given back."""
    if booked:
        return decision.having(unsettled=True)
    return decision.owe(machine_id, Action.DELETE)


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
    kept = record.status is Status.FAILED and record.spec.keep_on_failure
    if record.machine_id is not None or not (record.status is Status.CREATING or kept):
        return decision.owe(machine_id, Action.DELETE)
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
    if kept:
        return decision
    asked_wait = record.spec.boot_wait_seconds
    wait = decision.policy.boot_wait if asked_wait is None else timedelta(seconds=asked_wait)
    return decision.move(Status.STARTING, deadline_at=bought_at + wait)
