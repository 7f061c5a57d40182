"""Comparing a fleet that is too large for one sweep: each goes on in the list where the last one ended.

What a page shows is compared at once. What the whole list lacks is known when it has come to its end, and
makes a look by id due: pages move while one goes through them, so that absence proves even less than usual.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from functions.shared.domain.errors import Fault, NotNow, NovitaForNow, NovitaRefused
from functions.shared.domain.ids import earliest_instance_id, read_mark
from functions.shared.domain.instance.comparison import (
    BLANK,
    Comparison,
    ComparisonReport,
    Difference,
    compare,
    report_of,
    too_many,
)
from functions.shared.domain.instance.decision import Policy
from functions.shared.domain.instance.fleet import Fleet
from functions.shared.domain.instance.list_walk import Walk, Walks, worth_a_look
from functions.shared.domain.instance.machine import Machine, MachineState, machine_state
from functions.shared.engine.repair import Repair, find_marked, repair_all, repair_rare, rotated, turn_of
from functions.shared.platform.observability import logger

if TYPE_CHECKING:
    from functions.shared.novita.client import Novita
    from functions.shared.platform.invocation import TimeBudget
    from functions.shared.stores.instances import Instances
    from functions.shared.stores.list_walks import ListWalks
    from functions.shared.stores.machines import KeyTrust

_PAGES_OF_THE_LIMIT = 0.06  # of the calls in a minute; shared polling and single gets have the rest
_LOOKS_OF_THE_LIMIT = 0.25  # looks that one sweep makes due: more could not be made until the next
_READ_FOR_LOOKS = 4  # records that are read for each of them: some have been looked at already
_WORD_HOLDS = timedelta(hours=2)  # of an admin: until the list has been gone through


@dataclass
class _Turn:
    """What one sweep has found so far."""

    walk: Walk
    fault: Fault | None = None
    shown: set[str] = field(default_factory=set)
    pages: int = 0
    new: int = 0  # machines of pages that this walk had not read yet
    again: set[str] = field(default_factory=set)  # those of the page that it had
    rare: Comparison = field(default_factory=Comparison)
    differences: list[Difference] = field(default_factory=list)
    left_over: int = 0

    def add(self, found: tuple[list[Difference], int]) -> None:
        self.differences += found[0]
        self.left_over += found[1]


@dataclass(frozen=True)
class CompareByPages:
    instances: Instances
    novita: Novita
    list_walks: ListWalks
    repair: Repair
    deployment: Callable[[], str]
    policy: Policy
    clock: Callable[[], datetime]
    budget: TimeBudget
    key_trust: KeyTrust
    sweep_max_repairs: int
    sweep_at_once: int
    novita_rate_limit: int

    def __call__(self, fleet: Fleet, *, dry_run: bool, delete_orphans: bool) -> ComparisonReport:
        began, walks = self.clock(), self.list_walks.read()
        repair = replace(self.repair, dry_run=dry_run)
        size = self.novita.page_size  # smaller than before where Novita has refused large ones
        under_way = walks.now if walks.now and walks.now.page_size <= size else None
        turn = _Turn(under_way or Walk(began, size))
        self._read_pages(turn, repair, began)
        report = report_of(fleet, complete=True)
        if delete_orphans:
            walks = replace(walks, deletions_until=began + _WORD_HOLDS)
        held = self._repair_rare(turn, repair, walks, began, report.known)
        if turn.pages and not dry_run:
            turn.walk = turn.walk.stored()
            self.list_walks.keep(walks, walks.went_on(turn.walk), turn.walk, turn.shown)
        absent = self._unlisted(turn, repair, fleet, walks, began)
        if turn.pages and not turn.walk.ours and report.known > report.missing:
            turn.fault = turn.fault or BLANK
            logger.warning("novita's list could not be read", code=BLANK.code, why=BLANK.message)
        return replace(
            report,
            complete=not turn.left_over and turn.fault is None,
            whole=turn.walk.ended and under_way is None,
            fault=turn.fault,
            deletions_held=held,
            differences=tuple(turn.differences),
            orphans=turn.walk.orphans if turn.walk.ended else None,
            absent=absent or (),
            listed_at=walks.last.began if walks.last and absent is not None else None,
        )

    def _read_pages(self, turn: _Turn, repair: Repair, began: datetime) -> None:
        number, first = turn.walk.starts_at(), turn.walk.page
        most = max(2, int(_PAGES_OF_THE_LIMIT * self.novita_rate_limit))
        while turn.pages < most and turn.new < self.sweep_at_once and self.budget.may_repair():
            try:
                page = self.novita.list_page(
                    number, turn.walk.page_size, within=self.budget.to_repair_after()
                )
            except (NovitaForNow, NovitaRefused) as error:
                logger.warning("novita's list could not be read", code=error.code, page=number)
                if not (turn.pages and isinstance(error, NotNow)):  # without a slot the next sweep goes on
                    turn.fault = Fault(error.code, error.message)
                return
            present = {one.id for one in page.machines if machine_state(one) is not MachineState.GONE}
            turn.pages += 1
            turn.walk = turn.walk.read(number, page.entries, page.total, new=bool(present - turn.shown))
            if number < first:
                turn.again |= present
            else:
                turn.new += len(page.machines)
            turn.shown |= present
            self._compare(turn, page.machines, repair, began)
            if turn.walk.ended:
                return
            number += 1

    def _compare(self, turn: _Turn, machines: tuple[Machine, ...], repair: Repair, began: datetime) -> None:
        """One page, with the records of those whom its machines belong to, or whose mark they have."""
        deployment = self.deployment()
        owners = self.instances.owners(machine.id for machine in machines)
        marks = (read_mark(machine.name, deployment) for machine in machines)
        ids = {*owners.values(), *(mark.instance_id for mark in marks if mark)}
        records = self.instances.whole(ids)
        comparable, marked = find_marked(self.instances, machines, records, deployment)
        found = compare(comparable, records, marked, deployment, missed_since=began)
        if found.matched and not self.key_trust.proven():
            self.key_trust.showed(record for record, _ in found.matched)
        matched = ((record, partial(repair.matched, record, one, began)) for record, one in found.matched)
        turn.add(repair_all(matched, self.budget))
        rare = turn.rare
        turn.rare = replace(
            rare,
            unknown=(*rare.unknown, *found.unknown),
            reappeared=(*rare.reappeared, *found.reappeared),
            orphans=(*rare.orphans, *found.orphans),
        )
        ours = len(found.matched) + len(found.unknown) + len(found.reappeared) + len(found.orphans)
        orphans = sum(one.machine.id not in turn.again for one in found.orphans)
        turn.walk = turn.walk.found(ours=ours, orphans=orphans)

    def _repair_rare(self, turn: _Turn, repair: Repair, walks: Walks, began: datetime, known: int) -> int:
        """How many orphans are not deleted because there are too many of them at once. How many there are
        only a whole list tells: so one is deleted if it was counted in the last of these."""
        proven, last = self.key_trust.proven(), walks.last
        doomed = [one for one in turn.rare.orphans if proven and repair.to_delete(one)]
        turn.walk = turn.walk.found(doomed=sum(one.machine.id not in turn.again for one in doomed))
        allowed = walks.deletions_until is not None and began < walks.deletions_until
        most = max(turn.walk.doomed, last.doomed if last else 0)
        held = most if too_many(most, known) and not allowed else 0
        if held:
            logger.error("orphans not deleted: too many at once", orphans=held, known=known)
        if not allowed:
            doomed = [one for one in doomed if last and not held and repair.to_delete(one, last.began)]
        at_most = len(doomed) if allowed else self.sweep_max_repairs
        first = turn_of(began, self.sweep_max_repairs)
        deletable = rotated(first, [one.machine.id for one in doomed])[:at_most]
        pending = repair_rare(repair, turn.rare, began, frozenset(deletable), self.sweep_max_repairs)
        turn.add(repair_all(pending, self.budget))
        return held

    def _unlisted(
        self, turn: _Turn, repair: Repair, fleet: Fleet, walks: Walks, began: datetime
    ) -> tuple[str, ...] | None:
        """Machines that the last whole list lacked; None where there is none to tell. Looks are made due for
        as many of them as can be looked at: a list that lacks thousands is more likely wrong."""
        last = walks.last
        shown = self.list_walks.shown(last) if last and last.ours else None
        if last is None or shown is None:
            return None
        since = last.began - self.policy.settle
        old = earliest_instance_id(since)  # what is newer may have come after its page was read
        absent = [
            (entry.id, machine_id)
            for entry in fleet
            if entry.id < old and (machine_id := entry.read().machine_id) and machine_id not in shown
        ]
        most = max(1, int(_LOOKS_OF_THE_LIMIT * self.novita_rate_limit))
        some = rotated(turn_of(began, _READ_FOR_LOOKS * most), [one for one, _ in absent])
        records = self.instances.each_whole(some[: _READ_FOR_LOOKS * most])
        missed = (
            record
            for record in records
            if worth_a_look(record, since)
            and record.live_machine_id not in shown
            and record.live_machine_id not in turn.shown
        )
        pending = ((one, partial(repair.unlisted, one, began)) for one in islice(missed, most))
        turn.add(repair_all(pending, self.budget))
        return tuple(machine_id for _, machine_id in absent)
