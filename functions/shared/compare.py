"""Comparing Novita's list with the records: what differs, and whether that can be believed."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import TypeVar

from functions.shared.adapters.instances import Instances
from functions.shared.adapters.items import UNREADABLE
from functions.shared.adapters.novita.client import Novita
from functions.shared.adapters.orphans import Orphans
from functions.shared.domain.decision import Policy
from functions.shared.domain.errors import NovitaForNow, NovitaRefused
from functions.shared.domain.findings import Finding, Outcome
from functions.shared.domain.ids import read_mark
from functions.shared.domain.instance import Fault, Instance
from functions.shared.domain.machine import Machine
from functions.shared.domain.survey import Stray, Survey, survey
from functions.shared.log import correlated, logger
from functions.shared.metrics import BRAKES, measure
from functions.shared.put_right import PutRight

T = TypeVar("T")

SPARE_SECONDS = 5.0  # left to store what was learned
_SWEEP_SECONDS = 60  # from one sweep to the next

Look = tuple[Instance | None, Callable[[], Finding | None]]  # at what is about this instance, if at any


@dataclass(frozen=True)
class Compare:
    instances: Instances
    orphans: Orphans
    novita: Novita
    put_right: PutRight
    deployment: Callable[[], str]
    policy: Policy
    clock: Callable[[], datetime]
    time_left: Callable[[], float]

    def __call__(self, *, dry_run: bool = False) -> Outcome:
        began = self.clock()
        # Records first: one that is stored after this has a machine that the list may lack, not the reverse.
        records = self.instances.all_live()
        try:
            machines = self.novita.list(within=self.time_left() - SPARE_SECONDS)
        except (NovitaForNow, NovitaRefused) as error:
            logger.warning("novita's list could not be read", code=error.code)
            return Outcome(False, len(records), fault=Fault(error.code, error.message))
        found = self._survey(machines, records, began)
        new = sum(self.orphans.first_seen(stray.machine.id) is None for stray in found.orphans)
        braked = found.alarming(new)
        if braked:
            logger.error("sweep braked", known=found.known, unlisted=len(found.unlisted), new_orphans=new)
            if not dry_run:
                measure(BRAKES)
        put_right = replace(self.put_right, dry_run=dry_run or braked)
        return self._work_through(found, began, put_right, braked)

    def _survey(self, machines: tuple[Machine, ...], records: list[Instance], began: datetime) -> Survey:
        deployment = self.deployment()
        by_id = {record.id: record for record in records}
        marked: dict[str, Instance | None] = {}
        told_of = []
        for machine in machines:
            mark = read_mark(machine.name, deployment)
            try:
                if mark and mark.instance_id not in marked:
                    marked[mark.instance_id] = by_id.get(mark.instance_id) or self.instances.get(
                        mark.instance_id
                    )
            except UNREADABLE:  # it has a record, so that it is nobody's to deal with here
                logger.exception("record not read", instance_id=mark and mark.instance_id)
            else:
                told_of.append(machine)
        return survey(tuple(told_of), records, marked, deployment, missed_since=began - self.policy.settle)

    def _work_through(self, found: Survey, began: datetime, put_right: PutRight, braked: bool) -> Outcome:
        """Each on its own: one that cannot be dealt with must not hold up those behind it."""
        findings: list[Finding] = []
        left_over = 0
        for record, look in _looks(found, began, put_right):
            if self.time_left() < SPARE_SECONDS:
                left_over += 1
                continue
            with _about(record):
                try:
                    finding = look()
                except Exception:  # noqa: BLE001  # whatever it is, the next sweep meets it again
                    logger.exception("not put right")
                    left_over += 1
                    continue
            if finding is not None:
                findings.append(finding)
        return Outcome(left_over == 0, found.known, braked, tuple(findings))


def _about(record: Instance | None) -> AbstractContextManager[None]:
    """What is logged and asked about an instance carries its correlation id; an orphan has none."""
    return correlated(record.correlation_id, instance_id=record.id) if record else nullcontext()


def _looks(found: Survey, began: datetime, do: PutRight) -> Iterator[Look]:
    at_once = int(found.at_once)  # of what needs calls of its own; the rest is for the next sweep
    for record, machine in found.matched:
        yield record, partial(do.matched, record, machine, began)
    for record in found.unlisted:
        yield record, partial(do.unlisted, record, began)
    for record, stray in found.strays:
        yield record, partial(do.surplus, record, stray, began)
    turn = at_once * int(began.timestamp() // _SWEEP_SECONDS)
    for record, stray in _from(turn, found.returned)[:at_once]:
        yield record, partial(do.returned, record, stray)
    deletions = 0

    def orphan(stray: Stray) -> Finding:
        nonlocal deletions
        finding = do.orphan(stray, may_delete=deletions < at_once)
        deletions += finding.action == "delete"
        return finding

    for stray in _from(turn, found.orphans):
        yield None, partial(orphan, stray)


def _from(turn: int, all_of_them: Sequence[T]) -> Sequence[T]:
    """Every sweep begins elsewhere, so that what cannot be dealt with holds up nothing else for good."""
    start = turn % len(all_of_them) if all_of_them else 0
    return (*all_of_them[start:], *all_of_them[:start])
