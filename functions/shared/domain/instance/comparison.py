"""Novita's whole list against all that is known here: what matches, what is missing, what is too much."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from functions.shared.domain.errors import Fault
from functions.shared.domain.ids import Mark, read_mark
from functions.shared.domain.instance.decision import Decision
from functions.shared.domain.instance.fleet import Fleet
from functions.shared.domain.instance.machine import Machine, MachineState, machine_state
from functions.shared.domain.instance.record import Instance
from functions.shared.domain.instance.status import Status


class DifferenceKind(StrEnum):
    FOLLOWED = "followed"  # Novita shows something that the record does not know yet
    DOUBTED = "doubted"  # absent from the list: a get by id tells
    SURPLUS = "surplus"  # a machine with an instance's mark that is not its machine
    ORPHAN = "orphan"  # a machine with our mark, and no record or purchase that explains it


@dataclass(frozen=True)
class Difference:
    kind: DifferenceKind
    machine_id: str
    instance_id: str
    action: str  # the status that the record has then; look; adopt, delete; announce, keep
    done: bool = False  # by this comparison


@dataclass(frozen=True)
class ComparisonReport:
    complete: bool  # everything was looked at in the time there was
    known: int  # records that have a machine
    missing: int = 0  # those of them whose machine cannot be found
    stuck: int = 0  # records with a machine that Novita refuses to give back
    deletions_held: int = 0  # orphans that are not deleted because there are too many of them at once
    differences: tuple[Difference, ...] = ()
    fault: Fault | None = None  # why Novita's list could not be read, or is not believed
    whole: bool = True  # it was read from its beginning to its end
    orphans: int | None = None  # in the whole list; None: not known yet
    listed_at: datetime | None = None  # when the last whole list was begun
    absent: tuple[str, ...] = ()  # machines of ours that it lacks, also those that it may show late
    fleet: Fleet = ()  # all that have or may have a machine, as they were before

    def of(self, kind: DifferenceKind) -> Iterator[Difference]:
        return (one for one in self.differences if one.kind is kind)

    def counts(self) -> dict[str, int | bool]:
        return {
            "complete": self.complete,
            "known": self.known,
            "missing": self.missing,
            "stuck": self.stuck,
            "deletions_held": self.deletions_held,
            "changed": sum(one.done for one in self.differences if one.kind is not DifferenceKind.ORPHAN),
            "unlisted": sum(1 for _ in self.of(DifferenceKind.DOUBTED)),
            "surplus": sum(1 for _ in self.of(DifferenceKind.SURPLUS)),
            "orphans": sum(1 for _ in self.of(DifferenceKind.ORPHAN)),
            "orphans_deleted": sum(
                one.done and one.action == "delete" for one in self.of(DifferenceKind.ORPHAN)
            ),
        }


BLANK = Fault("NOVITA_UNAVAILABLE", "Novita's list shows none of the machines that are known")
_FEW = 3
_SHARE = 0.2
_SOON = timedelta(seconds=5)  # what is due by then needs no other message


@dataclass(frozen=True)
class MarkedMachine:
    """A machine with our mark that no record has as its own."""

    machine: Machine
    mark: Mark


@dataclass(frozen=True)
class Comparison:
    matched: tuple[tuple[Instance, Machine], ...] = ()
    unlisted: tuple[Instance, ...] = ()  # absent from the list, which proves nothing
    unknown: tuple[tuple[Instance, MarkedMachine], ...] = ()
    # Confirmed gone, and listed all the same: most likely a lag.
    reappeared: tuple[tuple[Instance, Machine], ...] = ()
    orphans: tuple[MarkedMachine, ...] = ()  # a mark of ours, and no record
    known: int = 0
    absent: tuple[str, ...] = ()  # all known machines that are not listed, whatever follows from it

    @property
    def blank(self) -> bool:
        """It shows nothing of ours, and what it lacks is not known to be missing: that is no comparison."""
        shown = self.matched or self.unknown or self.reappeared or self.orphans
        return not shown and any(not record.missing for record in self.unlisted)


def compare(
    machines: Iterable[Machine],
    records: Iterable[Instance],
    marked: Mapping[str, Instance | None],
    deployment: str,
    *,
    missed_since: datetime,
) -> Comparison:
    """`records` are all that may have a machine; `marked` has the record of every id that a mark names.

    A machine that was seen after `missed_since` may not be in the list yet, so that it is not missed; unless
    Novita has said that it takes it away.
    """
    present = {machine.id: machine for machine in machines if machine_state(machine) is not MachineState.GONE}
    records = tuple(records)
    live = (record for record in records if record.status is not Status.TERMINATED)
    owners = {record.live_machine_id: record for record in live if record.live_machine_id}
    vanished = {id_: record for record in records for id_ in record.cleanup.vanished}
    unknown, reappeared, orphans = [], [], []
    for machine in present.values():
        if machine.id in owners:
            continue
        mark = read_mark(machine.name, deployment)
        record = vanished.get(machine.id) or (marked.get(mark.instance_id) if mark else None)
        if record and machine.id in record.cleanup.gone:
            reappeared.append((record, machine))
        elif mark and record is None:
            orphans.append(MarkedMachine(machine, mark))
        elif mark and record and not _known(record, machine.id):
            unknown.append((record, MarkedMachine(machine, mark)))
    return Comparison(
        tuple((record, present[id_]) for id_, record in owners.items() if id_ in present),
        tuple(
            record
            for id_, record in owners.items()
            if id_ not in present and not record.leaving and _is_missed(record, missed_since)
        ),
        tuple(unknown),
        tuple(reappeared),
        tuple(orphans),
        len(owners),
        tuple(id_ for id_ in owners if id_ and id_ not in present),
    )


def report_of(fleet: Fleet, *, complete: bool, **more: Any) -> ComparisonReport:
    known = missing = stuck = 0
    for entry in fleet:
        about = entry.read()
        known += about.machine_id is not None
        missing += about.missing
        stuck += about.stuck
    return ComparisonReport(complete, known, missing, stuck, fleet=fleet, **more)


def too_many(deletions: int, known: int) -> bool:
    """Orphans to delete at once: more likely the records are lost, or it is another account's list."""
    return deletions > max(_FEW, _SHARE * known)


