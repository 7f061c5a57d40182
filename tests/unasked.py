"""Nothing ends that nobody asked to end: every stop and delete that Novita took, and what explains it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal

from functions.shared.domain.instance.record import (
    Action,
    Event,
    Instance,
    Operation,
    Purchase,
)
from functions.shared.domain.money.ledger import Line

# Between what we note and what Novita does: how far clocks may be apart, and how long a step may still be
# under way that was overtaken.
_APART = timedelta(minutes=3)
_FIRST_USE = ("instance.running", "instance.ready", "startup.initiated")


@dataclass(frozen=True)
class End:
    """A stop or delete that Novita took, and its own time of it."""

    machine_id: str
    action: Action
    at: datetime

    def after(self, moment: datetime) -> bool:
        """Perhaps: clocks differ."""
        return self.at >= moment - _APART

    def long_after(self, moment: datetime) -> bool:
        """Surely."""
        return self.at > moment + _APART

    def __str__(self) -> str:
        return f"{self.machine_id} was told to {self.action} at {self.at:%H:%M:%S}"


@dataclass
class History:
    """What is stored of one instance."""

    record: Instance | None = None
    events: list[Event] = field(default_factory=list)
    purchases: list[Purchase] = field(default_factory=list)
    operations: list[Operation] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)  # of the ledger, that are over
    day_usd: list[Decimal] = field(default_factory=list)  # its entries of days

    def explains(self, end: End) -> bool:
        if self.record is None or self._released(end):
            return False
        explained = self._was_asked(end) or self._boot_failed(end) or self._was_surplus(end)
        return explained or self._was_replaced(end) or self._was_not_back(end)

    def _released(self, end: End) -> bool:
        """A caller's word that it is no longer ours to touch."""
        released = (one.at for one in self.events if one.reason == "released")
        kept = self.record.cleanup.released if self.record else ()
        return end.machine_id in kept and any(end.long_after(at) for at in released)

    def _was_asked(self, end: End) -> bool:
        """A delete stays asked for; a stop until it is done, or something else was asked for."""
        asked = [one for one in self.operations if one.kind is end.action and end.after(one.began_at)]
        return any(
            one.kind is Action.DELETE or not one.ended or not end.long_after(one.phases[-1][1])
            for one in asked
        )

    def _boot_failed(self, end: End) -> bool:
        """The machine of a boot that failed before it was of use is deleted, of a later one stopped; until
        somebody asks for another start."""
        failures = (one for one in self.events if one.type == "instance.failed" and end.after(one.at))
        return any(self._failure_explains(one, end) for one in failures if one.machine_id == end.machine_id)

    def _failure_explains(self, failed: Event, end: End) -> bool:
        if self.record is None or self.record.spec.keep_on_failure:
            return False
        started = (one for one in self.events if one.type == "startup.initiated")
        if any(one.sequence > failed.sequence and end.long_after(one.at) for one in started):
            return False
        return end.action is (Action.STOP if self._was_of_use(failed.sequence) else Action.DELETE)

    def _was_of_use(self, before: int) -> bool:
        earlier = [one for one in self.events if one.sequence < before]
        bought = max((one.sequence for one in earlier if one.type == "instance.creating"), default=0)
        checked = self.record is not None and self.record.spec.health_check is not None
        uses = _FIRST_USE[1:] if checked else _FIRST_USE
        return any(one.type in uses and one.sequence > bought for one in earlier)

    def _was_replaced(self, end: End) -> bool:
        """Its machine was taken away, and another was to take its place: that was told before."""
        told = [one for one in self.events if one.type == "instance.creating" and one.reason == "replaced"]
        own = [one for one in told if one.machine_id == end.machine_id and end.after(one.at)]
        return end.action is Action.DELETE and bool(own)

    def _was_not_back(self, end: End) -> bool:
        """It was taken away, started again, and did not come up in time: it is stopped until it is back."""
        off = [one for one in self.events if one.type == "instance.exited" and end.after(one.at)]
        own = [one for one in off if one.machine_id == end.machine_id and one.error and not one.operation_id]
        back = [one for one in self.events if one.type == "recovery.completed" and end.long_after(one.at)]
        late = any(all(one.sequence > other.sequence for other in back) for one in own)
        return end.action is Action.STOP and late

    def _was_surplus(self, end: End) -> bool:
        """One that a purchase of ours explains, that never was the instance's own, and that was announced
        where it was one too many."""
        owned = (self.record.machine.id if self.record else None, *(one.machine_id for one in self.events))
        bought = any(one.machine_id == end.machine_id for one in self.purchases)
        if end.action is not Action.DELETE or end.machine_id in owned or not bought:
            return False
        failed = any(one.type == "instance.failed" and end.after(one.at) for one in self.events)
        announced = (one.reason or "" for one in self.events if one.type == "orphan.detected")
        return failed or any(end.machine_id in reason for reason in announced)


def unasked(ends: Iterable[tuple[End, list[History]]], orphans: dict[str, datetime]) -> Iterator[str]:
    """A sentence for each end that neither its owners nor its being an orphan explains; `orphans` are those
    that may be deleted, and from when."""
    for end, owners in ends:
        recorded = [one for one in owners if one.record]
        orphan = not recorded and bool(owners) and end.action is Action.DELETE
        if orphan and end.machine_id in orphans and end.after(orphans[end.machine_id]):
            continue
        if not any(one.explains(end) for one in recorded):
            whose = [f"{one.record.id} ({one.record.status})" for one in recorded if one.record]
            yield f"{end}, and nobody had asked for it: {whose or 'it is nobody that we know'}"
