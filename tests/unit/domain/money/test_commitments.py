"""What an instance commits in each status, and what a cap has to say to it."""

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from functions.shared.domain.errors import SpendingRefused
from functions.shared.domain.instance.record import Action, Instance
from functions.shared.domain.instance.status import Status
from functions.shared.domain.money.caps import (
    NOTHING,
    CapLimits,
    Commitment,
    committed,
    counters,
    micros,
    require_room,
)
from tests.unit.builders import NOW, new_instance

PRICE = Decimal("0.35")


def instance(status: Status, novita_status: str = "running", **changes: Any) -> Instance:
    record = new_instance(status)
    machine = replace(record.machine, price=PRICE, novita_status=novita_status)
    return replace(record, machine=machine, **changes)


@pytest.mark.parametrize("status", [Status.RUNNING, Status.READY, Status.STARTING, Status.STOPPING])
def test_what_is_billed_commits_its_price_until_the_stop_is_confirmed(status: Status) -> None:
    record = instance(status)
    record = replace(record, machine=replace(record.machine, id="m-1"))

    assert committed(record) == Commitment(1, micros(PRICE * record.spec.gpu_num))


@pytest.mark.parametrize("status", [Status.STOPPED, Status.EXITED])
def test_what_is_off_is_an_instance_and_costs_nothing(status: Status) -> None:
    record = instance(status, "exited")
    record = replace(record, machine=replace(record.machine, id="m-1"))

    assert committed(record) == Commitment(1, 0)


def test_a_create_commits_what_was_reserved_for_it() -> None:
    record = instance(Status.CREATING)
    reserved = replace(record, purchases=replace(record.purchases, price=Decimal(2)))
    unpriced = replace(record, purchases=replace(record.purchases, price=None))

    assert committed(reserved) == Commitment(1, micros(Decimal(2) * record.spec.gpu_num))
    assert committed(unpriced) == Commitment(1, 0)


def test_what_has_ended_or_failed_without_a_machine_commits_nothing() -> None:
    failed = instance(Status.FAILED)
    failed = replace(failed, machine=replace(failed.machine, id=None))

    assert committed(instance(Status.TERMINATED)) == NOTHING
    assert committed(failed) == NOTHING


def test_a_machine_that_is_being_given_back_commits_on_unless_it_is_off() -> None:
    failed = instance(Status.FAILED)
    failed = replace(failed, machine=replace(failed.machine, id="m-1"))
    off = replace(failed, machine=replace(failed.machine, novita_status="exited"))

    assert committed(failed).hourly > 0
    assert committed(off) == Commitment(1, 0)


def test_one_whose_purchase_may_turn_up_commits_on() -> None:
    record = instance(Status.DELETING)
    open_one = replace(record.purchases, unsettled=True, price=PRICE)
    record = replace(record, machine=replace(record.machine, id=None, price=None), purchases=open_one)

    assert committed(record) == Commitment(1, micros(PRICE * record.spec.gpu_num))


def test_it_is_counted_only_where_a_cap_is_set() -> None:
    record = instance(Status.RUNNING)

    assert counters(record, deployment=False) == ()
    assert counters(replace(record, capped=True), deployment=True) == ("deployment", record.actor)


@pytest.mark.parametrize(
    ("limits", "in_use", "before", "wanted", "refused"),
    [
        (CapLimits(hourly=10), Commitment(1, 5), NOTHING, Commitment(1, 5), False),
        (CapLimits(hourly=10), Commitment(1, 6), NOTHING, Commitment(1, 5), True),
        (CapLimits(hourly=10), Commitment(1, 12), NOTHING, Commitment(1, 0), False),  # of unknown price
        (CapLimits(hourly=10), Commitment(2, 10), Commitment(1, 4), Commitment(1, 4), False),  # counted
        (CapLimits(hourly=10), Commitment(2, 12), Commitment(1, 4), Commitment(1, 4), True),  # lowered since
        (CapLimits(instances=2), Commitment(2, 0), NOTHING, Commitment(1, 0), True),
        (CapLimits(instances=2), Commitment(3, 0), Commitment(1, 0), Commitment(1, 5), False),  # a start
        (CapLimits(instances=0), NOTHING, NOTHING, Commitment(1, 0), True),
    ],
)
def test_room_is_what_the_others_leave(
    limits: CapLimits, in_use: Commitment, before: Commitment, wanted: Commitment, refused: bool
) -> None:
    if not refused:
        require_room("deployment", limits, in_use, before, wanted)
        return

    with pytest.raises(SpendingRefused, match="in use"):
        require_room("deployment", limits, in_use, before, wanted)


def test_the_actions_that_commit_are_named_by_their_decisions() -> None:
    from functions.shared.domain.instance.commands import begin_restart, begin_start, begin_stop
    from functions.shared.domain.instance.decision import Decision, Policy
    from functions.shared.domain.instance.health import HealthCheck

    off = instance(Status.STOPPED, "exited")
    off = replace(off, machine=replace(off.machine, id="m-1"))
    up = replace(off, status=Status.RUNNING)

    def decision(record: Instance) -> Decision:
        return Decision(record, NOW, Policy(), NOW)

    assert begin_start(decision(off), "op", HealthCheck()).commits
    assert not begin_restart(decision(up), "op", HealthCheck()).commits
    assert not begin_stop(decision(up), "op").commits
    assert Action.START