def worth_an_early_step(record: Instance, machine: Machine, now: datetime) -> bool:
    """It is up, failing, or there again, and its next look may be far away: nobody expects that so soon."""
    due = record.next_check_at
    up = record.status is Status.STARTING and machine_state(machine) is not MachineState.ON_ITS_WAY
    failing = record.coming_up and bool(machine.error) and record.machine.shown_error is None
    changed = record.machine.needs_look or ((up or failing) and not record.pending)
    return changed and due is not None and due > now + _SOON


def needs_confirmation(decision: Decision) -> bool:
    """By a get, which knows no notice of a reclaim: that is believed as the list has it."""
    return any(event.type != "instance.reclaim_notified" for event in decision.events)


def differs(before: Instance, after: Instance) -> bool:
    """More than when it was last looked at: a running machine is not written anew every minute, nor for the
    list telling of spot what a get does not, as long as that is no notice."""
    known = before.machine
    looked = replace(after.machine, looked_at=known.looked_at, seen_at=known.seen_at)
    if {looked.spot_status, known.spot_status} <= {"", "running"}:
        looked = replace(looked, spot_status=known.spot_status)
    return replace(after, machine=looked, next_check_at=before.next_check_at) != before


def _known(record: Instance, machine_id: str) -> bool:
    """Its own machine, or one that is being given back, or was given up."""
    own = (record.machine.id, *record.cleanup.released)
    return machine_id in own or record.cleanup.task(machine_id) is not None


def _is_missed(record: Instance, missed_since: datetime) -> bool:
    """One that Novita has said it takes away is gone, rather than not in the list yet."""
    return record.machine.notified or (record.machine.seen_at or record.created_at) <= missed_since
