"""What is done about each difference between Novita's list and the records."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from functions.shared.domain.errors import Fault, MachineNotFound, NovitaForNow, NovitaRefused
from functions.shared.domain.ids import read_mark
from functions.shared.domain.instance.comparison import (
    Comparison,
    Difference,
    DifferenceKind,
    MarkedMachine,
    differs,
    needs_confirmation,
    worth_an_early_step,
)
from functions.shared.domain.instance.decide import decide
from functions.shared.domain.instance.decision import Decision, Policy, leave_to_its_step
from functions.shared.domain.instance.machine import Machine, MachineState, machine_state
from functions.shared.domain.instance.observations import (
    NotFoundById,
    NoticeSeen,
    NotListed,
    Observation,
    Reappeared,
    Seen,
    UnknownMachine,
)
from functions.shared.domain.instance.outcomes import refused_again
from functions.shared.domain.instance.purchases import wants_machine
from functions.shared.domain.instance.record import Instance
from functions.shared.domain.instance.sightings import notice_is_new
from functions.shared.platform.observability import (
    ORPHANS_DELETED,
    ORPHANS_FOUND,
    SURPLUS,
    correlated,
    logger,
    measure,
)
from functions.shared.stores.table import UNREADABLE

if TYPE_CHECKING:
    from functions.shared.engine.step import StepRunner
    from functions.shared.novita.client import Novita
    from functions.shared.platform.invocation import TimeBudget
    from functions.shared.stores.instances import Instances
    from functions.shared.stores.machines import Orphans


PendingRepair = tuple[Instance | None, Callable[[], Difference | None]]  # of which instance, and the work
T = TypeVar("T")
_SWEEP_SECONDS = 60  # from one sweep to the next


@dataclass(frozen=True)
class Repair:
    instances: Instances
    orphans: Orphans
    novita: Novita
    steps: StepRunner
    deployment: Callable[[], str]
    policy: Policy
    clock: Callable[[], datetime]
    budget: TimeBudget
    orphan_policy: str
    orphan_age: float  # seconds
    dry_run: bool = False  # says what would be done, and does nothing

    def matched(self, record: Instance, machine: Machine, began: datetime) -> Difference | None:
        """Only what is at rest: the others have steps, which a write from here would make stale."""
        if not record.at_rest:
            if notice_is_new(record, machine):
                return self._followed(record, decide(record, NoticeSeen(machine, began), began, self.policy))
            if worth_an_early_step(record, machine, self.clock()) and not self.dry_run:
                self.steps.enqueue(record, record.next_check_at or self.clock())
            return None
        decision = self._decide(record, Seen(machine, began))
        if not record.machine.owned:  # stored by a version that kept no owner for machines it bought
            decision = decision.own(machine.id)
        if needs_confirmation(decision):  # a list may be minutes old, and how old no clock tells for sure
            decision = self._confirm(record, machine)
        return self._followed(record, decision)

    def _followed(self, record: Instance, decision: Decision) -> Difference | None:
        if not differs(record, decision.record):
            return None
        done = self._store(record, decision)
        machine_id = record.machine.id or ""
        return Difference(DifferenceKind.FOLLOWED, machine_id, record.id, decision.record.status, done)

    def unlisted(self, record: Instance, began: datetime) -> Difference:
        machine_id = record.machine.id or ""
        if not record.at_rest:
            return Difference(DifferenceKind.DOUBTED, machine_id, record.id, "look")
        decision = self._decide(record, NotListed(machine_id, began))
        return Difference(
            DifferenceKind.DOUBTED, machine_id, record.id, "look", self._store(record, decision)
        )

    def surplus(self, record: Instance, marked: MarkedMachine, began: datetime) -> Difference:
        """Adopted where one is waited for; else given back if a purchase of ours explains it."""
        machine_id, wanted = marked.machine.id, wants_machine(record)
        logger.warning("surplus machine", instance_id=record.id, novita_id=machine_id)
        action = "adopt" if wanted else "delete"
        if self.dry_run:
            return Difference(DifferenceKind.SURPLUS, machine_id, record.id, action)
        if not self.instances.turned_out_bought(marked.mark, marked.machine, began, wanted=wanted):
            return self.orphan(marked, may_delete=False)
        record = self.instances.get(record.id) or record  # this sweep may have changed it already
        decision = self._decide(record, UnknownMachine(machine_id))
        return self._surplus(record, machine_id, action, decision)

    def reappeared(self, record: Instance, machine: Machine) -> Difference | None:
        """A list that lags may show what is gone: only a get by id is believed."""
        began = self.clock()
        if (shown := self._shown(machine.id)) is None:
            return None
        logger.warning("machine reappeared", instance_id=record.id, novita_id=machine.id)
        record = self.instances.get(record.id) or record  # this sweep may have changed it already
        decision = self._decide(record, Reappeared(shown, began))
        action = "delete" if decision.record.cleanup.tasks else "adopt"
        return self._surplus(record, machine.id, action, decision)

    def _surplus(self, record: Instance, machine_id: str, action: str, decision: Decision) -> Difference:
        if done := self._store(record, decision):
            measure(SURPLUS, by=action)
        return Difference(DifferenceKind.SURPLUS, machine_id, record.id, action, done)

    def orphan(self, marked: MarkedMachine, *, may_delete: bool) -> Difference:
        """Announced once, when first seen; deleted only where policy and age say so."""
        found = Difference(DifferenceKind.ORPHAN, marked.machine.id, marked.mark.instance_id, "keep")
        if self.orphans.known(marked.machine.id) is None:
            if done := not self.dry_run and self.orphans.announce(marked, self.clock()):
                measure(ORPHANS_FOUND)
            return replace(found, action="announce", done=done)
        if not may_delete:
            return found
        return replace(found, action="delete", done=not self.dry_run and self._delete(marked))

    def to_delete(self, marked: MarkedMachine, at: datetime | None = None) -> bool:
        """Whether policy and age say that it is to be deleted, or said so at that time, and Novita is not to
        be asked later."""
        known = self.orphans.known(marked.machine.id) if self.orphan_policy == "delete" else None
        if known is None or (known.refusal and self.clock() < known.refusal.again_at):
            return False
        return (at or self.clock()) - known.first_seen >= timedelta(seconds=self.orphan_age)

    def _confirm(self, record: Instance, listed: Machine) -> Decision:
        """What a get by id tells, or nothing. Of spot only the list tells, by Novita's own documents."""
        began, machine_id = self.clock(), listed.id
        try:
            machine = self.novita.get(machine_id, within=self.budget.to_repair_after())
        except MachineNotFound:
            return self._decide(record, NotFoundById(machine_id, began))
        except (NovitaForNow, NovitaRefused) as error:
            logger.warning("machine not confirmed", novita_id=machine_id, code=error.code)
            return Decision(record, began, self.policy, began)
        if not machine.spot_status and machine.spot_reclaim_at is None:
            at = listed.spot_reclaim_at
            machine = replace(machine, spot_status=listed.spot_status, spot_reclaim_at=at)
        return self._decide(record, Seen(machine, began))

    def _delete(self, marked: MarkedMachine) -> bool:
        """Only what is, at this very moment, a machine with our mark and nobody's."""
        if not self._still_ours(marked):
            return False
        owned, known = partial(self._owned, marked), self.orphans.known(marked.machine.id)
        try:
            self.novita.delete(
                marked.machine.id,
                within=self.budget.to_repair_after(),
                unless=owned,
                refused_before=bool(known and known.refusal),
            )
        except (NovitaForNow, NovitaRefused) as error:
            logger.warning("orphan not deleted", novita_id=marked.machine.id, code=error.code)
            if isinstance(error, NovitaRefused) and not isinstance(error, MachineNotFound):
                self._refused(marked, error.fault)
            return False
        logger.warning("orphan deleted", novita_id=marked.machine.id)
        measure(ORPHANS_DELETED)
        return True

    def _refused(self, marked: MarkedMachine, fault: Fault) -> None:
        now, known = self.clock(), self.orphans.known(marked.machine.id)
        if known:
            refusal = refused_again(known.refusal, now, self.policy.poll)
            self.orphans.refused(marked, replace(known, refusal=refusal), fault, now)

    def _owned(self, marked: MarkedMachine) -> bool:
        """Read last, and consistently: it may have been imported while the sweep ran."""
        return self.instances.get(marked.mark.instance_id) is not None or bool(
            self.instances.owner(marked.machine.id)
        )

    def _still_ours(self, marked: MarkedMachine) -> bool:
        machine = self._shown(marked.machine.id)
        return machine is not None and read_mark(machine.name, self.deployment()) == marked.mark

    def _shown(self, machine_id: str) -> Machine | None:
        try:
            machine = self.novita.get(machine_id, within=self.budget.to_repair_after())
        except MachineNotFound:
            return None
        except (NovitaForNow, NovitaRefused) as error:
            logger.warning("machine not confirmed", novita_id=machine_id, code=error.code)
            return None
        return machine if machine_state(machine) is not MachineState.GONE else None

    def _decide(self, record: Instance, observation: Observation) -> Decision:
        return leave_to_its_step(record, decide(record, observation, self.clock(), self.policy))

    def _store(self, record: Instance, decision: Decision) -> bool:
        """Only over the version that was read: of two sweeps one stores, and neither overwrites a step."""
        if self.dry_run or not differs(record, decision.record):
            return False
        with correlated(record.correlation_id, instance_id=record.id):
            return self.steps.store(decision) is not None


