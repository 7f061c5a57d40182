"""What is done about each difference between Novita's list and the records."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from functions.shared.adapters.instances import Instances
from functions.shared.adapters.orphans import Orphans
from functions.shared.advance import Advance
from functions.shared.domain.decide import decide
from functions.shared.domain.decision import Decision, Policy, left_to_its_worker
from functions.shared.domain.errors import MachineNotFound, NovitaForNow, NovitaRefused
from functions.shared.domain.findings import Finding, Kind
from functions.shared.domain.ids import read_mark
from functions.shared.domain.instance import Instance
from functions.shared.domain.machine import Machine
from functions.shared.domain.observation import Astray, Missing, Observation, Returned, Seen, Unlisted
from functions.shared.domain.reading import Reading, read
from functions.shared.domain.rules.purchases import wants_machine
from functions.shared.domain.status import Status
from functions.shared.domain.survey import Stray
from functions.shared.log import correlated, logger
from functions.shared.metrics import ORPHANS_DELETED, ORPHANS_FOUND, SURPLUS, measure

if TYPE_CHECKING:
    from functions.shared.adapters.novita.client import Novita

_SOON = timedelta(seconds=5)  # what is due by then needs no hint


@dataclass(frozen=True)
class PutRight:
    instances: Instances
    orphans: Orphans
    novita: "Novita"
    advance: Advance
    deployment: Callable[[], str]
    policy: Policy
    clock: Callable[[], datetime]
    within: Callable[[], float]
    delete_orphans: bool
    orphan_age: timedelta
    dry_run: bool = False  # says what would be done, and does nothing

    def matched(self, record: Instance, machine: Machine, began: datetime) -> Finding | None:
        """Only what is at rest: steps look after the others, and a write from here would undo one."""
        if not record.at_rest:
            self._hint(record, machine)
            return None
        decision = self._decided(record, Seen(machine, began))
        if decision.events and self._changed_lately(record, began):
            decision = self._asked(record, machine.id)
        if not _differs(record, decision.record):
            return None
        done = self._stored(record, decision)
        return Finding(Kind.FOLLOWED, machine.id, record.id, decision.record.status, done)

    def _hint(self, record: Instance, machine: Machine) -> None:
        """Its next look may be far away, since nobody expects it up so soon: it is taken now."""
        due, soon = record.next_check_at, self.clock() + _SOON
        changed = record.status is Status.STARTING and read(machine) is not Reading.ON_ITS_WAY
        if changed and due and due > soon and not record.pending and not self.dry_run:
            self.advance.nudge(record, due)

    def unlisted(self, record: Instance, began: datetime) -> Finding:
        machine_id = record.machine_id or ""
        if not record.at_rest:
            return Finding(Kind.DOUBTED, machine_id, record.id, "look")
        decision = self._decided(record, Unlisted(machine_id, began))
        return Finding(Kind.DOUBTED, machine_id, record.id, "look", self._stored(record, decision))

    def surplus(self, record: Instance, stray: Stray, began: datetime) -> Finding:
        machine_id = stray.machine.id
        logger.warning("surplus machine", instance_id=record.id, novita_id=machine_id)
        action = "adopt" if wants_machine(record) else "delete"
        if self.dry_run:
            return Finding(Kind.SURPLUS, machine_id, record.id, action)
        booked = self.instances.turned_out_bought(stray.mark, stray.machine, began)
        decision = self._decided(record, Astray(machine_id, booked))
        return self._surplus(record, machine_id, action, decision)

    def returned(self, record: Instance, stray: Stray) -> Finding | None:
        """A list that lags shows what is gone; only a get that shows it says that it never was."""
        if not self._still_ours(stray):
            return None
        machine_id = stray.machine.id
        logger.warning("machine is back", instance_id=record.id, novita_id=machine_id)
        decision = self._decided(record, Returned(machine_id))
        action = "delete" if decision.record.duties else "adopt"
        return self._surplus(record, machine_id, action, decision)

    def _surplus(self, record: Instance, machine_id: str, action: str, decision: Decision) -> Finding:
        if done := self._stored(record, decision):
            measure(SURPLUS, by=action)
        return Finding(Kind.SURPLUS, machine_id, record.id, action, done)

    def orphan(self, stray: Stray, *, may_delete: bool) -> Finding:
        """Announced once, when first seen; deleted only where policy and age say so."""
        found = Finding(Kind.ORPHAN, stray.machine.id, stray.mark.instance_id, "keep")
        first_seen = self.orphans.first_seen(stray.machine.id)
        if first_seen is None:
            if done := not self.dry_run and self.orphans.announce(stray, self.clock()):
                measure(ORPHANS_FOUND)
            return replace(found, action="announce", done=done)
        if not self.delete_orphans or not may_delete or self.clock() - first_seen < self.orphan_age:
            return found
        return replace(found, action="delete", done=not self.dry_run and self._deleted(stray))

    def _changed_lately(self, record: Instance, began: datetime) -> bool:
        """A list that lags shows it as it was before."""
        latest = max(record.updated_at, record.acted_at or record.updated_at)
        return began - latest < self.policy.settle

    def _asked(self, record: Instance, machine_id: str) -> Decision:
        """What a get by id tells, or nothing."""
        began = self.clock()
        try:
            machine = self.novita.get(machine_id, within=self.within())
        except MachineNotFound:
            return self._decided(record, Missing(machine_id, began))
        except (NovitaForNow, NovitaRefused) as error:
            logger.warning("machine not confirmed", novita_id=machine_id, code=error.code)
            return Decision(record, began, self.policy, began)
        return self._decided(record, Seen(machine, began))

    def _deleted(self, stray: Stray) -> bool:
        """Only what is, at this very moment, a machine with our mark and nobody's."""
        if not self._still_ours(stray) or self._owned(stray):
            return False
        try:
            self.novita.delete(stray.machine.id, within=self.within())
        except (NovitaForNow, NovitaRefused) as error:
            logger.warning("orphan not deleted", novita_id=stray.machine.id, code=error.code)
            return False
        logger.warning("orphan deleted", novita_id=stray.machine.id)
        measure(ORPHANS_DELETED)
        return True

    def _owned(self, stray: Stray) -> bool:
        """Read last, and consistently: it may have been imported while the sweep ran."""
        return self.instances.get(stray.mark.instance_id) is not None or bool(
            self.instances.owner(stray.machine.id)
        )

    def _still_ours(self, stray: Stray) -> bool:
        try:
            machine = self.novita.get(stray.machine.id, within=self.within())
        except MachineNotFound:
            return False
        except (NovitaForNow, NovitaRefused) as error:
            logger.warning("machine not confirmed", novita_id=stray.machine.id, code=error.code)
            return False
        return read_mark(machine.name, self.deployment()) == stray.mark and read(machine) is not Reading.GONE

    def _decided(self, record: Instance, observation: Observation) -> Decision:
        return left_to_its_worker(record, decide(record, observation, self.clock(), self.policy))

    def _stored(self, record: Instance, decision: Decision) -> bool:
        """The version that was read is the claim: of two sweeps one stores, and neither undoes a step."""
        if self.dry_run or not _differs(record, decision.record):
            return False
        with correlated(record.correlation_id, instance_id=record.id):
            return self.advance.store(decision) is not None


def _differs(before: Instance, after: Instance) -> bool:
    """More than when it was last looked at: a running machine is not written anew every minute."""
    same = replace(
        after, looked_at=before.looked_at, seen_at=before.seen_at, next_check_at=before.next_check_at
    )
    return same != before
