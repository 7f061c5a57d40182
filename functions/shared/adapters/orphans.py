"""Machines with our mark and no record: when each was first seen, and the one event that says so."""

from collections.abc import Callable
from datetime import datetime

from functions.shared.adapters.items import RETENTION, millis, moment
from functions.shared.adapters.table import NEW, ConditionFailed, Item, Table, Write
from functions.shared.domain.survey import Stray


class Orphans:
    def __init__(self, table: Table, new_id: Callable[[], str]) -> None:
        self._table = table
        self._new_id = new_id

    def first_seen(self, machine_id: str) -> datetime | None:
        known = self._table.get(f"orphan#{machine_id}", "orphan")
        return moment(known["firstSeen"]) if known else None

    def announce(self, stray: Stray, now: datetime) -> bool:
        """Seen for the first time, with an event in the same write; False if another sweep was quicker."""
        pk = f"orphan#{stray.machine.id}"
        orphan = {"pk": pk, "sk": "orphan", "kind": "orphan", "firstSeen": millis(now)}
        try:
            self._table.transact([Write(orphan, NEW), Write(self._event(pk, stray, now), NEW)])
        except ConditionFailed:
            return False
        return True

    def _event(self, pk: str, stray: Stray, now: datetime) -> Item:
        return {
            "pk": pk,
            "sk": "event#0000000001",
            "kind": "event",
            "id": self._new_id(),
            "type": "orphan.detected",
            "timestamp": now.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "data": {
                "novitaInstanceId": stray.machine.id,
                "name": stray.machine.name,
                "status": stray.machine.status,
                "instanceId": stray.mark.instance_id,
            },
            "due": "event",
            "dueAt": millis(now),
            "expiresAt": int((now + RETENTION).timestamp()),
        }
