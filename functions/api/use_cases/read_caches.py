"""How full and how useful each cache is: in the store of all processes, and in the one that answers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from functions.api.use_cases.read_instances import DETAILS
from functions.shared.stores.cache import CacheCounts, CountsByKind, kind_of, total_counts

if TYPE_CHECKING:
    from functions.shared.stores.cache import SharedCache
    from functions.shared.stores.last_sweep import LastSweep

# Kinds of keys by the names that callers know; there may be others.
_NAMES = {"template": "templates", "total": "totals"}
_ALWAYS_SHOWN = ("products", "templates", DETAILS, "list", "merged")


@dataclass(frozen=True)
class CacheUse:
    counts: CacheCounts
    ids: list[str]
    size: int
    size_bytes: int | None = None


@dataclass(frozen=True)
class CacheSide:
    caches: dict[str, CacheUse]
    total: CacheCounts
    size_bytes: int | None = None


@dataclass(frozen=True)
class ReadCaches:
    cache: SharedCache
    last_sweep: LastSweep

    def __call__(self) -> tuple[CacheSide, CacheSide]:
        """The shared store with what all processes have counted, and this process."""
        sizes = {entry.key: entry.size for entry in self.cache.entries()}
        shared = _side(self.cache.flush_counts(), sizes, sizes, self._machines())
        return shared, _side(*self.cache.of_process())

    def _machines(self) -> int:
        found = self.last_sweep.read()
        return found.machines if found else 0


def _side(
    counted: CountsByKind, keys: Iterable[str], sizes: dict[str, int] | None = None, machines: int = 0
) -> CacheSide:
    by_name: dict[str, list[str]] = {name: [] for name in _ALWAYS_SHOWN}
    for key in keys:
        by_name.setdefault(_named(kind_of(key)), []).append(key)
    counts = {_named(kind): one for kind, one in counted.items()}
    caches = {
        name: CacheUse(
            counts.get(name, CacheCounts()),
            ids,
            machines if name == DETAILS else len(ids),
            sum(sizes[key] for key in ids) if sizes is not None else None,
        )
        for name, ids in (by_name | {name: by_name.get(name, []) for name in counts}).items()
    }
    total = total_counts(counted) if counted else CacheCounts()
    return CacheSide(caches, total, sum(sizes.values()) if sizes is not None else None)


def _named(kind: str) -> str:
    return _NAMES.get(kind, kind)
