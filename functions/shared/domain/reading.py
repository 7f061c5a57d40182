"""What Novita's statuses mean to us; a word we do not know means "on its way"."""

from enum import Enum, auto

from functions.shared.domain.machine import Machine


class Reading(Enum):
    ON_ITS_WAY = auto()
    RUNNING = auto()
    EXITED = auto()
    MIGRATING = auto()
    GONE = auto()


_MEANING = {
    "running": Reading.RUNNING,
    "exited": Reading.EXITED,
    "migrating": Reading.MIGRATING,
    "removed": Reading.GONE,
}


def read(machine: Machine) -> Reading:
    return _MEANING.get(machine.status, Reading.ON_ITS_WAY)


def addressable(machine: Machine, *, expected: bool) -> bool:
    """Whether every port has the address that a caller would use."""
    if not machine.endpoints:
        return not expected
    return all(endpoint.address for endpoint in machine.endpoints)
