"""Reading instances: one, fresh where it matters; many, newest first; and what happened to one."""

import base64
import binascii
import hashlib
import hmac
import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from functions.shared.adapters.instances import Instances
from functions.shared.adapters.novita.client import Novita
from functions.shared.advance import Advance
from functions.shared.domain.decide import decide
from functions.shared.domain.decision import Policy, left_to_its_worker
from functions.shared.domain.errors import (
    CallerError,
    Conflict,
    MachineNotFound,
    NotFound,
    NovitaForNow,
    NovitaRefused,
)
from functions.shared.domain.instance import Event, Instance
from functions.shared.domain.machine import Connection
from functions.shared.domain.observation import Missing, Observation, Seen
from functions.shared.domain.status import Status
from functions.shared.log import logger

# There is nothing to look at yet or any more; or the application itself is being asked, which tells more.
_LEFT_ALONE = frozenset({Status.CREATING, Status.HEALTH_CHECKING, Status.DELETING, Status.TERMINATED})
_LONGEST_STEP = timedelta(minutes=2)  # as long as a function may live


def stored(instances: Instances, instance_id: str) -> Instance:
    record = instances.get(instance_id)
    if record is None:
        raise NotFound("INSTANCE_NOT_FOUND", "There is no instance of that id")
    return record


@dataclass(frozen=True)
class Page:
    instances: list[Instance]
    total: int | None
    next_cursor: str | None


@dataclass(frozen=True)
class ReadInstances:
    instances: Instances
    novita: Novita
    advance: Advance
    policy: Policy
    clock: Callable[[], datetime]
    cursor_key: Callable[[], str]
    details_ttl: float
    lookup_seconds: float

    def one(self, instance_id: str) -> tuple[Instance, bool]:
        """The instance, and whether what is shown may be out of date because Novita did not answer."""
        record = stored(self.instances, instance_id)
        if not self._worth_asking(record):
            return record, False
        try:
            observation = self._look(record)
        except (NovitaForNow, NovitaRefused) as error:
            logger.info("shown stale", code=error.code)
            return record, True
        decision = left_to_its_worker(record, decide(record, observation, self.clock(), self.policy))
        return self.advance.store(decision) or stored(self.instances, instance_id), False

    def connection(self, instance_id: str) -> Connection:
        """Fetched live, and neither stored nor logged."""
        record = stored(self.instances, instance_id)
        if record.machine_id is None or record.machine_id in record.gone:
            raise Conflict("INSTANCE_HAS_NO_MACHINE", f"{instance_id} is {record.status} and has no machine")
        try:
            return self.novita.connection(record.machine_id, within=self.lookup_seconds * 5)
        except MachineNotFound:
            raise Conflict("INSTANCE_HAS_NO_MACHINE", "Novita does not show the machine") from None

    def events(self, instance_id: str) -> list[Event]:
        stored(self.instances, instance_id)
        return self.instances.events(instance_id)

    def page(self, *, name: str | None, status: str | None, limit: int, cursor: str | None) -> Page:
        listing = json.dumps([name, status])
        after = self._read_cursor(cursor, listing) if cursor else None
        found, more = self.instances.page(name=name, status=status, limit=limit, after=after)
        total = None if cursor else self.instances.count(name=name, status=status)
        return Page(found, total, self._cursor(found[-1].id, listing) if more else None)

    def _worth_asking(self, record: Instance) -> bool:
        if record.status in _LEFT_ALONE or record.machine_id is None or record.machine_id in record.gone:
            return False
        now, due = self.clock(), record.next_check_at
        if due and timedelta() <= now - due < _LONGEST_STEP:
            return False  # a step is under way: a write from here would undo it, and a start be made twice
        return (now - (record.seen_at or record.created_at)).total_seconds() >= self.details_ttl

    def _look(self, record: Instance) -> Observation:
        began = self.clock()
        machine_id = record.machine_id or ""
        try:
            return Seen(self.novita.get(machine_id, within=self.lookup_seconds), began)
        except MachineNotFound:
            return Missing(machine_id, began)

    def _cursor(self, after: str, listing: str) -> str:
        signature = self._signature(after, listing)
        return base64.urlsafe_b64encode(f"{after}.{signature}".encode()).decode().rstrip("=")

    def _read_cursor(self, cursor: str, listing: str) -> str:
        try:
            text = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode()
        except (binascii.Error, UnicodeDecodeError, ValueError):
            text = ""
        after, _, signature = text.partition(".")
        if not hmac.compare_digest(signature.encode(), self._signature(after, listing).encode()):
            raise CallerError("INVALID_CURSOR", "The cursor was not made by this service for this listing")
        return after

    def _signature(self, after: str, listing: str) -> str:
        return hmac.digest(self.cursor_key().encode(), f"{after}\n{listing}".encode(), hashlib.sha256).hex()[
            :16
        ]
