"""The shared side of the cache: values in the table, packed, and in parts where they are large."""

import base64
import json
import secrets
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from functions.shared.adapters.items import millis, moment
from functions.shared.adapters.table import ConditionFailed, Item, Table, Write

_INLINE = 2_000  # characters: what is small is kept in the entry itself, which the index repeats
_PART = 300_000  # DynamoDB refuses items beyond 400 kB
_KEPT = timedelta(days=1)  # at the most, and if nobody cleans up: the table removes it
_EPOCH = ("cache#:epoch", "epoch")
_TALLY = ("cache#:tally", "tally")
# Nobody has renewed the entry since it was found to be over.
_SAME = "stamp = :stamp"


@dataclass(frozen=True)
class Entry:
    """What the table knows of a value without the value."""

    key: str
    stored_at: datetime
    epoch: int
    stamp: str
    size: int
    item: Item


class Shelf:
    def __init__(self, table: Table, clock: Callable[[], datetime]) -> None:
        self._table = table
        self._clock = clock

    def find(self, key: str) -> Entry | None:
        item = self._table.get(_pk(key), "cache")
        return self._entry(item) if item else None

    def value(self, entry: Entry) -> Any:
        """KeyError where it was renewed while it was read."""
        packed = entry.item.get("packed")
        if packed is None:
            packed = "".join(self._part(entry, number) for number in range(entry.item["parts"]))
        return json.loads(zlib.decompress(base64.b64decode(packed)))

    def put(self, key: str, value: Any, epoch: int) -> Entry:
        """Parts first: whoever finds the entry finds all of it; the one before keeps its parts meanwhile."""
        now = self._clock()
        packed = base64.b64encode(
            zlib.compress(json.dumps(value, separators=(",", ":")).encode(), 3)
        ).decode()
        item: Item = {
            "pk": _pk(key),
            "sk": "cache",
            "kind": "cache",
            "lookup": "cache",
            "id": key,
            "storedAt": millis(now),
            "expiresAt": int((now + _KEPT).timestamp()),
            "epoch": epoch,
            "stamp": secrets.token_hex(6),
            "size": len(packed),
        }
        if len(packed) <= _INLINE:
            item["packed"] = packed
        else:
            item |= self._put_parts(item, packed)
        self._table.put(Write(item))
        return self._entry(item)

    def entries(self) -> list[Entry]:
        found = self._table.query_all("#lookup = :cache", {":cache": "cache"}, index="lookup", names=_LOOKUP)
        return [self._entry(item) for item in found]

    def remove(self, entry: Entry) -> bool:
        """Unless somebody has renewed it."""
        try:
            self._table.delete(_pk(entry.key), "cache", _SAME, {":stamp": entry.stamp})
        except ConditionFailed:
            return False
        of_it = {":pk": _pk(entry.key), ":sk": "part#"}
        for part in self._table.query_all("pk = :pk AND begins_with(sk, :sk)", of_it):
            if part["stamp"] == entry.stamp or part["expiresAt"] <= self._clock().timestamp():
                self._table.delete(part["pk"], part["sk"])
        return True

    def epoch(self) -> int:
        item = self._table.get(*_EPOCH)
        return int(item["epoch"]) if item else 0

    def raise_epoch(self) -> int:
        names, values = {"#epoch": "epoch"}, {":one": 1, ":kind": "count"}
        after = self._table.update(*_EPOCH, "ADD #epoch :one SET kind = :kind", names=names, values=values)
        return int(after["epoch"])

    def tally(self, **more: int) -> dict[str, int]:
        """Add to what all processes have counted, and return it."""
        names = {f"#{name}": name for name in more}
        values = {":kind": "count", **{f":{name}": number for name, number in more.items()}}
        adding = ", ".join(f"#{name} :{name}" for name in more)
        after = self._table.update(*_TALLY, f"SET kind = :kind ADD {adding}", names=names, values=values)
        return {name: int(after.get(name, 0)) for name in more}

    def _put_parts(self, item: Item, packed: str) -> Item:
        """Two sets of places take turns, so that whoever reads the old value is not disturbed by this one."""
        before = self._table.get(item["pk"], "cache") or {}
        turn = 1 - int(before.get("turn", 1))
        shared = {name: item[name] for name in ("pk", "stamp", "expiresAt")}
        parts = range(0, len(packed), _PART)
        for number, start in enumerate(parts):
            part = {**shared, "sk": _part(turn, number), "kind": "cache"}
            self._table.put(Write({**part, "packed": packed[start : start + _PART]}))
        return {"turn": turn, "parts": len(parts)}

    def _part(self, entry: Entry, number: int) -> str:
        item = self._table.get(_pk(entry.key), _part(entry.item["turn"], number))
        if item is None or item["stamp"] != entry.stamp:
            raise KeyError(number)
        return str(item["packed"])

    def _entry(self, item: Item) -> Entry:
        return Entry(
            key=item["id"],
            stored_at=moment(item["storedAt"]),
            epoch=item["epoch"],
            stamp=item["stamp"],
            size=item["size"],
            item=item,
        )


_LOOKUP = {"#lookup": "lookup"}


def _pk(key: str) -> str:
    return f"cache#{key}"


def _part(turn: int, number: int) -> str:
    return f"part#{turn}#{number:03d}"
