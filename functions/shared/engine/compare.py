"""Comparing Novita's list with the records: what differs, and whether that can be believed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from functions.shared.domain.errors import Fault, NovitaForNow, NovitaRefused
from functions.shared.domain.ids import read_mark
from functions.shared.domain.instance.comparison import (
    Comparison,
    ComparisonReport,
    Difference,
    compare,
)
from functions.shared.domain.instance.decision import Policy
from functions.shared.domain.instance.machine import Machine
from functions.shared.domain.instance.record import Instance
from functions.shared.platform.observability import correlated, logger
from functions.shared.stores.table import UNREADABLE

if TYPE_CHECKING:
    from functions.shared.engine.repair import Repair
    from functions.shared.novita.client import Novita
    from functions.shared.platform.invocation import TimeBudget
    from functions.shared.stores.instances import Instances
    from functions.shared.stores.machines import KeyTrust

T = TypeVar("T")

_SWEEP_SECONDS = 60  # from one sweep to the next
_BLANK = Fault("NOVITA_UNAVAILABLE", "Novita's list shows none of the machines that are known")

PendingRepair = tuple[Instance | None, Callable[[], Difference | None]]  # of which instance, and the work


@dataclass(frozen=True)
class CompareWithNovita:
    instances: Instances
    novita: Novita
    repair: Repair
    deployment: Callable[[], str]
    policy: Policy
    clock: Callable[[], datetime]
    budget: TimeBudget
    key_trust: KeyTrust
    sweep_max_repairs: int

    def __call__(self, *, dry_run: bool = False, delete_orphans: bool = False) -> ComparisonReport:
        """`delete_orphans`: an admin has said so, however many there are."""
        began = self.clock()
        # Records first: a machine bought meanwhile may then lack in the records, which one look mends.
        records = self.instances.fleet()
        try:
            machines = self.novita.list(within=self.budget.to_repair_after())
        except (NovitaForNow, NovitaRefused) as error:
            logger.warning("novita's list could not be read", code=error.code)
            return _report(records, complete=False, fault=Fault(error.code, error.message))
        found = self._compare(machines, records, began)
        proven = self._review_key(found)
        repair = replace(self.repair, dry_run=dry_run)
        doomed = [marked.machine.id for marked in found.orphans if proven and repair.to_delete(marked)]
        held = 0 if delete_orphans or not found.too_many(len(doomed)) else len(doomed)
        if held:
            logger.error("orphans not deleted: too many at once", orphans=held, known=found.known)
        at_most = len(doomed) if delete_orphans else self.sweep_max_repairs
        deletable = frozenset() if held else frozenset(_from(self._turn(began), doomed)[:at_most])
        differences, left_over = self._repair_all(found, began, repair, deletable)
        if found.blank:
            logger.warning("novita's list could not be read", code=_BLANK.code, why=_BLANK.message)
        return _report(
            records,
            complete=not left_over,
            fault=_BLANK if found.blank else None,
            deletions_held=held,
            differences=tuple(differences),
            absent=found.absent,
        )

    def _turn(self, began: datetime) -> int:
        """Every sweep begins at another one, so that none that fails holds up the others for ever."""
        return self.sweep_max_repairs * int(began.timestamp() // _SWEEP_SECONDS)

    def _review_key(self, found: Comparison) -> bool:
        """A key that shows a machine of ours from before it was put in is that of our account."""
        if not self.key_trust.proven():
            owned = (record.machine.bought_at or record.created_at for record, _ in found.matched)
            self.key_trust.showed(min(owned, default=None))
        return self.key_trust.proven()

    def _compare(self, machines: tuple[Machine, ...], records: list[Instance], began: datetime) -> Comparison:
        deployment = self.deployment()
        by_id = {record.id: record for record in records}
        marked: dict[str, Instance | None] = {}
        comparable = []
        for machine in machines:
            mark = read_mark(machine.name, deployment)
            try:
                if mark and mark.instance_id not in marked:
                    marked[mark.instance_id] = by_id.get(mark.instance_id) or self.instances.get(
                        mark.instance_id
                    )
            except UNREADABLE:  # it has a record, so it is no orphan; left out
                logger.exception("item not read", instance_id=mark and mark.instance_id)
            else:
                comparable.append(machine)
        return compare(
            tuple(comparable), records, marked, deployment, missed_since=began - self.policy.settle
        )

    def _repair_all(
        self, found: Comparison, began: datetime, repair: Repair, deletable: frozenset[str]
    ) -> tuple[list[Difference], int]:
        """Each on its own: one that cannot be dealt with must not hold up those behind it."""
        differences: list[Difference] = []
        left_over = 0
        for record, do in self._repairs(found, began, repair, deletable):
            if not self.budget.may_repair():
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

    def _repairs(
        self, found: Comparison, began: datetime, repair: Repair, deletable: frozenset[str]
    ) -> Iterator[PendingRepair]:
        """Looking again and announcing are never held back; what needs calls of its own, or ends machines, is
        bounded for each kind. The rest is for the next sweep."""
        for record, machine in found.matched:
            yield record, partial(repair.matched, record, machine, began)
        for record in found.unlisted:
            yield record, partial(repair.unlisted, record, began)
        turn, at_most = self._turn(began), self.sweep_max_repairs
        for record, marked in _from(turn, found.unknown)[:at_most]:
            yield record, partial(repair.surplus, record, marked, began)
        for record, machine in _from(turn, found.reappeared)[:at_most]:
            yield record, partial(repair.reappeared, record, machine)
        for marked in found.orphans:
            yield None, partial(repair.orphan, marked, may_delete=marked.machine.id in deletable)


def _report(records: Sequence[Instance], *, complete: bool, **more: Any) -> ComparisonReport:
    return ComparisonReport(
        complete,
        known=sum(record.live_machine_id is not None for record in records),
        missing=sum(record.missing for record in records),
        stuck=sum(record.stuck for record in records),
        fleet=tuple(records),
        **more,
    )


def _about(record: Instance | None) -> AbstractContextManager[None]:
    """What is logged and asked about an instance carries its correlation id; an orphan has none."""
    return correlated(record.correlation_id, instance_id=record.id) if record else nullcontext()


def _from(turn: int, all_of_them: Sequence[T]) -> Sequence[T]:
    start = turn % len(all_of_them) if all_of_them else 0
    return (*all_of_them[start:], *all_of_them[:start])
