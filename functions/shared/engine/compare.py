"""Comparing Novita's list with the records: what differs, and whether that can be believed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from functions.shared.domain.errors import Fault, NovitaForNow, NovitaRefused
from functions.shared.domain.ids import read_mark
from functions.shared.domain.instance.comparison import (
    Comparison,
    ComparisonReport,
    Difference,
    MarkedMachine,
    compare,
)
from functions.shared.domain.instance.decision import Policy
from functions.shared.domain.instance.machine import Machine
from functions.shared.domain.instance.record import Instance
from functions.shared.platform.observability import BRAKES, correlated, logger, measure
from functions.shared.stores.table import UNREADABLE

if TYPE_CHECKING:
    from functions.shared.engine.repair import Repair
    from functions.shared.novita.client import Novita
    from functions.shared.platform.invocation import TimeBudget
    from functions.shared.stores.instances import Instances
    from functions.shared.stores.machines import Orphans

T = TypeVar("T")

_SWEEP_SECONDS = 60  # from one sweep to the next

PendingRepair = tuple[Instance | None, Callable[[], Difference | None]]  # of which instance, and the work


@dataclass(frozen=True)
class CompareWithNovita:
    instances: Instances
    orphans: Orphans
    novita: Novita
    repair: Repair
    deployment: Callable[[], str]
    policy: Policy
    clock: Callable[[], datetime]
    budget: TimeBudget

    def __call__(self, *, dry_run: bool = False) -> ComparisonReport:
        began = self.clock()
        # Records first: a machine bought meanwhile may then lack in the records, which one look mends.
        records = self.instances.fleet()
        try:
            machines = self.novita.list(within=self.budget.to_repair_after())
        except (NovitaForNow, NovitaRefused) as error:
            logger.warning("novita's list could not be read", code=error.code)
            return ComparisonReport(False, len(records), fault=Fault(error.code, error.message))
        found = self._compare(machines, records, began)
        new = sum(self.orphans.first_seen(marked.machine.id) is None for marked in found.orphans)
        braked = found.alarming(new)
        if braked:
            logger.error("sweep braked", known=found.known, unlisted=len(found.unlisted), new_orphans=new)
            if not dry_run:
                measure(BRAKES)
        repair = replace(self.repair, dry_run=dry_run or braked)
        return self._repair_all(found, began, repair, braked)

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
        self, found: Comparison, began: datetime, repair: Repair, braked: bool
    ) -> ComparisonReport:
        """Each on its own: one that cannot be dealt with must not hold up those behind it."""
        differences: list[Difference] = []
        left_over = 0
        for record, do in _repairs(found, began, repair):
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
        return ComparisonReport(left_over == 0, found.known, braked, tuple(differences))


def _about(record: Instance | None) -> AbstractContextManager[None]:
    """What is logged and asked about an instance carries its correlation id; an orphan has none."""
    return correlated(record.correlation_id, instance_id=record.id) if record else nullcontext()


def _repairs(found: Comparison, began: datetime, repair: Repair) -> Iterator[PendingRepair]:
    at_once = int(found.at_once)  # of what needs calls of its own; the rest is for the next sweep
    for record, machine in found.matched:
        yield record, partial(repair.matched, record, machine, began)
    for record in found.unlisted:
        yield record, partial(repair.unlisted, record, began)
    for record, marked in found.unknown:
        yield record, partial(repair.surplus, record, marked, began)
    turn = at_once * int(began.timestamp() // _SWEEP_SECONDS)
    for record, marked in _from(turn, found.reappeared)[:at_once]:
        yield record, partial(repair.reappeared, record, marked)
    deletions = 0

    def orphan(marked: MarkedMachine) -> Difference:
        nonlocal deletions
        difference = repair.orphan(marked, may_delete=deletions < at_once)
        deletions += difference.action == "delete"
        return difference

    for marked in _from(turn, found.orphans):
        yield None, partial(orphan, marked)


def _from(turn: int, all_of_them: Sequence[T]) -> Sequence[T]:
    """Every sweep begins at another one, so that none that fails holds up the others for ever."""
    start = turn % len(all_of_them) if all_of_them else 0
    return (*all_of_them[start:], *all_of_them[:start])
