"""Comparing Novita's list with the records: what differs, and whether that can be believed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

from functions.shared.domain.errors import Fault, NovitaForNow, NovitaRefused
from functions.shared.domain.instance.comparison import (
    BLANK,
    Comparison,
    ComparisonReport,
    compare,
    report_of,
    too_many,
)
from functions.shared.domain.instance.decision import Policy
from functions.shared.domain.instance.machine import Machine
from functions.shared.domain.instance.record import Instance
from functions.shared.engine.repair import (
    PendingRepair,
    find_marked,
    repair_all,
    repair_rare,
    rotated,
    turn_of,
)
from functions.shared.platform.observability import logger

if TYPE_CHECKING:
    from functions.shared.engine.compare_by_pages import CompareByPages
    from functions.shared.engine.repair import Repair
    from functions.shared.novita.client import Novita
    from functions.shared.platform.invocation import TimeBudget
    from functions.shared.stores.instances import Instances
    from functions.shared.stores.machines import KeyTrust


@dataclass(frozen=True)
class CompareWithNovita:
    instances: Instances
    novita: Novita
    repair: Repair
    by_pages: Callable[[], CompareByPages]
    deployment: Callable[[], str]
    policy: Policy
    clock: Callable[[], datetime]
    budget: TimeBudget
    key_trust: KeyTrust
    sweep_max_repairs: int
    sweep_at_once: int

    def __call__(self, *, dry_run: bool = False, delete_orphans: bool = False) -> ComparisonReport:
        """`delete_orphans`: an admin has said so, however many there are."""
        began = self.clock()
        # Records first: a machine bought meanwhile may then lack in the records, which one look mends.
        fleet = self.instances.fleet()
        if len(fleet) > self.sweep_at_once:
            return self.by_pages()(fleet, dry_run=dry_run, delete_orphans=delete_orphans)
        records = self.instances.whole(one.id for one in fleet)
        try:
            machines = self.novita.list(within=self.budget.to_repair_after())
        except (NovitaForNow, NovitaRefused) as error:
            logger.warning("novita's list could not be read", code=error.code)
            return report_of(fleet, complete=False, fault=Fault(error.code, error.message))
        found = self._compare(machines, records, began)
        proven = self._review_key(found)
        repair = replace(self.repair, dry_run=dry_run)
        doomed = [marked.machine.id for marked in found.orphans if proven and repair.to_delete(marked)]
        held = 0 if delete_orphans or not too_many(len(doomed), found.known) else len(doomed)
        if held:
            logger.error("orphans not deleted: too many at once", orphans=held, known=found.known)
        at_most = len(doomed) if delete_orphans else self.sweep_max_repairs
        turn = turn_of(began, self.sweep_max_repairs)
        deletable = frozenset() if held else frozenset(rotated(turn, doomed)[:at_most])
        differences, left_over = repair_all(self._repairs(found, began, repair, deletable), self.budget)
        if found.blank:
            logger.warning("novita's list could not be read", code=BLANK.code, why=BLANK.message)
        return report_of(
            fleet,
            complete=not left_over,
            fault=BLANK if found.blank else None,
            deletions_held=held,
            differences=tuple(differences),
            orphans=len(found.orphans),
            listed_at=began,
            absent=found.absent,
        )

    def _review_key(self, found: Comparison) -> bool:
        """A key that shows a machine of ours from before it was put in is that of our account."""
        if not self.key_trust.proven():
            self.key_trust.showed(record for record, _ in found.matched)
        return self.key_trust.proven()

    def _compare(
        self, machines: tuple[Machine, ...], records: Sequence[Instance], began: datetime
    ) -> Comparison:
        deployment = self.deployment()
        comparable, marked = find_marked(self.instances, machines, records, deployment)
        return compare(comparable, records, marked, deployment, missed_since=began - self.policy.settle)

    def _repairs(
        self, found: Comparison, began: datetime, repair: Repair, deletable: frozenset[str]
    ) -> Iterator[PendingRepair]:
        for record, machine in found.matched:
            yield record, partial(repair.matched, record, machine, began)
        for record in found.unlisted:
            yield record, partial(repair.unlisted, record, began)
        yield from repair_rare(repair, found, began, deletable, self.sweep_max_repairs)
