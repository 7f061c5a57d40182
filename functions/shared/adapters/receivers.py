"""Places at a webhook receiver: how many attempts may be under way to it at once, over all functions.

A receiver that hangs keeps its own deliveries waiting and nobody else's.
"""

import hashlib
import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta

from functions.shared.adapters.items import millis
from functions.shared.adapters.table import ConditionFailed, Item, Table

# Nobody is in this place, or whoever is has had the time to leave it and did not.
_FREE = "attribute_not_exists(#place) OR #place.freeAt <= :now"
_STILL_MINE = "#place.holder = :holder"
_KEPT = timedelta(days=1)


@dataclass(frozen=True)
class Place:
    receiver: str
    name: str
    holder: str


class Receivers:
    def __init__(self, table: Table, places: int) -> None:
        self._table = table
        self._names = [f"place{number}" for number in range(places)]

    def take(self, origin: str, now: datetime, until: datetime) -> Place | None:
        """A place at the receiver, or None while all are taken; it comes free by itself at `until`."""
        key = f"receiver#{hashlib.sha256(origin.encode()).hexdigest()[:32]}"
        holder = secrets.token_hex(8)
        for _ in range(len(self._names) + 1):  # each time somebody else was quicker, and has a place now
            item = self._table.get(key, "receiver") or {}
            free = [name for name in self._names if name not in item or item[name]["freeAt"] <= millis(now)]
            if not free:
                return None
            place = Place(key, secrets.choice(free), holder)
            if self._taken(place, origin, now, until):
                return place
        return None

    def release(self, place: Place) -> None:
        try:
            self._table.update(
                place.receiver,
                "receiver",
                "REMOVE #place",
                condition=_STILL_MINE,
                names={"#place": place.name},
                values={":holder": place.holder},
            )
        except ConditionFailed:
            return  # it was over its time, and somebody else has it

    def _taken(self, place: Place, origin: str, now: datetime, until: datetime) -> bool:
        try:
            self._table.update(
                place.receiver,
                "receiver",
                "SET #place = :taken, kind = :kind, origin = :origin, expiresAt = :gone",
                condition=_FREE,
                names={"#place": place.name},
                values={
                    ":taken": {"holder": place.holder, "freeAt": millis(until)},
                    ":now": millis(now),
                    ":kind": "receiver",
                    ":origin": origin,
                    ":gone": int((until + _KEPT).timestamp()),
                },
            )
        except ConditionFailed:
            # A write whose answer was lost is sent again by the SDK and then meets itself.
            return self._holds(place, self._table.get(place.receiver, "receiver") or {})
        return True

    @staticmethod
    def _holds(place: Place, item: Item) -> bool:
        return bool(item.get(place.name, {}).get("holder") == place.holder)
