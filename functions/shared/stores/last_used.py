"""When instances were last used, as items of their own: writing it often makes no step stale."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from functions.shared.domain.instance.observations import LastUse
from functions.shared.domain.instance.record import Instance
from functions.shared.stores.table import NEW, Check, ConditionFailed, Item, Table, Write

_SORT_KEY = "used"
# Nobody has noted a use since it was read.
_SAME_USE = "usedAt = :read"
# A use that is noted late takes back none that was later. The texts of two times (UTC) are in their order.
_LATEST = "attribute_not_exists(pk) OR usedAt < :at"


def still_unused(instance_id: str, use: LastUse) -> Check:
    """For the transaction that rests on nobody having used it since."""
    if use.at is None:
        return Check(instance_id, _SORT_KEY, NEW)
    return Check(instance_id, _SORT_KEY, _SAME_USE, {":read": use.at.isoformat()})


def use_key(instance_id: str) -> tuple[str, str]:
    return instance_id, _SORT_KEY


def read_use(item: Item | None) -> LastUse:
    return LastUse(datetime.fromisoformat(item["usedAt"]) if item else None)


class LastUsed:
    def __init__(self, table: Table) -> None:
        self._table = table

    def note(self, instance_id: str, at: datetime) -> datetime:
        """The last use that is known now."""
        item = {"pk": instance_id, "sk": _SORT_KEY, "kind": "used", "usedAt": at.isoformat()}
        try:
            self._table.put(Write(item, _LATEST, {":at": item["usedAt"]}))
        except ConditionFailed:
            return self.read(instance_id).at or at
        return at

    def read(self, instance_id: str) -> LastUse:
        return read_use(self._table.get(*use_key(instance_id)))

    def on(self, record: Instance) -> Instance:
        """The record as it is shown."""
        use = self.read(record.id)
        return replace(record, last_used_at=use.at) if use.at else record

    def of(self, instance_ids: Iterable[str]) -> dict[str, datetime]:
        """A hundred with one read; ids without one are left out."""
        found = self._table.get_all((id_, _SORT_KEY) for id_ in instance_ids)
        return {item["pk"]: datetime.fromisoformat(item["usedAt"]) for item in found}
