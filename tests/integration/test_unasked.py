"""The check that nothing ended unasked: each excuse holds for its own end, and for no other."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from functions.shared.domain.instance.health import HealthCheck
from functions.shared.domain.instance.record import Action, Event, Operation, Purchase, PurchaseOutcome
from functions.shared.domain.instance.status import Status
from tests.unasked import End, History, unasked
from tests.unit.builders import NOW, OWN, after, changed, new_instance, new_spec

LATE = 3600.0


def history(*types: str, **changes: Any) -> History:
    """Events of these types, ten minutes apart; `type:reason` has a reason."""
    record = changed(new_instance(Status.RUNNING), **changes)
    events = [
        Event(
            record.id,
            number,
            type_.partition(":")[0],
            after(600 * number),
            record.status,
            "system",
            "correlation",
            machine_id=None if type_ == "instance.creating" else OWN,
            reason=type_.partition(":")[2] or None,
        )
        for number, type_ in enumerate(types, 1)
    ]
    return History(record, events)


def operation(kind: Action, seconds: float, ended: float | None = None) -> Operation:
    status = "initiated" if ended is None else "completed"
    phases = (("initiated", after(seconds)), *([("completed", after(ended))] if ended is not None else []))
    return Operation("op", kind, status, "key", after(seconds), phases=phases)


def end(action: Action, seconds: float, machine_id: str = OWN) -> End:
    return End(machine_id, action, after(seconds))


CREATED = ("instance.creating", "instance.starting")
FAILED_BOOT = (*CREATED, "instance.failed")  # at 1800 s
STARTED = (*CREATED, "instance.running", "instance.exited", "startup.initiated", "instance.failed")  # at 3600
STOP, DELETE = Action.STOP, Action.DELETE


@pytest.mark.parametrize(
    ("begun", "asked", "ended", "explained"),
    [
        (operation(STOP, 0), STOP, 0, True),
        (operation(STOP, 0), STOP, LATE, True),
        (operation(STOP, 60), STOP, 0, True),  # by a clock that is behind
        (operation(STOP, 600), STOP, 0, False),  # before anybody asked
        (operation(STOP, 0), DELETE, 0, False),
        (operation(STOP, 0, ended=60), STOP, 90, True),  # by a step that was under way
        (operation(STOP, 0, ended=60), STOP, LATE, False),
        (operation(DELETE, 0, ended=60), DELETE, LATE, True),  # it was back, and deleted again
        (operation(DELETE, 0), STOP, 0, False),
        (operation(Action.START, 0), STOP, 0, False),
    ],
)
def test_what_was_asked_for_explains_that_end_and_not_before(
    begun: Operation, asked: Action, ended: float, explained: bool
) -> None:
    told = replace(history(*CREATED), operations=[begun])

    assert told.explains(end(asked, ended)) is explained


@pytest.mark.parametrize(
    ("told", "ended", "explained"),
    [
        (history(*FAILED_BOOT), end(DELETE, 1800), True),
        (history(*FAILED_BOOT), end(DELETE, 1800 + LATE), True),
        (history(*FAILED_BOOT), end(DELETE, 1200), False),  # before it failed
        (history(*FAILED_BOOT), end(DELETE, 1800, "m-another"), False),
        (history(*FAILED_BOOT), end(STOP, 1800), False),
        (history(*FAILED_BOOT, spec=new_spec(keep_on_failure=True)), end(DELETE, 1800), False),
        (history(*STARTED), end(STOP, 3600), True),
        (history(*STARTED), end(DELETE, 3600), False),  # its disk is kept
        (history(*STARTED, "startup.initiated"), end(STOP, 3700), True),
        (history(*STARTED, "startup.initiated"), end(STOP, 4200 + LATE), False),  # somebody wanted it since
        (history(*CREATED, "instance.running", "instance.failed"), end(DELETE, 2400), False),
        (
            history(
                *CREATED,
                "instance.running",
                "instance.failed",
                spec=new_spec(health_check=HealthCheck()),
            ),
            end(DELETE, 2400),
            True,  # it runs, and never was ready
        ),
        (history(*CREATED, "instance.running"), end(STOP, 1800), False),
    ],
)
def test_a_boot_that_failed_explains_the_end_of_its_machine(
    told: History, ended: End, explained: bool
) -> None:
    assert told.explains(ended) is explained


def bought(machine_id: str) -> Purchase:
    outcome = PurchaseOutcome.BOUGHT
    return Purchase("inst", 2, "name", outcome, NOW, NOW, machine_id=machine_id, ended_at=NOW)


@pytest.mark.parametrize(
    ("told", "purchases", "ended", "explained"),
    [
        (history("orphan.detected:surplus machine m-2"), [bought("m-2")], end(DELETE, 600, "m-2"), True),
        (history("orphan.detected:surplus machine m-2"), [], end(DELETE, 600, "m-2"), False),
        (history("orphan.detected:surplus machine m-2"), [bought("m-2")], end(STOP, 600, "m-2"), False),
        (history("instance.running"), [bought("m-2")], end(DELETE, 600, "m-2"), False),  # nobody was told
        (history("instance.failed"), [bought("m-2")], end(DELETE, 600, "m-2"), True),
        (history("orphan.detected:surplus machine m-own"), [bought(OWN)], end(DELETE, 600), False),
    ],
)
def test_a_purchase_explains_the_end_of_one_too_many_that_was_announced(
    told: History, purchases: list[Purchase], ended: End, explained: bool
) -> None:
    assert replace(told, purchases=purchases).explains(ended) is explained


def test_what_was_released_is_touched_no_more() -> None:
    told = history(*CREATED, "instance.deleting:released", released=(OWN,))
    told.operations.append(operation(DELETE, 0))

    assert told.explains(end(DELETE, 1800))
    assert not told.explains(end(DELETE, 1800 + LATE))


@pytest.mark.parametrize(
    ("ended", "owners", "orphans", "named"),
    [
        (end(DELETE, LATE), [History()], {OWN: after(LATE)}, 0),
        (end(DELETE, LATE), [History()], {}, 1),  # orphans are kept
        (end(DELETE, 0), [History()], {OWN: after(LATE)}, 1),  # too early
        (end(STOP, LATE), [History()], {OWN: NOW}, 1),
        (end(DELETE, LATE), [], {OWN: NOW}, 1),  # not even our mark
        (end(DELETE, LATE), [history(*CREATED)], {OWN: NOW}, 1),  # it has a record
    ],
)
def test_an_orphan_may_go_where_it_has_no_record_and_its_time_has_come(
    ended: End, owners: list[History], orphans: dict[str, Any], named: int
) -> None:
    assert len(list(unasked([(ended, owners)], orphans))) == named


def test_clocks_may_be_a_minute_apart() -> None:
    told = replace(history(*CREATED), operations=[operation(STOP, 0, ended=0)])

    moments = [timedelta(seconds=one) for one in (-60, 60)]

    assert all(told.explains(End(OWN, STOP, NOW + moment)) for moment in moments)
