"""Comparing Novita's list with the records, and putting right what differs."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta

from functions.shared.adapters.instances import Instances
from functions.shared.adapters.novita.client import Novita
from functions.shared.adapters.orphans import Orphans
from functions.shared.advance import Advance
from functions.shared.domain.decide import decide
from functions.shared.domain.decision import Policy
from functions.shared.domain.errors import NovitaForNow, NovitaRefused
from functions.shared.domain.ids import read_mark
from functions.shared.domain.instance import Instance
from functions.shared.domain.machine import Machine
from functions.shared.domain.observation import Astray, Observation, Seen, Unlisted
from functions.shared.domain.survey import Stray, Survey, survey
from functions.shared.log import correlated, logger


@dataclass(frozen=True)
class Outcome:
    """What one comparison found and did."""

    complete: bool = True
    braked: bool = False
    known: int = 0
    changed: int = 0  # records that followed what Novita shows
    unlisted: int = 0
    surplus: int = 0
    orphans: int = 0
    orphans_deleted: int = 0

    def counts(self) -> dict[str, int | bool]:
        return asdict(self)


@dataclass(frozen=True)
class Compare:
    instances: Instances
    orphans: Orphans
    novita: Novita
    advance: Advance
    deployment: Callable[[], str]
    policy: Policy
    clock: Callable[[], datetime]
    time_left: Callable[[], float]
    delete_orphans: bool
    orphan_age: timedelta

    def __call__(self, *, dry_run: bool = False) -> Outcome:
        began = self.clock()
        # Records first: one that is stored after this has a machine that the list may lack, not the reverse.
        records = self.instances.all_live()
        try:
            machines = self.novita.list(within=max(1.0, self.time_left() - 5))
        except (NovitaForNow, NovitaRefused) as error:
            logger.warning("novita's list could not be read", code=error.code)
            return Outcome(complete=False, known=len(records))
        found = self._survey(machines, records)
        if found.alarming:
            logger.error("sweep braked", unlisted=len(found.unlisted), orphans=len(found.orphans))
            return _outcome(found, braked=True)
        return _outcome(found) if dry_run else self._put_right(found, began)

    def _survey(self, machines: tuple[Machine, ...], records: list[Instance]) -> Survey:
        deployment = self.deployment()
        marks = {mark.instance_id for one in machines if (mark := read_mark(one.name, deployment))}
        by_id = {record.id: record for record in records}
        marked = {id_: by_id.get(id_) or self.instances.get(id_) for id_ in marks}
        return survey(machines, records, marked, deployment)

    def _put_right(self, found: Survey, began: datetime) -> Outcome:
        changed = deleted = 0
        for record, machine in found.matched:
            changed += self._follow(record, Seen(machine, began, listed=True))
        for record in found.unlisted:
            changed += self._follow(record, Unlisted(record.machine_id or "", began))
        for record, stray in found.strays:
            booked = self.instances.turned_out_bought(stray.mark, stray.machine, began)
            changed += self._follow(record, Astray(stray.machine.id, booked))
            logger.warning("surplus machine", instance_id=record.id, novita_id=stray.machine.id)
        for stray in found.orphans:
            deleted += self._orphan(stray)
        return replace(
            _outcome(found), changed=changed, orphans_deleted=deleted, complete=self.time_left() > 0
        )

    def _follow(self, record: Instance, observation: Observation) -> bool:
        if self.time_left() < 5:
            return False
        now = self.clock()
        with correlated(record.correlation_id, instance_id=record.id):
            decision = decide(record, observation, now, self.policy)
            if decision.call is not None:  # for its own function to make, now
                decision = replace(decision.due(now), call=None)
            if not _differs(record, decision.record):
                return False
            return self.advance.store(decision) is not None

    def _orphan(self, stray: Stray) -> bool:
        """Announced once, when first seen; deleted only where policy and age say so."""
        first_seen = self.orphans.seen(stray, self.clock())
        if not self.delete_orphans or self.clock() - first_seen < self.orphan_age:
            return False
        try:
            self.novita.delete(stray.machine.id, within=max(1.0, self.time_left() - 5))
        except (NovitaForNow, NovitaRefused) as error:
            logger.warning("orphan not deleted", novita_id=stray.machine.id, code=error.code)
            return False
        logger.warning("orphan deleted", novita_id=stray.machine.id)
        return True


def _outcome(found: Survey, *, braked: bool = False) -> Outcome:
    return Outcome(
        braked=braked,
        known=found.known,
        unlisted=len(found.unlisted),
        surplus=len(found.strays),
        orphans=len(found.orphans),
    )


def _differs(before: Instance, after: Instance) -> bool:
    """More than when it was last looked at: a running machine is not written anew every minute."""
    same = replace(
        after, looked_at=before.looked_at, seen_at=before.seen_at, next_check_at=before.next_check_at
    )
    return same != before
