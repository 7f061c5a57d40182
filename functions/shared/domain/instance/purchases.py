"""What follows from an instance's purchases: adopt, give back, look up, write off, buy."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

from functions.shared.domain.instance.billing import meter_bought, meter_reappeared
from functions.shared.domain.instance.decision import Decision
from functions.shared.domain.instance.machine import Machine
from functions.shared.domain.instance.observations import Buy, FindByName, PurchasesRead, WriteOffPurchase
from functions.shared.domain.instance.progress import give_up_buying, give_up_machine
from functions.shared.domain.instance.record import Action, Instance, Purchase, PurchaseOutcome
from functions.shared.domain.instance.status import Status

_REFUSAL_HOLDS = timedelta(seconds=60)  # an offer refused for capacity is not asked for again so soon
_LONGEST_CALL = timedelta(seconds=60)  # from the intent to an answer; what took longer was looked up


def refused_offers(purchases: Iterable[Purchase], now: datetime) -> frozenset[tuple[str, str]]:
    """Product and region of the offers that Novita had no room for just now."""
    return frozenset(
        (one.product_id, one.region)
        for one in purchases
        if one.short_of_capacity and one.ended_at and one.ended_at > now - _REFUSAL_HOLDS
    )


def intend(decision: Decision, purchase: Purchase) -> Decision:
    """A create call is about to be made. Due when its lease ends: whoever makes it may die before it is
    known what became of it."""
    decision = decision.change_purchases(
        count=purchase.number, unsettled=True, reasons=purchase.reasons, price=purchase.price
    )
    return decision.due(purchase.lease_until).commit()


def region_reasons(reasons: Sequence[tuple[str, str]]) -> dict[str, Any] | None:
    """As they are told, in events and errors alike."""
    return {"regions": dict(reasons)} if reasons else None


def still_buying(record: Instance | None) -> bool:
    return record is not None and record.status is Status.CREATING


def may_buy(record: Instance) -> bool:
    """Not while it has a machine that is being given back for another."""
    return still_buying(record) and record.live_machine_id is None


def purchases_read(decision: Decision, read: PurchasesRead) -> Decision:
    # One that the sweep recorded for a machine it found counts too: no two have the same number.
    highest = max((purchase.number for purchase in read.purchases), default=0)
    decision = decision.change_purchases(count=max(decision.record.purchases.count, highest))
    for purchase in read.purchases:
        if purchase.outcome is PurchaseOutcome.BOUGHT and purchase.machine_id:
            decision = _bought(decision, purchase, purchase.machine_id, read)
    decision = give_up_buying(decision)
    open_ones = [purchase for purchase in read.purchases if not purchase.settled]
    if leases := [one.lease_until for one in open_ones if one.under_way(decision.now)]:
        return _later(decision, min(leases))
    if open_ones:
        return decision.ask(FindByName(open_ones[0]))
    decision = decision.change_purchases(unsettled=False, read_at=decision.step)
    return decision.ask(Buy()) if may_buy(decision.record) else decision


def name_not_listed(decision: Decision, purchase: Purchase, began: datetime) -> Decision:
    """Not in the list: twice after the settling time, that means there is no such machine."""
    shows_by, policy = purchase.unclear_since + decision.policy.settle, decision.policy
    if began < shows_by:
        return _later(decision, shows_by)
    first = decision.record.purchases.unseen_at
    if first is None or first < shows_by:
        return _later(decision.change_purchases(unseen_at=began), began + policy.gone_confirm)
    if began - first < policy.gone_confirm:
        return _later(decision, first + policy.gone_confirm)
    return decision.change_purchases(unseen_at=None).ask(WriteOffPurchase(purchase))


def unknown_machine(decision: Decision, machine_id: str) -> Decision:
    """A machine that turned up late: the purchases decide whose it is; one too many is given back."""
    if machine_id == decision.record.machine.id:
        return decision
    return decision.change_purchases(unsettled=True)


def reappeared(decision: Decision, machine: Machine, began: datetime) -> Decision:
    """Novita had confirmed that it was gone, and yet it is there. It is deleted only if somebody had asked
    for its end; what a failed start left behind is stopped, as that failure had it. What vanished is nobody's
    any more, and costs this instance nothing."""
    record, machine_id = decision.record, machine.id
    if machine_id not in record.cleanup.gone:
        return decision
    decision = decision.change_cleanup(gone=tuple(one for one in record.cleanup.gone if one != machine_id))
    if record.status is Status.FAILED and machine_id == record.machine.id:
        decision = meter_reappeared(decision, machine, began)
        return decision if record.spec.keep_on_failure else give_up_machine(decision)
    if machine_id not in record.cleanup.vanished:
        return _give_back(meter_reappeared(decision, machine, began), machine_id)
    return decision.add_event(
        "orphan.detected", f"machine {machine_id} is back; nobody had asked for its end"
    )


def _give_back(decision: Decision, machine_id: str) -> Decision:
    """Announced where nobody would expect it: beside the instance's own machine, or after the end."""
    record = decision.record
    cleaning = decision.add_cleanup(machine_id, Action.DELETE)
    has_one = record.live_machine_id not in (None, machine_id)
    if cleaning is decision or not (has_one or record.status is Status.TERMINATED):
        return cleaning
    return cleaning.add_event("orphan.detected", f"surplus machine {machine_id} is being deleted")


def wants_machine(record: Instance) -> bool:
    """Whether one that turns out bought is taken: by one that waits for it, or is to keep what it has."""
    kept = record.status is Status.FAILED and record.spec.keep_on_failure
    return record.live_machine_id is None and (still_buying(record) or kept)


def _later(decision: Decision, at_most: datetime) -> Decision:
    """Nothing to settle for now. An instance with other business goes on with that."""
    decision = decision.change_purchases(read_at=decision.step, unsettled=True)
    if not may_buy(decision.record):
        return decision
    return decision.wait_until(min(at_most, decision.now + decision.policy.poll))


def _bought(decision: Decision, purchase: Purchase, machine_id: str, read: PurchasesRead) -> Decision:
    record = decision.record
    if machine_id in (record.machine.id, *record.cleanup.gone, *record.cleanup.released):
        return decision
    if record.cleanup.task(machine_id):  # it is being given back already: too late to be adopted
        return decision
    bought_at = purchase.ended_at or decision.now
    late = bought_at - purchase.intended_at >= _LONGEST_CALL  # it turned out long after it was bought
    decision = meter_bought(decision, purchase, machine_id, purchase.intended_at if late else bought_at)
    if not wants_machine(record):
        return _give_back(decision, machine_id)
    # In this very step: there is nothing to see yet. One that turned up late may run already.
    just_now = bought_at >= decision.step and not late
    decision = decision.change_machine(
        id=machine_id,
        region=purchase.region or record.machine.region,
        product_id=purchase.product_id or record.machine.product_id,
        price=purchase.price,
        expects_endpoints=purchase.expects_endpoints,
        billing_mode=purchase.billing_mode,
        untried=record.recovery is not None,
        bought_at=bought_at,
        seen_at=bought_at,
        acted_at=bought_at,
        boot=read.boot if just_now else None,
        looked_at=decision.step if just_now else record.machine.looked_at,
    ).own(machine_id)
    if record.status is Status.FAILED:
        return decision
    asked_wait = record.spec.boot_wait_seconds
    wait = decision.policy.boot_wait if asked_wait is None else timedelta(seconds=asked_wait)
    return decision.move(Status.STARTING, data=region_reasons(purchase.reasons), deadline_at=bought_at + wait)
