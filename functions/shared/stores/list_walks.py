"""How far the sweeps have gone through Novita's list, and which machines it has shown."""

from array import array
from base64 import b64decode, b64encode
from bisect import bisect_left
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any

from functions.shared.domain.instance.list_walk import Walk, Walks
from functions.shared.platform.observability import logger
from functions.shared.stores.schema import adapter
from functions.shared.stores.table import (
    TABLE_FAILED,
    UNREADABLE,
    ConditionFailed,
    Item,
    Table,
    Write,
    millis,
)

_KEY = ("sweep#walk", "walk")
_BYTES = 8  # of the digest of a machine's id
_KEPT = timedelta(days=1)
# No other sweep has gone on since it was read.
_SAME = "attribute_not_exists(pk) OR version = :version"


class Shown:
    """Machines that a walk has shown."""

    def __init__(self, digests: "array[int]") -> None:
        self._sorted = array("Q", sorted(digests))

    def __contains__(self, machine_id: str | None) -> bool:
        if machine_id is None:
            return False
        wanted = _digest(machine_id)
        at = bisect_left(self._sorted, wanted)
        return at < len(self._sorted) and self._sorted[at] == wanted


class ListWalks:
    def __init__(self, table: Table, clock: Callable[[], datetime]) -> None:
        self._table = table
        self._clock = clock

    def read(self) -> Walks:
        item = self._table.get(*_KEY)
        try:
            found = adapter(Walks).validate_python(item["walks"]) if item else Walks()
        except UNREADABLE:
            logger.exception("item not read", key=_KEY[0])
            return Walks(version=item.get("version", 0) if item else 0)
        return found.at(self._clock())

    def keep(self, before: Walks, after: Walks, walk: Walk, shown: Iterable[str]) -> None:
        """`shown` is what this turn of the walk has shown. Never worth a failure of the sweep itself; of two
        that went on from the same place one counts."""
        stored = Walks(after.now, after.last, before.version + 1, after.deletions_until)
        state: Item = {
            "pk": _KEY[0],
            "sk": _KEY[1],
            "kind": "walk",
            "version": stored.version,
            "walks": adapter(Walks).dump_python(stored, mode="json", exclude_defaults=True),
        }
        part = {**_part_key(walk, walk.parts - 1), "kind": "walkPart", "shown": _pack(shown)}
        part["expiresAt"] = int((walk.began + _KEPT).timestamp())
        try:
            self._table.transact([Write(state, _SAME, {":version": before.version}), Write(part)])
        except ConditionFailed:
            logger.info("another sweep has gone on with the list")
        except TABLE_FAILED as error:
            logger.warning("place in the list not kept", error=type(error).__name__)

    def shown(self, walk: Walk) -> Shown | None:
        """None where a part of it is not there: then its absences say nothing."""
        parts = self._table.query_all("pk = :pk", {":pk": _part_key(walk, 0)["pk"]})
        if len(parts) < walk.parts:
            logger.warning("a part of the list is not stored", parts=len(parts), of=walk.parts)
            return None
        digests: array[int] = array("Q")
        for part in parts:
            digests.frombytes(b64decode(part["shown"]))
        return Shown(digests)


def _part_key(walk: Walk, number: int) -> dict[str, Any]:
    return {"pk": f"walk#{millis(walk.began)}", "sk": f"part#{number:05d}"}


def _pack(machine_ids: Iterable[str]) -> str:
    return b64encode(array("Q", map(_digest, machine_ids)).tobytes()).decode()


def _digest(machine_id: str) -> int:
    return int.from_bytes(sha256(machine_id.encode()).digest()[:_BYTES], "little")
