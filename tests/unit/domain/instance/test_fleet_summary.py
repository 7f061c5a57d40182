"""What the index of the fleet carries is enough to count, to sum and to judge, without reading the record."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from functions.shared.domain.instance.fleet import FleetSummary, fleet_summary, read_summary
from functions.shared.domain.instance.machine import Endpoint
from functions.shared.domain.instance.record import Action, CleanupTask, Instance, Refusal
from functions.shared.domain.instance.status import Status
from functions.shared.domain.money.caps import committed
from functions.shared.domain.money.ledger import Ledger, LineKind, Meter
from tests.unit.builders import NOW, OWN, after, ago, new_instance, new_spec

BEGAN = ago(3000) + timedelta(microseconds=123457)


def counting(**changes: Any) -> Ledger:
    meter = Meter(OWN, Decimal("0.35"), region="CN-HK-01", kind=LineKind.RUNNING, since=BEGAN, confirmed=True)
    return Ledger((replace(meter, **changes),), tags=(("team", "a"),), entries=7)


def read(record: Instance) -> FleetSummary:
    return read_summary(fleet_summary(record))


@pytest.mark.parametrize("status", Status)
def test_it_says_what_is_counted_and_what_is_committed(status: Status) -> None:
    record = new_instance(status, ready_at=ago(30))
    stuck = CleanupTask(OWN, Action.DELETE, NOW, refusal=Refusal(ago(900), 3, after(60), announced=True))
    missing = replace(record, machine=replace(record.machine, missing_since=ago(30)))

    assert read(record).machine_id == record.live_machine_id
    assert read(missing).missing == missing.missing
    assert read(new_instance(status, tasks=(stuck,))).stuck
    assert not read(record).stuck
    assert read(record).commits == committed(record)
    assert (read(replace(record, capped=True)).capped, read(record).key) == (True, record.actor)


def test_an_open_interval_goes_on_exactly_where_it_is_booked() -> None:
    record = replace(new_instance(Status.RUNNING), ledger=counting())
    booked = replace(record, ledger=counting(booked_from=BEGAN, booked_until=ago(60)))
    unknown = replace(record, ledger=counting(usd_per_hour=None))
    stopped = replace(record, ledger=counting(kind=None, since=None))
    on_its_way = replace(record, ledger=counting(confirmed=False))

    (one,) = read(record).open
    assert (one.begin, one.usd_per_hour, one.region, one.unsure) == (
        BEGAN,
        Decimal("0.35"),
        "CN-HK-01",
        False,
    )
    assert (read(record).booked, read(record).usd_per_hour) == (7, Decimal("0.35"))
    assert read(booked).open[0].begin == ago(60)
    assert (read(unknown).open[0].usd_per_hour, read(unknown).open[0].unsure) == (None, True)
    assert read(stopped).open == read(on_its_way).open == ()


def test_looks_change_nothing_of_it() -> None:
    """Else each look at what is on the move would write the index, too."""
    record = replace(new_instance(Status.STARTING, machine_id=OWN), ledger=counting())
    looked = new_instance(
        Status.STARTING,
        machine_id=OWN,
        novita_status="pulling",
        endpoints=(Endpoint(8188, "http", "https://other.example"),),
        seen_at=NOW,
        needs_look=True,
    )

    assert fleet_summary(replace(looked, ledger=counting())) == fleet_summary(record)


IMPORTED = new_spec(template_id="")


@pytest.mark.parametrize(
    ("record", "may"),
    [
        *((new_instance(status), status is not Status.TERMINATED) for status in Status),
        (new_instance(Status.FAILED, machine_id=None), False),
        (new_instance(Status.FAILED, gone=(OWN,)), False),
        (new_instance(Status.FAILED, machine_id=None, unsettled=True), True),
        (new_instance(Status.FAILED, gone=(OWN,), tasks=(CleanupTask("m-2", Action.DELETE, NOW),)), True),
        (new_instance(Status.TERMINATED, gone=(OWN,)), False),
        (new_instance(Status.TERMINATED, gone=(OWN,), vanished=(OWN,)), False),  # its mark tells whose it is
        (new_instance(Status.TERMINATED, gone=(OWN,), vanished=(OWN,), spec=IMPORTED), True),
        (new_instance(Status.TERMINATED, vanished=(OWN,), spec=IMPORTED), False),  # it is back, and was told
        (new_instance(Status.TERMINATED, tasks=(CleanupTask(OWN, Action.DELETE, NOW),)), True),
        (new_instance(Status.CREATING), True),
        (new_instance(Status.DELETING, machine_id=None), False),
        (new_instance(Status.DELETING, machine_id=None, unsettled=True), True),
    ],
)
def test_what_may_have_a_machine(record: Instance, may: bool) -> None:
    assert record.may_have_machine == may
    assert read_summary(fleet_summary(record)).machine_id == record.live_machine_id
