"""The summary that the index of the fleet carries is enough to see that Novita shows nothing new."""

from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from itertools import product
from typing import Any

import pytest

from functions.shared.domain.errors import Fault
from functions.shared.domain.instance.comparison import differs
from functions.shared.domain.instance.decide import decide
from functions.shared.domain.instance.machine import (
    Endpoint,
    Machine,
    MachineState,
    ShownError,
    endpoints_digest,
    machine_state,
    spot_notice,
    text_digest,
)
from functions.shared.domain.instance.observations import Seen
from functions.shared.domain.instance.record import Action, CleanupTask, Instance
from functions.shared.domain.instance.status import AT_REST, Status
from functions.shared.domain.money.ledger import Ledger, LineKind, Meter
from tests.unit.builders import NOW, OWN, POLICY, after, ago, new_instance, new_machine, new_spec

NO_ADDRESS = Endpoint(8188, "http", "")
OTHER = Endpoint(8188, "http", "https://other.example")

# What Novita shows of a machine whose instance is in that status and at rest.
AGREEING = {
    Status.RUNNING: MachineState.RUNNING,
    Status.READY: MachineState.RUNNING,
    Status.STOPPED: MachineState.EXITED,
    Status.EXITED: MachineState.EXITED,
    Status.FAILED: MachineState.EXITED,
}


def nothing_new(summary: dict[str, str], machine: Machine) -> bool:
    """What a sweep can tell from the index and Novita's list alone, without the record."""
    complete = bool(machine.endpoints) and all(one.address for one in machine.endpoints)
    known = summary.get("endpoints", "")
    # A list may leave addresses out; what a get has shown stays known.
    same = endpoints_digest(machine.endpoints) == known if complete else bool(known) or not machine.endpoints
    return (
        "shown" in summary
        and summary["machine"] == machine.id
        and AGREEING.get(Status(summary["status"])) is machine_state(machine)
        and summary["shown"] == machine.status
        and machine.region in ("", summary.get("region", ""))
        and summary.get("spot", "") == spot_notice(machine.spot_status, machine.spot_reclaim_at)
        and summary.get("error", "") == text_digest(machine.error)
        and "counted" in summary
        and (machine.stopped_at is None or machine.stopped_at.timestamp() <= int(summary["counted"]))
        and same
    )


RECORDS: list[dict[str, Any]] = [
    {},
    {"endpoints": ()},
    {"endpoints": (NO_ADDRESS,)},
    {"region": "CN-HK-01"},
    {"spot_status": "notified", "spot_reclaim_at": after(600), "told_notice": after(600).isoformat()},
    {"waiting": Fault("CIRCUIT_BREAKER_OPEN", "wait")},
    {"first_missed_at": ago(10)},
    {"needs_look": True},
    {"tasks": (CleanupTask(OWN, Action.STOP, ago(10)),)},
    {"pending": Action.STOP},
    {"spec": new_spec(keep_on_failure=True)},
    {"gone": (OWN,)},
    {"unsettled": True},
    {"ready_at": ago(30)},
    {"shown_error": ShownError("oom", ago(90)), "told_errors": ("oom",)},
]
MACHINES: list[dict[str, Any]] = [
    {},
    {"endpoints": ()},
    {"endpoints": (NO_ADDRESS,)},
    {"endpoints": (OTHER,)},
    {"region": "CN-HK-01"},
    {"region": "AS-SGP-02"},
    {"spot_status": "notified"},
    {"spot_status": "notified", "spot_reclaim_at": after(600)},
    {"error": "oom"},
    {"started_at": ago(3000), "stopped_at": ago(4000)},
    {"started_at": ago(300), "stopped_at": ago(600)},
    {"started_at": ago(600), "stopped_at": ago(300)},
]
WORDS = ("creating", "running", "exited", "migrating", "removed", "stopping")


def records() -> Iterator[Instance]:
    for status, word, changes in product(Status, (None, *WORDS), RECORDS):
        record = new_instance(status, **{"novita_status": word, "next_check_at": None} | changes)
        yield replace(record, ledger=counting(status))


def counting(status: Status) -> Ledger:
    """As it is while that status lasts."""
    runs = status not in (Status.STOPPED, Status.EXITED, Status.FAILED)
    meter = Meter(OWN, Decimal("0.35"), ended_at=ago(3600))
    return Ledger(
        (replace(meter, kind=LineKind.RUNNING, since=ago(3000), confirmed=True) if runs else meter,)
    )


def test_where_the_summary_shows_nothing_new_the_rules_change_nothing() -> None:
    machines = [new_machine(word, **changes) for word, changes in product(WORDS, MACHINES)]
    skipped = 0

    for record, machine in product(records(), machines):
        if nothing_new(record.fleet_summary, machine):
            skipped += 1
            decided = decide(record, Seen(machine, NOW), NOW, POLICY)
            assert not differs(record, decided.record), (record, machine)

    assert skipped > 50


@pytest.mark.parametrize("status", AGREEING)
def test_a_machine_at_rest_that_is_as_it_was_need_not_be_read_whole(status: Status) -> None:
    word = "running" if AGREEING[status] is MachineState.RUNNING else "exited"
    record = new_instance(status, novita_status=word, region="CN-HK-01")
    record = replace(record, ledger=counting(status))

    assert nothing_new(record.fleet_summary, new_machine(word, region="CN-HK-01"))
    assert nothing_new(record.fleet_summary, new_machine(word, region="CN-HK-01", endpoints=(NO_ADDRESS,)))
    assert not nothing_new(record.fleet_summary, new_machine("migrating", region="CN-HK-01"))
    assert not nothing_new(record.fleet_summary, new_machine(word, region="CN-HK-01", endpoints=(OTHER,)))
    assert not nothing_new(record.fleet_summary, new_machine(word, "m-other"))
    stopped = new_machine(word, region="CN-HK-01", stopped_at=ago(60))  # and perhaps started again
    assert not nothing_new(record.fleet_summary, stopped)


@pytest.mark.parametrize("status", sorted(set(Status) - AT_REST))
def test_on_the_move_the_summary_changes_with_status_and_machine_alone(status: Status) -> None:
    record = new_instance(status, machine_id=OWN)
    later = new_instance(status, machine_id=OWN, novita_status="pulling", endpoints=(OTHER,), seen_at=NOW)

    assert record.fleet_summary == later.fleet_summary == {"status": status, "machine": OWN}


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
    assert {"machine", "status"} >= record.fleet_summary.keys() or record.at_rest
    assert record.fleet_summary.get("machine") == record.live_machine_id
