"""What is known here and what Novita shows, as one list: who is who, which side is newer, and what is shown.

A machine belongs to the instance that has its id, then to the one that its mark names. What is shown of a
pair is what `decide` makes of it: Novita's status, region and endpoints, unless what it shows is older than
what was done here.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from functions.shared.domain.ids import Mark, read_mark
from functions.shared.domain.instance.decide import decide
from functions.shared.domain.instance.decision import Policy
from functions.shared.domain.instance.machine import Machine, MachineState, machine_state
from functions.shared.domain.instance.observations import PurchasesRead, Seen
from functions.shared.domain.instance.record import Instance, Purchase, PurchaseOutcome
from functions.shared.domain.instance.sightings import known_endpoints
from functions.shared.domain.instance.status import BEING_ENDED, Status


class Source(StrEnum):
    LOCAL = "local"
    NOVITA = "novita"
    MERGED = "merged"


class Consistency(StrEnum):
    CONSISTENT = "consistent"
    LOCAL_NEWER = "local-newer"  # Novita has yet to show what was done here
    NOVITA_NEWER = "novita-newer"  # the record has yet to follow
    CONFLICTED = "conflicted"  # neither follows from the other


@dataclass(frozen=True)
class Merged:
    source: Source
    consistency: Consistency
    record: Instance | None = None  # as it is shown
    machine: Machine | None = None


# What Novita shows of the machine of an instance in each status, when both agree.
_AGREEING = {
    Status.STARTING: {MachineState.ON_ITS_WAY},
    Status.RUNNING: {MachineState.RUNNING},
    Status.HEALTH_CHECKING: {MachineState.RUNNING},
    Status.READY: {MachineState.RUNNING},
    Status.STOPPING: {MachineState.ON_ITS_WAY},
    Status.STOPPED: {MachineState.EXITED},
    Status.EXITED: {MachineState.EXITED},
    Status.MIGRATING: {MachineState.MIGRATING},
    Status.DELETING: {MachineState.ON_ITS_WAY},
    Status.FAILED: set(MachineState),  # kept as it was
}


def merge(
    machines: Iterable[Machine],
    records: Sequence[Instance],
    marked: Mapping[str, Instance | None],
    deployment: str,
    began: datetime,
    now: datetime,
    policy: Policy,
) -> list[Merged]:
    """`marked` has the record of every id that a mark names, whether it is among `records` or not."""
    present = {machine.id: machine for machine in machines if machine_state(machine) is not MachineState.GONE}
    owners = {record.live_machine_id: record for record in records if record.live_machine_id}
    paired: dict[str, Merged] = {}
    alone: list[Merged] = []
    for machine in present.values():
        if owner := owners.get(machine.id):
            paired[owner.id] = _pair(owner, machine, began, now, policy)
    for machine in present.values():
        if machine.id in owners:
            continue
        mark = read_mark(machine.name, deployment)
        record = marked.get(mark.instance_id) if mark else None
        if mark and record and _wants(record, machine) and record.id not in paired:
            paired[record.id] = _adopted(record, machine, mark, began, now, policy)
        else:
            alone.append(_novita_only(machine, mark, record))
    return [
        *paired.values(),
        *alone,
        *(_local_only(record, began, policy) for record in records if record.id not in paired),
    ]


def without_novita(records: Iterable[Instance]) -> Iterator[Merged]:
    """Novita cannot be asked: what is here is the newest there is."""
    for record in records:
        known = Consistency.LOCAL_NEWER if record.live_machine_id else Consistency.CONSISTENT
        yield Merged(Source.LOCAL, known, record)


def shown_status(machine: Machine) -> Status:
    """Of a machine that nobody here knows: the nearest of our words."""
    by_word = {
        "toStop": Status.STOPPING,
        "stopping": Status.STOPPING,
        "toRemove": Status.DELETING,
        "removing": Status.DELETING,
    }
    by_state = {
        MachineState.RUNNING: Status.RUNNING,
        MachineState.EXITED: Status.EXITED,
        MachineState.MIGRATING: Status.MIGRATING,
    }
    return by_word.get(machine.status) or by_state.get(machine_state(machine), Status.STARTING)


def _pair(record: Instance, machine: Machine, began: datetime, now: datetime, policy: Policy) -> Merged:
    after = decide(record, Seen(machine, began), now, policy).record
    return Merged(Source.MERGED, _consistency(record, machine, after, began), after, machine)


def _consistency(record: Instance, machine: Machine, after: Instance, began: datetime) -> Consistency:
    if _agree(record, machine):
        return Consistency.CONSISTENT
    acted_later = (record.machine.acted_at and began <= record.machine.acted_at) or (
        record.machine.seen_at and began < record.machine.seen_at
    )
    under_way = (
        record.pending or record.cleanup.tasks or record.starting_again or record.status in BEING_ENDED
    )
    if acted_later or (under_way and after.status is record.status):
        return Consistency.LOCAL_NEWER
    seen = ("region", "endpoints", "novita_status")
    followed = after.status is not record.status or any(
        getattr(after.machine, name) != getattr(record.machine, name) for name in seen
    )
    return Consistency.NOVITA_NEWER if followed else Consistency.CONFLICTED


def _agree(record: Instance, machine: Machine) -> bool:
    same_status = machine_state(machine) in _AGREEING.get(record.status, ()) and not record.cleanup.tasks
    same_region = machine.region in ("", record.machine.region)
    return (
        same_status
        and same_region
        and known_endpoints(machine.endpoints, record.machine.endpoints) == record.machine.endpoints
    )


def _wants(record: Instance, machine: Machine) -> bool:
    return (
        record.live_machine_id is None
        and machine.id not in record.cleanup.gone
        and record.status is not Status.TERMINATED
    )


def _adopted(
    record: Instance, machine: Machine, mark: Mark, began: datetime, now: datetime, policy: Policy
) -> Merged:
    """What the purchases will say as soon as they are read: the one of that name was made."""
    bought = Purchase(
        instance_id=record.id,
        number=mark.purchase,
        name=machine.name,
        outcome=PurchaseOutcome.BOUGHT,
        intended_at=record.created_at,
        lease_until=record.created_at,
        product_id=machine.product_id,
        region=machine.region,
        machine_id=machine.id,
        ended_at=record.created_at,
    )
    bought_by = decide(record, PurchasesRead((bought,)), now, policy).record
    after = decide(bought_by, Seen(machine, began), now, policy).record
    creating = record.status is Status.CREATING
    newer = Consistency.NOVITA_NEWER if creating else Consistency.CONFLICTED
    return Merged(
        Source.MERGED, newer, replace(after, machine=replace(after.machine, id=machine.id)), machine
    )


def _novita_only(machine: Machine, mark: Mark | None, record: Instance | None) -> Merged:
    if mark is None:
        return Merged(Source.NOVITA, Consistency.CONSISTENT, None, machine)
    leaving = record is not None and (
        machine.id in record.cleanup.gone
        or any(task.machine_id == machine.id for task in record.cleanup.tasks)
    )
    known = Consistency.LOCAL_NEWER if leaving else Consistency.CONFLICTED
    return Merged(Source.NOVITA, known, None, machine)


def _local_only(record: Instance, began: datetime, policy: Policy) -> Merged:
    """Absence from a list proves nothing, least of all where it was seen or is given back just now."""
    if record.live_machine_id is None:
        return Merged(Source.LOCAL, Consistency.CONSISTENT, record)
    recent = (record.machine.seen_at or record.created_at) > began - policy.settle
    newer = recent or record.cleanup.tasks or record.status in BEING_ENDED
    return Merged(Source.LOCAL, Consistency.LOCAL_NEWER if newer else Consistency.CONFLICTED, record)
