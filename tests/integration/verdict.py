"""Whether all is well when everything is at rest: the one set of checks that every run ends with."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

from functions.shared.domain.delivery.webhooks import announce_event
from functions.shared.domain.instance.limits import NO_LIMITS, EndedBy
from functions.shared.domain.instance.record import Action, Event, Instance
from functions.shared.domain.instance.status import Status
from tests.books import Books, books_of, read_items, should_have_machine, unasked_ends
from tests.costs import WITHIN, Interval, Now, wrong_costs
from tests.integration import tally
from tests.integration.callers import Caller
from tests.integration.harness import Harness
from tests.integration.history import rebuilt

# What Novita says of the machine when the status is true.
_TRUE = {
    Status.RUNNING: ("running",),
    Status.READY: ("running",),
    Status.STOPPED: ("exited",),
    Status.EXITED: ("exited",),
    Status.FAILED: ("exited", "removed"),
    Status.TERMINATED: ("removed",),
}
# What an accepted operation ends in, if nothing else was asked for after it. An instance may also fail.
_ENDS = {
    "delete": {Status.TERMINATED},
    "stop": {Status.STOPPED, Status.TERMINATED},
    "start": {Status.READY, Status.FAILED, Status.EXITED, Status.TERMINATED},
    "restart": {Status.READY, Status.FAILED, Status.EXITED, Status.TERMINATED},
}
_RECOVERIES = ("recovery.started", "recovery.completed", "recovery.failed")
_TAKEN_AWAY = (EndedBy.RECLAIM, EndedBy.NOVITA)
_BY_CLOCK = (EndedBy.LIFETIME, EndedBy.IDLE, EndedBy.STOPPED_TOO_LONG)

_DUE_FOR_EVER = ("bill", "cap")  # looked at again and again while there is a machine


@dataclass
class Verdict:
    """`wrong` has a sentence for everything that is not as it should be."""

    instances: int = 0
    lost: int = 0
    doubled: int = 0
    left_over: int = 0
    given_back: int = 0  # machines that were bought beside another of the same instance, and are gone
    failed: Counter[str] = field(default_factory=Counter)  # by code
    statuses: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def count(self) -> None:
        tally.add(tally.INSTANCES, self.instances)
        tally.add(tally.LOST, self.lost)
        tally.add(tally.DOUBLED, self.doubled)
        tally.add(tally.LEFT_OVER, self.left_over)
        tally.add(tally.GIVEN_BACK, self.given_back)

    def __str__(self) -> str:
        numbers = f"{self.instances} instances, {self.lost} lost, {self.doubled} doubled"
        more = f"{self.left_over} left over, {self.given_back} bought too many and given back"
        return f"{numbers}, {more}; {dict(self.statuses)}; failed: {dict(self.failed)}"


def judge(
    harness: Harness,
    callers: Iterable[Caller],
    announced: Iterable[dict[str, Any]],
    costs_within: timedelta = WITHIN,
    blind: tuple[Interval, ...] | None = None,
) -> Verdict:
    items = read_items(harness.dynamodb, harness.table_name)
    books = books_of(items)
    records = books.records
    verdict = Verdict(instances=len(records))
    verdict.statuses.update(str(record.status) for record in records.values())
    verdict.failed.update(record.error.code for record in records.values() if record.error)
    _at_rest(verdict, records.values(), items)
    _callers(verdict, records, list(callers))
    machines = harness.simulator.instances()
    _machines(verdict, machines, books)
    verdict.wrong += unasked_ends(machines, books, harness.orphan_age)
    now = datetime.fromtimestamp(harness.simulator.now(), UTC)
    verdict.wrong += wrong_costs(machines, books.histories, Now(now, costs_within, blind))
    told = {one["id"] for one in announced}
    for record in records.values():
        _events(
            verdict,
            harness,
            record,
            sorted(books.histories[record.id].events, key=lambda one: one.sequence),
            told,
        )
    return verdict


def _at_rest(verdict: Verdict, records: Iterable[Instance], items: list[dict[str, Any]]) -> None:
    for record in records:
        if not record.at_rest:
            verdict.wrong.append(f"{record.id} is {record.status} and not at rest")
        if record.status is Status.FAILED and record.error is None:
            verdict.wrong.append(f"{record.id} failed and does not say why")
        if record.limits != NO_LIMITS and record.status in (Status.RUNNING, Status.READY):
            verdict.wrong.append(f"{record.id} is limited, and runs for ever")
        if record.operation and not record.operation.ended:
            verdict.wrong.append(f"{record.id} rests, and its {record.operation.kind} has not ended")
    due = [item for item in items if item.get("due") not in (None, *_DUE_FOR_EVER)]
    verdict.wrong += [f"{item['pk']} {item['sk']} is still due" for item in due]


def _callers(verdict: Verdict, records: dict[str, Instance], callers: list[Caller]) -> None:
    named = Counter(record.name for record in records.values())
    for caller in callers:
        verdict.wrong += caller.wrong
        if len(caller.ids) != 1 or named[caller.name] != 1:
            verdict.wrong.append(
                f"{caller.name} was answered {caller.ids} and has {named[caller.name]} records"
            )
        missing = [id_ for id_ in caller.ids if id_ not in records]
        verdict.lost += len(missing)
        verdict.wrong += [f"{id_} was accepted and is lost" for id_ in missing]
        if caller.accepted and not missing and caller.ids:
            record = records[caller.instance_id]
            last = "delete" if "delete" in caller.accepted else caller.accepted[-1]
            well = _runs_on(record) or record.ended_by in _BY_CLOCK or _recovered(record, last)
            well = well or _left_as_it_was(record, last)
            if record.status not in _ENDS[last] and not well:
                verdict.wrong.append(f"{record.id} is {record.status} after {caller.accepted}")


def _runs_on(record: Instance) -> bool:
    """A restart that Novita did not take, as of a machine that it denies, has failed and ends nothing."""
    operation = record.operation
    failed = operation is not None and operation.kind is Action.RESTART and operation.status == "failed"
    return failed and record.status is Status.RUNNING


def _left_as_it_was(record: Instance, last: str) -> bool:
    """There was no room for its start, and that was told."""
    fault = record.operation.error if record.operation else None
    refused = fault is not None and fault.code == "RESOURCE_CONSTRAINTS"
    return refused and last == "start" and record.status is Status.STOPPED


def _recovered(record: Instance, last: str) -> bool:
    """Brought back after its start, and known to be well as after its create; or stopped when its machine had
    been given back for another already."""
    stopped = record.error is not None and record.error.code == "RECOVERY_FAILED" and last == "stop"
    again = record.recoveries.completed > 0 and record.status is Status.RUNNING and last != "stop"
    return again or (stopped and record.status is Status.FAILED)


def _machines(verdict: Verdict, machines: list[dict[str, Any]], books: Books) -> None:
    records = books.records
    held: dict[str, list[dict[str, Any]]] = {}
    for machine in machines:
        held.setdefault(next(iter(books.owners(machine)), ""), []).append(machine)
    for id_, its in held.items():
        live = [machine for machine in its if machine["removedAt"] is None]
        verdict.given_back += max(0, len(its) - len(live) - (not live))
        if not id_:
            continue
        record = records.get(id_)
        wanted = record.machine.id if record and should_have_machine(record) else None
        verdict.doubled += len(live) > 1
        verdict.left_over += sum(machine["id"] != wanted for machine in live)
        if [machine["id"] for machine in live] != ([wanted] if wanted else []):
            shown = [(machine["id"], machine["name"]) for machine in live]
            verdict.wrong.append(f"{id_} is {record and record.status}, wants {wanted}; live: {shown}")
    for record in records.values():
        if should_have_machine(record) and record.id not in held:
            verdict.wrong.append(f"{record.id} is {record.status} and has no machine at Novita")
        for machine in held.get(record.id, []):
            if machine["id"] == record.machine.id:
                _status(verdict, record, machine["status"])


def _status(verdict: Verdict, record: Instance, at_novita: str) -> None:
    if at_novita not in _TRUE.get(record.status, ()):
        verdict.wrong.append(f"{record.id} is {record.status}, and Novita says {at_novita}")


def _events(
    verdict: Verdict, harness: Harness, record: Instance, events: list[Event], told: set[str]
) -> None:
    numbers = [event.sequence for event in events]
    if numbers != list(range(1, record.sequence + 1)):
        verdict.wrong.append(f"{record.id} has events {numbers} and is at {record.sequence}")
    told_recoveries = [event.type for event in events if event.type in _RECOVERIES]
    begun = [one for one in told_recoveries if one == "recovery.started"]
    ended = [after for one, after in pairwise(told_recoveries) if one == "recovery.started" != after]
    if len(begun) != len(ended):
        verdict.wrong.append(
            f"{record.id}: a recovery began and nobody was told of its end: {told_recoveries}"
        )
    if record.status is Status.EXITED and record.ended_by in _TAKEN_AWAY and record.spec.on_reclaim:
        last = max((event.sequence for event in events if event.type == "instance.exited"), default=0)
        if not any(event.type == "recovery.failed" and event.sequence > last for event in events):
            verdict.wrong.append(f"{record.id} was taken away, and neither brought back nor given up")
    untold = [event.type for event in events if event.id not in told]
    if untold:
        verdict.wrong.append(f"{record.id}: nobody was told of {untold}")
    if record.webhook_url:
        stored = [announce_event(event).body for event in events]
        if rebuilt(harness, record.webhook_url) != stored:
            verdict.wrong.append(f"{record.id}: its receiver's history is not the one that is stored")
