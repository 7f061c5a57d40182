"""When instances were last used, as items of their own: writing it often makes no step stale."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from functions.shared.domain.instance.record import Instance
from functions.shared.stores.table import Table, Write

_SORT_KEY = "used"


class LastUsed:
    def __init__(self, table: Table) -> None:
        self._table = table

    def note(self, instance_id: str, at: datetime) -> None:
        item = {"pk": instance_id, "sk": _SORT_KEY, "kind": "used", "usedAt": at.isoformat()}
        self._table.put(Write(item))

    def on(self, record: Instance) -> Instance:
        """The record as it is shown."""
        item = self._table.get(record.id, _SORT_KEY)
        return replace(record, last_used_at=datetime.fromisoformat(item["usedAt"])) if item else record

    def of(self, instance_ids: Iterable[str]) -> dict[str, datetime]:
        """A hundred with one read; ids without one are left out."""
        found = self._table.get_all((id_, _SORT_KEY) for id_ in instance_ids)
        return {item["pk"]: datetime.fromisoformat(item["usedAt"]) for item in found}
