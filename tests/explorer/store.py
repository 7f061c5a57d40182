"""The table in memory: what stores/instances.py stores, under the same conditions."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from functions.shared.domain.errors import StaleInstance
from functions.shared.domain.ids import Mark
from functions.shared.domain.instance.decision import Decision
from functions.shared.domain.instance.machine import Machine
from functions.shared.domain.instance.record import Purchase, PurchaseOutcome
from functions.shared.stores.instances import _unrecorded
from tests.explorer import promises
from tests.explorer.world import Call, Message, World


def perform(world: World, call: Call) -> tuple[World, Any]:
    match call.kind:
        case "save":
            return _save(world, call.value)
        case "intend":
            decision, purchase = call.value
            if world.purchase(purchase.number) is not None:
                return world, StaleInstance(world.record.id)
            world, answer = _save(world, decision)
            return (world if isinstance(answer, StaleInstance) else world.with_purchase(purchase)), answer
        case "settle":
            return _settle(world, call.value), None
        case "note purchase":
            return _turned_out_bought(world, *call.value)
        case "read again":
            return world, world.record
    raise AssertionError(call.kind)


def _save(world: World, decision: Decision) -> tuple[World, Any]:
    """Over the version that the decision grew from; with the message that follows from it."""
    before = world.record
    used = decision.unused is not None and decision.unused.at != world.used_at
    if before.version != decision.record.version or used:
        return world, StaleInstance(before.id)
    promises.check_decision(world, decision)
    version = before.version + 1
    record = replace(decision.record, version=version, token=f"token-{version}")
    world = promises.noted(replace(world, record=record, messages=()), decision)
    return world, record


def send(world: World, token: str, delay_seconds: float) -> World:
    """One of an older token would do nothing."""
    if token != world.record.token:
        return world
    visible_at = world.now + timedelta(seconds=max(delay_seconds, 0))
    return replace(world, messages=(*world.messages, Message(visible_at))[-2:])


def _settle(world: World, purchase: Purchase) -> World:
    known = world.purchase(purchase.number)
    if known is None or known.settled:
        return world
    promises.check_settled(world, purchase)
    return world.with_purchase(purchase)


def _turned_out_bought(
    world: World, mark: Mark, machine: Machine, seen_at: datetime, wanted: bool
) -> tuple[World, bool]:
    found = world.purchase(mark.purchase)
    if found is None and not wanted:
        return world, False
    purchase = found or _unrecorded(mark, machine, seen_at)
    if purchase.outcome is PurchaseOutcome.BOUGHT:
        return world, purchase.machine_id == machine.id
    bought = replace(purchase, outcome=PurchaseOutcome.BOUGHT, machine_id=machine.id, ended_at=seen_at)
    return world.with_purchase(bought), True
