"""The deployment's id, made once, and orphans: machines that carry its mark and have no record."""

from collections.abc import Callable
from datetime import datetime

from functions.shared.domain.ids import new_deployment_id
from functions.shared.domain.instance.comparison import MarkedMachine
from functions.shared.stores.table import NEW, RETENTION, ConditionFailed, Item, Table, Write, millis, moment


class DeploymentId:
    def __init__(self, table: Table) -> None:
        self._table = table
        self._id: str | None = None

    def id(self) -> str:
        if self._id is None:
            self._id = self._read() or self._make()
        return self._id

    def _read(self) -> str | None:
        item = self._table.get("deployment", "deployment")
        return str(item["id"]) if item else None

    def _make(self) -> str:
        made = new_deployment_id()
        item = {"pk": "deployment", "sk": "deployment", "kind": "deployment", "id": made}
        try:
            self._table.put(Write(item, NEW))
        except ConditionFailed:
            return self._read() or made
        return made


class Orphans:
    def __init__(self, table: Table, new_id: Callable[[], str]) -> None:
        self._table = table
        self._new_id = new_id

    def first_seen(self, machine_id: str) -> datetime | None:
        known = self._table.get(f"orphan#{machine_id}", "orphan")
        return moment(known["firstSeen"]) if known else None

    def announce(self, marked: MarkedMachine, now: datetime) -> bool:
        """Seen for the first time, with an event in the same write; False if another sweep was quicker."""
        pk = f"orphan#{marked.machine.id}"
        orphan = {"pk": pk, "sk": "orphan", "kind": "orphan", "firstSeen": millis(now)}
        try:
            self._table.transact([Write(orphan, NEW), Write(self._event(pk, marked, now), NEW)])
        except ConditionFailed:
            return False
        return True

    def _event(self, pk: str, marked: MarkedMachine, now: datetime) -> Item:
        return {
            "pk": pk,
            "sk": "event#0000000001",
            "kind": "event",
            "id": self._new_id(),
            "type": "orphan.detected",
            "timestamp": now.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "data": {
                "novitaInstanceId": marked.machine.id,
                "name": marked.machine.name,
                "status": marked.machine.status,
                "instanceId": marked.mark.instance_id,
            },
            "due": "event",
            "dueAt": millis(now),
            "expiresAt": int((now + RETENTION).timestamp()),
        }
