"""The ledger follows what is learned of an instance's machines: bought, started, seen, gone."""

from dataclasses import replace
from datetime import datetime
from decimal import Decimal

from functions.shared.domain.instance.decision import Decision
from functions.shared.domain.instance.machine import Machine
from functions.shared.domain.instance.record import Instance, Purchase
from functions.shared.domain.instance.status import OFF, OVER, Status
from functions.shared.domain.money.ledger import Ledger, Meter, Sighting, storage_per_hour

# Novita's word that a machine is stopped is then believed at once: nobody waits for it to come up.
_NOT_COMING_UP = OFF | OVER | {Status.STOPPING}


def meter_bought(decision: Decision, purchase: Purchase, machine_id: str, at: datetime) -> Decision:
    """Also one that is given back at once: it costs money until it is gone."""
    meter = _meter(decision.record, machine_id, purchase.price, purchase.product_id, purchase.region)
    return _change(decision, decision.record.ledger.add(meter).expect(machine_id, at))


def meter_imported(decision: Decision, machine: Machine) -> Decision:
    """Counted from now on: what it cost before is not this instance's."""
    meter = _meter(decision.record, machine.id, machine.price, machine.product_id, machine.region)
    meter = replace(meter, guessed_price=True, ended_at=decision.now)
    return _see(_change(decision, decision.record.ledger.add(meter)), machine, decision.now)


def meter_started(decision: Decision, machine_id: str, at: datetime) -> Decision:
    """Novita took our start."""
    return _change(decision, decision.record.ledger.expect(machine_id, at))


def meter_seen(decision: Decision, machine: Machine, began: datetime) -> Decision:
    record = decision.record
    if record.ledger.meter(machine.id) is None:
        if machine.id != record.live_machine_id:
            return decision
        decision = _meter_late(decision, began)
    return _see(decision, machine, began)


def _meter_late(decision: Decision, began: datetime) -> Decision:
    """Of a record that a version without a ledger has stored, or of a machine that was taken for gone: from
    when it was last started, as far as that is known. What it cost before that nobody knows."""
    record, known = decision.record, decision.record.machine
    meter = _meter(record, known.id or "", known.price, known.product_id or "", known.region or "")
    ledger = replace(record.ledger, estimated=True).add(meter)
    if record.status not in OFF:
        ledger = ledger.expect(meter.machine_id, known.acted_at or known.bought_at or began)
    return _change(decision, ledger)


def meter_reappeared(decision: Decision, machine: Machine, began: datetime) -> Decision:
    """It was taken for gone, and may have been billed all along."""
    record, own = decision.record, decision.record.machine
    meter = _meter(record, machine.id, machine.price, machine.product_id, machine.region)
    if machine.id == own.id:
        meter = _meter(record, machine.id, own.price, own.product_id or "", own.region or "")
    meter = replace(meter, guessed_price=machine.id != own.id)
    gone_at = dict(record.ledger.ended).get(machine.id, began)
    ledger = replace(record.ledger, estimated=True).add(meter).expect(machine.id, gone_at)
    return _see(_change(decision, ledger), machine, began)


def meter_ended(decision: Decision, machine_id: str, at: datetime) -> Decision:
    return _change(decision, decision.record.ledger.end(machine_id, at))


def carried(record: Instance, now: datetime) -> Instance:
    """As it is to be stored."""
    ledger = record.ledger.carry(now, record.spec.tags)
    return record if ledger == record.ledger else replace(record, ledger=ledger)


def meter_leaving(decision: Decision, machine: Machine, began: datetime) -> Decision:
    """It is being removed. It may have stopped long before, while nobody could look."""
    sighting = _sighting(decision.record, machine, began)
    return _change(decision, decision.record.ledger.see_leaving(machine.id, sighting))


def _sighting(record: Instance, machine: Machine, began: datetime) -> Sighting:
    own = machine.id == record.machine.id
    bought_at = None if record.imported else record.created_at
    if own and record.cleanup.gone:  # a later machine; the first may be older than what tells of its purchase
        bought_at = record.machine.bought_at
    return Sighting(
        machine.status,
        began,
        off=not own or record.status in _NOT_COMING_UP,
        started_at=machine.started_at,
        stopped_at=machine.stopped_at,
        bought_at=bought_at,
    )


def _see(decision: Decision, machine: Machine, began: datetime) -> Decision:
    record, sighting = decision.record, _sighting(decision.record, machine, began)
    gpus = machine.gpu_num or record.spec.gpu_num
    shown = machine.storage_price
    stored = None if shown is None else storage_per_hour(record.spec.rootfs_size, shown)
    ledger = record.ledger.price(machine.id, machine.price and machine.price * gpus, stored)
    return _change(decision, ledger.see(machine.id, sighting))


def _meter(record: Instance, machine_id: str, price: Decimal | None, product_id: str, region: str) -> Meter:
    return Meter(
        machine_id,
        None if price is None else price * record.spec.gpu_num,
        storage_per_hour(record.spec.rootfs_size, None),
        product_id=product_id,
        region=region,
    )


def _change(decision: Decision, ledger: Ledger) -> Decision:
    return decision if ledger == decision.record.ledger else decision.change(ledger=ledger)
