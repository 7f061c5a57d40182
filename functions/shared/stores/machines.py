"""Machines beside their records: the deployment's mark, orphans that carry it, and how long boots took."""

from collections.abc import Callable
from datetime import datetime

from functions.shared.domain.ids import new_deployment_id, timestamp
from functions.shared.domain.instance.boot_times import BOOT_TIMES_KEPT, BootEstimate, BootTime, estimate_from
from functions.shared.domain.instance.comparison import MarkedMachine
from functions.shared.platform.observability import logger
from functions.shared.stores.table import (
    NEW,
    RETENTION,
    TABLE_FAILED,
    ConditionFailed,
    Item,
    Table,
    Write,
    millis,
    moment,
)


class DeploymentId:
    def __init__(self, table: Table) -> None:
        self._table = table
        self._id: str | None = None

    def id(self) -> str:
        if self._id is None:
            item = {"pk": "deployment", "sk": "deployment", "kind": "deployment", "id": new_deployment_id()}
            self._id = str(self._table.made_once(item)["id"])
        return self._id


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
            "timestamp": timestamp(now),
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


_ADD = "SET samples = list_append(if_not_exists(samples, :none), :one), kind = :kind, expiresAt = :expiresAt"
_TRIM = "SET samples = :last"
# Nobody has added one meanwhile: theirs must not be thrown away.
_SAME = "size(samples) = :size"


class BootTimes:
    """Nice to have: if the table fails, there is no estimate, and nothing else fails."""

    def __init__(self, table: Table, clock: Callable[[], datetime]) -> None:
        self._table = table
        self._clock = clock

    def expected(self, kind: str, product_id: str | None, region: str | None) -> BootEstimate | None:
        if not product_id:
            return None
        try:
            item = self._table.get(_boot_times_pk(kind, product_id, region or ""), "boots")
        except TABLE_FAILED as error:
            logger.warning("boot times not read", error=type(error).__name__)
            return None
        return estimate_from([sample / 1000 for sample in item["samples"]]) if item else None

    def learn(self, boot_time: BootTime) -> None:
        pk = _boot_times_pk(boot_time.kind, boot_time.product_id, boot_time.region)
        values = {
            ":none": [],
            ":one": [round(boot_time.seconds * 1000)],
            ":kind": "boots",
            ":expiresAt": int((self._clock() + RETENTION).timestamp()),
        }
        try:
            samples = self._table.update(pk, "boots", _ADD, values=values)["samples"]
            if len(samples) > 2 * BOOT_TIMES_KEPT:
                self._trim(pk, samples)
        except TABLE_FAILED as error:
            logger.warning("boot time not kept", error=type(error).__name__)

    def _trim(self, pk: str, samples: list[int]) -> None:
        values = {":last": samples[-BOOT_TIMES_KEPT:], ":size": len(samples)}
        try:
            self._table.update(pk, "boots", _TRIM, condition=_SAME, values=values)
        except ConditionFailed:
            return  # whoever added one trims


def _boot_times_pk(kind: str, product_id: str, region: str) -> str:
    return f"boots#{kind}#{product_id}#{region}"
