"""Novita's whole list against all that is known here: what matches, what is missing, what is too much."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from functions.shared.domain.ids import Mark, read_mark
from functions.shared.domain.instance import Action, Instance
from functions.shared.domain.machine import Machine
from functions.shared.domain.reading import Reading, read

_FEW = 3
_SHARE = 0.2


@dataclass(frozen=True)
class Stray:
    """A machine with our mark that its record does not know."""

    machine: Machine
    mark: Mark


@dataclass(frozen=True)
class Survey:
    matched: tuple[tuple[Instance, Machine], ...]
    unlisted: tuple[Instance, ...]  # absent from the list, which proves nothing
    strays: tuple[tuple[Instance, Stray], ...]
    returned: tuple[tuple[Instance, Stray], ...]  # confirmed gone, and listed all the same: most likely a lag
    orphans: tuple[Stray, ...]  # a mark of ours, and no record
    known: int

    @property
    def at_once(self) -> float:
        """As much as one sweep may end or orphan of what it knew."""
        return max(_FEW, _SHARE * self.known)

    def alarming(self, new_orphans: int) -> bool:
        """Too much at once to be believed: more likely the list is wrong, or we look at the wrong account."""
        return len(self.unlisted) + new_orphans > self.at_once


def survey(
    machines: Iterable[Machine],
    records: Iterable[Instance],
    marked: Mapping[str, Instance | None],
    deployment: str,
    *,
    missed_since: datetime,
) -> Survey:
    """`records` are all that may have a machine; `marked` has the record of every id that a mark names.

    A machine that was seen after `missed_since` may not be in the list yet, so that it is not missed.
    """
    present = {machine.id: machine for machine in machines if read(machine) is not Reading.GONE}
    having = {record.machine: record for record in records if record.machine}
    strays, returned, orphans = [], [], []
    for machine in present.values():
        mark = read_mark(machine.name, deployment)
        if machine.id in having or mark is None:
            continue
        record = marked.get(mark.instance_id)
        if record is None:
            orphans.append(Stray(machine, mark))
        elif machine.id in record.gone:
            returned.append((record, Stray(machine, mark)))
        elif not _known(record, machine.id):
            strays.append((record, Stray(machine, mark)))
    return Survey(
        tuple((record, present[id_]) for id_, record in having.items() if id_ in present),
        tuple(
            record
            for id_, record in having.items()
            if id_ not in present and not _leaving(record) and _seen_at(record) <= missed_since
        ),
        tuple(strays),
        tuple(returned),
        tuple(orphans),
        len(having),
    )


def _known(record: Instance, machine_id: str) -> bool:
    """Its own machine, or one that is being given back."""
    return machine_id == record.machine_id or any(duty.machine_id == machine_id for duty in record.duties)


def _leaving(record: Instance) -> bool:
    """We are deleting it, so that its absence is what we wait for; the duty asks by id."""
    return any(
        duty.machine_id == record.machine_id and duty.action is Action.DELETE for duty in record.duties
    )


def _seen_at(record: Instance) -> datetime:
    return record.seen_at or record.created_at
