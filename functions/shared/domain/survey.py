"""Novita's whole list against all that is known here: what matches, what is missing, what is too much."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from functions.shared.domain.ids import Mark, read_mark
from functions.shared.domain.instance import Instance
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
    orphans: tuple[Stray, ...]  # a mark of ours, and no record
    known: int

    @property
    def alarming(self) -> bool:
        """Too much at once to be believed: more likely the list is wrong, or we look at the wrong account."""
        return len(self.unlisted) + len(self.orphans) > max(_FEW, _SHARE * self.known)


def survey(
    machines: Iterable[Machine],
    records: Iterable[Instance],
    marked: Mapping[str, Instance | None],
    deployment: str,
) -> Survey:
    """`records` are all that may have a machine; `marked` has the record of every id that a mark names."""
    present = {machine.id: machine for machine in machines if read(machine) is not Reading.GONE}
    having = {record.machine_id: record for record in records if has_machine(record)}
    matched = tuple((record, present[id_]) for id_, record in having.items() if id_ in present)
    strays, orphans = [], []
    for machine in present.values():
        mark = read_mark(machine.name, deployment)
        if machine.id in having or mark is None:
            continue
        record = marked.get(mark.instance_id)
        if record is None:
            orphans.append(Stray(machine, mark))
        elif not _known(record, machine.id):
            strays.append((record, Stray(machine, mark)))
    unlisted = tuple(record for id_, record in having.items() if id_ not in present)
    return Survey(matched, unlisted, tuple(strays), tuple(orphans), len(having))


def has_machine(record: Instance) -> bool:
    return record.machine_id is not None and record.machine_id not in record.gone


def _known(record: Instance, machine_id: str) -> bool:
    """Its own machine, one that is being given back, or one that a lagging list still shows."""
    owed = (duty.machine_id for duty in record.duties)
    return machine_id == record.machine_id or machine_id in record.gone or machine_id in owed
