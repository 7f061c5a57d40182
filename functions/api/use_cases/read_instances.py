"""Reading instances: one, fresh where it matters; many, newest first; what happened to one; its last use."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

from functions.api.responses import how_many_fit
from functions.api.views import EventView, InstanceView, event_view, instance_view
from functions.shared.domain.errors import (
    Conflict,
    MachineNotFound,
    NotFound,
    NotNow,
    NovitaForNow,
    NovitaRefused,
    lacks_slots,
)
from functions.shared.domain.instance.commands import refuse_missing
from functions.shared.domain.instance.decide import decide
from functions.shared.domain.instance.decision import Policy, leave_to_its_step
from functions.shared.domain.instance.machine import Connection
from functions.shared.domain.instance.observations import NotFoundById, Observation, Seen
from functions.shared.domain.instance.progress import left_to_its_step
from functions.shared.domain.instance.record import Instance
from functions.shared.domain.instance.status import WITHOUT_MACHINE
from functions.shared.platform.observability import logger

if TYPE_CHECKING:
    from functions.api.cursors import Cursors
    from functions.shared.engine.step import StepRunner
    from functions.shared.novita.client import Novita
    from functions.shared.stores.cache import SharedCache
    from functions.shared.stores.circuits import Circuits
    from functions.shared.stores.instances import Instances
    from functions.shared.stores.last_sweep import LastSweep
    from functions.shared.stores.last_used import LastUsed
    from functions.shared.stores.listings import Listing
    from functions.shared.stores.recent_outage import RecentOutage
    from functions.shared.stores.totals import Totals


DETAILS = "details"  # which records hold, in the statistics of caches
# Then it is shown as it was last seen: nobody's GET becomes slow by what others read.
_SLOT_SECONDS = 0.5


def find_instance(instances: Instances, instance_id: str) -> Instance:
    return _required(instances.get(instance_id))


def _required(record: Instance | None) -> Instance:
    if record is None:
        raise NotFound("INSTANCE_NOT_FOUND", "There is no instance of that id")
    return record


@dataclass(frozen=True)
class InstancesPage:
    instances: list[InstanceView]
    total: int | None
    next_cursor: str | None
    stale: bool  # Novita cannot be asked, so what is shown may be old


@dataclass(frozen=True)
class ReadInstances:
    instances: Instances
    last_used: LastUsed
    last_sweep: LastSweep
    novita: Novita
    steps: StepRunner
    policy: Policy
    clock: Callable[[], datetime]
    cursors: Cursors
    totals: Totals
    cache: SharedCache
    recent_outage: RecentOutage
    circuits: Circuits
    details_ttl: float
    lookup_seconds: float

    def one(self, instance_id: str) -> tuple[Instance, bool]:
        """The instance, and whether what is shown may be out of date because Novita does not answer.

        While its own step is at work the record is shown as that step left it. It is then stale only if it is
        older than `details_ttl` and Novita is known not to answer.
        """
        found, use = self.instances.get_with_use(instance_id)
        record, stale = self._looked_at(_required(found))
        shown = self._last_shown(record)
        return replace(shown, last_used_at=use.at or shown.last_used_at), stale

    def _looked_at(self, record: Instance) -> tuple[Instance, bool]:
        if record.live_machine_id is None or record.status in WITHOUT_MACHINE:
            return record, False
        known_at = (record.machine.seen_at, record.machine.last_missed_at, record.created_at)
        fresh = (self.clock() - max(filter(None, known_at))).total_seconds() < self.details_ttl
        if left_to_its_step(record, self.clock()):
            return record, not fresh and self._novita_is_down()
        self.cache.count(DETAILS, hit=fresh)
        if fresh:
            return record, False
        if self.recent_outage.is_on():
            return record, True
        try:
            observation = self._look(record)
        except (NovitaForNow, NovitaRefused) as error:
            if isinstance(error, NovitaForNow) and not isinstance(error, NotNow):
                self.recent_outage.note()  # the others who ask now need not wait as long
            stale = not lacks_slots(error) or self._novita_is_down()
            logger.info("shown as it was last seen", code=error.code, stale=stale)
            return record, stale
        self.cache.count_set(DETAILS)
        decision = leave_to_its_step(record, decide(record, observation, self.clock(), self.policy))
        return self.steps.store(decision) or find_instance(self.instances, record.id), False

    def note_use(self, instance_id: str, used_at: datetime | None) -> Instance:
        record, at = find_instance(self.instances, instance_id), used_at or self.clock()
        return replace(record, last_used_at=self.last_used.note(instance_id, at))

    def connection(self, instance_id: str) -> Connection:
        """Fetched live, and neither stored nor logged."""
        record = find_instance(self.instances, instance_id)
        if record.live_machine_id is None:
            raise Conflict("INSTANCE_HAS_NO_MACHINE", f"{instance_id} is {record.status} and has no machine")
        refuse_missing(record)
        try:
            return self.novita.connection(record.live_machine_id, within=self.lookup_seconds * 5)
        except MachineNotFound:
            raise Conflict("INSTANCE_HAS_NO_MACHINE", "Novita does not show the machine") from None

    def events(
        self, instance_id: str, *, limit: int, cursor: str | None
    ) -> tuple[list[EventView], str | None]:
        """Oldest first, and the cursor to go on with."""
        listing = f"events {instance_id}"
        after = self.cursors.read_number(cursor, listing) if cursor else 0
        find_instance(self.instances, instance_id)
        found = [event_view(one) for one in self.instances.events(instance_id, after, limit + 1)]
        shown = found[: how_many_fit(found[:limit])]
        more = len(found) > len(shown)
        return shown, self.cursors.make(str(shown[-1]["sequence"]), listing) if more else None

    def page(self, listing: Listing, *, limit: int, cursor: str | None) -> InstancesPage:
        signed = json.dumps([listing.name, listing.status, listing.tag, listing.owner])
        after = self.cursors.read(cursor, signed) if cursor else None
        found, end = self.instances.page(listing, limit=limit, after=after)
        total = None if cursor else self.totals.of(listing)
        used, now = self.last_used.of(record.id for record in found), self.clock()
        shown = [
            instance_view(
                replace(self._last_shown(one), last_used_at=used.get(one.id, one.last_used_at)), now
            )
            for one in found
        ]
        if (fit := how_many_fit(shown)) < len(found):
            end = found[fit - 1].id
        following = self.cursors.make(end, signed) if end else None
        return InstancesPage(shown[:fit], total, following, self._novita_is_down())

    def _last_shown(self, record: Instance) -> Instance:
        return self.last_sweep.last_shown(record, self.details_ttl)

    def _novita_is_down(self) -> bool:
        return self.circuits.is_open("reads") or self.recent_outage.is_on()

    def _look(self, record: Instance) -> Observation:
        began = self.clock()
        machine_id = record.machine.id or ""
        try:
            shown = self.novita.get(machine_id, within=self.lookup_seconds, slot_wait=_SLOT_SECONDS)
            return Seen(shown, began)
        except MachineNotFound:
            return NotFoundById(machine_id, began)