def find_marked(
    instances: Instances, machines: Iterable[Machine], records: Iterable[Instance], deployment: str
) -> tuple[list[Machine], dict[str, Instance | None]]:
    """The record of every id that a mark names. A machine whose record cannot be read is left out: it has
    one, so that it is no orphan."""
    by_id = {record.id: record for record in records}
    marked: dict[str, Instance | None] = {}
    comparable = []
    for machine in machines:
        mark = read_mark(machine.name, deployment)
        try:
            if mark and mark.instance_id not in marked:
                marked[mark.instance_id] = by_id.get(mark.instance_id) or instances.get(mark.instance_id)
        except UNREADABLE:
            logger.exception("item not read", instance_id=mark and mark.instance_id)
        else:
            comparable.append(machine)
    return comparable, marked


def repair_rare(
    repair: Repair, found: Comparison, began: datetime, deletable: frozenset[str], at_most: int
) -> Iterator[PendingRepair]:
    """Announcing is never held back; what needs calls of its own, or ends machines, is bounded for each kind.
    The rest is for the next sweep."""
    turn = turn_of(began, at_most)
    for record, marked in rotated(turn, found.unknown)[:at_most]:
        yield record, partial(repair.surplus, record, marked, began)
    for record, machine in rotated(turn, found.reappeared)[:at_most]:
        yield record, partial(repair.reappeared, record, machine)
    for marked in found.orphans:
        yield None, partial(repair.orphan, marked, may_delete=marked.machine.id in deletable)


def repair_all(pending: Iterable[PendingRepair], budget: TimeBudget) -> tuple[list[Difference], int]:
    """What was found, and how many are left over. Each on its own: one that cannot be dealt with must not
    hold up those behind it."""
    differences: list[Difference] = []
    left_over = 0
    for record, do in pending:
        if not budget.may_repair():
            left_over += 1
            continue
        with _about(record):
            try:
                difference = do()
            except Exception:  # noqa: BLE001  # whatever it is, the next sweep meets it again
                logger.exception("difference not repaired")
                left_over += 1
                continue
        if difference is not None:
            differences.append(difference)
    return differences, left_over


def turn_of(began: datetime, many: int) -> int:
    """Every sweep begins so many further, so that none that fails holds up the others for ever."""
    return many * int(began.timestamp() // _SWEEP_SECONDS)


def rotated(turn: int, all_of_them: Sequence[T]) -> Sequence[T]:
    start = turn % len(all_of_them) if all_of_them else 0
    return (*all_of_them[start:], *all_of_them[:start])


def _about(record: Instance | None) -> AbstractContextManager[None]:
    """What is logged and asked about an instance carries its correlation id; an orphan has none."""
    return correlated(record.correlation_id, instance_id=record.id) if record else nullcontext()
