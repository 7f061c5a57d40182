"""Polling many machines through one list: how often it is read, when it suffices, and what changed in it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from functions.shared.domain.ids import read_mark
from functions.shared.domain.instance.machine import Machine, MachineState, has_addresses, machine_state
from functions.shared.domain.instance.record import Instance
from functions.shared.domain.instance.sightings import known_endpoints
from functions.shared.domain.instance.status import Status

Machines = Mapping[str, Machine]

_OF_THE_LIMIT = 0.28  # what reads of the list may take of the calls that Novita allows
_APART = 1.02  # so that a minute never holds one read more than are meant
_OF_THE_TTL = 0.8  # read again a little before the list is too old, so that it hardly ever is


@dataclass(frozen=True)
class PollingPace:
    """How many share one read, and how often there may be one."""

    share_from: int  # with fewer, a get for each tells more and costs no more
    poll_seconds: float
    list_ttl: float
    calls_per_minute: int  # what Novita allows

    def pause(self, waiting: int, calls: int) -> float:
        """Seconds from one read to the next: never more calls than one for each instance and interval, nor
        more than a share of the limit, however many pages there are."""
        shortest = min(self.list_ttl * _OF_THE_TTL, self.poll_seconds)
        fair = self.poll_seconds / max(1, waiting)
        reads = max(1, int(self.calls_per_minute * _OF_THE_LIMIT / max(1, calls)))  # in any 60 s
        return max(shortest, fair, _APART * 60 / reads)


def last_action_at(record: Instance, machine_id: str) -> datetime:
    """When Novita last took an action on the machine: what it showed before that is out of date."""
    asked = [
        task.asked_at for task in record.cleanup.tasks if task.machine_id == machine_id and task.asked_at
    ]
    acted = [record.machine.acted_at] if machine_id == record.machine.id and record.machine.acted_at else []
    return max((*asked, *acted), default=record.created_at)


def list_suffices(record: Instance, machine: Machine) -> bool:
    """Whether the list's word is enough. It may lack addresses, and it may lag: that a machine runs is only
    believed where it never ran before, and that it is gone never."""
    state = machine_state(machine)
    if state is MachineState.GONE:
        return False
    if state is not MachineState.RUNNING or machine.id != record.machine.id:
        return True
    if record.status is Status.STARTING and not record.starting_again:
        shown = replace(machine, endpoints=known_endpoints(machine.endpoints, record.machine.endpoints))
        return has_addresses(shown, expected=record.machine.expects_endpoints)
    return record.status is not Status.STARTING and record.status is not Status.MIGRATING


def count_coming_up(machines: Machines, deployment: str) -> int:
    """How many of our machines are on their way up."""
    return sum(
        machine_state(machine) is MachineState.ON_ITS_WAY and read_mark(machine.name, deployment) is not None
        for machine in machines.values()
    )


def changed_machines(before: Machines, after: Machines, deployment: str) -> Iterator[tuple[str, Machine]]:
    """Ours that are no longer what they were, with the instance that the mark names."""
    for machine in after.values():
        known = before.get(machine.id)
        if machine_state(machine) is not (machine_state(known) if known else MachineState.ON_ITS_WAY):
            mark = read_mark(machine.name, deployment)
            if mark:
                yield mark.instance_id, machine
