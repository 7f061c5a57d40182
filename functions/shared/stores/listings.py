"""Lists of instances: which there are, and what is in several of them at once."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from functions.shared.stores.table import Table

# How the keys of lists begin that items of their own are in, one for each instance.
OWNER, TAG = "owner#", "tag#"

MOST_AT_ONCE = 1000  # entries of an index, which one query reads for the price of some records
_GROWTH = 4  # where the lists have little in common, each query reads so many times more than the last


@dataclass(frozen=True)
class Listing:
    """All that have everything that is named here."""

    name: str | None = None
    status: str | None = None
    tag: str | None = None  # name:value
    owner: str | None = None

    @property
    def joined(self) -> bool:
        """Whether it is found by items of its own, rather than by the records' own entries."""
        return self.tag is not None or self.owner is not None

    @property
    def entries(self) -> tuple[str, str, str]:
        """The index that lists records, the attribute it goes by, and its value; name and status together
        are listed by name and filtered by status."""
        if self.name is not None:
            return "lookup", "lookup", f"name#{self.name}"
        if self.status is not None:
            return "status", "statusKey", f"instances#{self.status}"
        return "listed", "listed", "instances"

    @property
    def parts(self) -> list[tuple[str, str, str]]:
        """The same of each list by itself."""
        keys = [f"name#{self.name}"] if self.name is not None else []
        keys += [f"{OWNER}{self.owner}"] if self.owner is not None else []
        keys += [f"{TAG}{self.tag}"] if self.tag is not None else []
        found = [("lookup", "lookup", key) for key in keys]
        return found + ([Listing(status=self.status).entries] if self.status is not None else [])


def ids_in_all(
    table: Table, lists: Sequence[tuple[str, str, str]], after: str | None, at_once: int = MOST_AT_ONCE
) -> Iterator[str]:
    """Newest first, from below the id `after`. Each list is sorted by id, so each is read from the oldest id
    that the others have come to: entries of an index, and no item."""
    cursors = [_Cursor(table, one, at_once) for one in lists]
    wanted, below = after or "~", after is not None
    while True:
        found = []
        for cursor in cursors:
            one = cursor.next_from(wanted, below=below)
            if one is None:
                return
            wanted, below = one, False
            found.append(one)
        if len(set(found)) == 1:
            yield wanted
            below = True


class _Cursor:
    """Goes through one list, newest first."""

    def __init__(self, table: Table, entries: tuple[str, str, str], at_once: int) -> None:
        self._table = table
        self._index, self._key, self._value = entries
        self._at_once = at_once
        self._ids: list[str] = []  # read and not passed yet, the next one last
        self._ended = False

    def next_from(self, wanted: str, *, below: bool) -> str | None:
        """The newest that is not newer than this id, or older than it."""
        while self._ids and (self._ids[-1] > wanted or (below and self._ids[-1] == wanted)):
            self._ids.pop()
        if not self._ids and not self._ended:
            self._read(wanted, "<" if below else "<=")
        return self._ids[-1] if self._ids else None

    def _read(self, wanted: str, how: str) -> None:
        found, more = self._table.query(
            f"#key = :key AND id {how} :wanted",
            {":key": self._value, ":wanted": wanted},
            index=self._index,
            names={"#key": self._key},
            forward=False,
            limit=self._at_once,
        )
        self._at_once = min(self._at_once * _GROWTH, MOST_AT_ONCE)
        self._ids, self._ended = [entry["id"] for entry in reversed(found)], more is None
