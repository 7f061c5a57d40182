"""Values shared between functions through the table, and held in the warm process."""

import zlib
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from threading import Lock
from typing import Any

from functions.shared.adapters.shelf import Entry, Shelf
from functions.shared.adapters.table import TABLE_FAILED, Table
from functions.shared.log import logger

_UNREADABLE = (KeyError, TypeError, ValueError, zlib.error)  # written by another version, or by hand
_DAY = 86_400.0
_MOST_HELD = 256  # values in one process
_EPOCH_EVERY = timedelta(seconds=4)  # a clear is seen by every process within 5 s
_TALLY_EVERY = timedelta(seconds=60)


@dataclass
class Tally:
    hits: int = 0
    misses: int = 0
    evictions: int = 0

    @property
    def hit_ratio(self) -> float:
        asked = self.hits + self.misses
        return round(self.hits / asked, 4) if asked else 0.0


@dataclass(frozen=True)
class Side:
    """One side of the cache, as the statistics show it."""

    tally: Tally
    ids: list[str]
    size_bytes: int | None = None


@dataclass(frozen=True)
class Held:
    stored_at: datetime
    value: Any
    stamp: str


@dataclass
class _Process:
    """What one warm process holds; threads of one request share it."""

    tally: Tally = field(default_factory=Tally)
    held: "OrderedDict[str, Held]" = field(default_factory=OrderedDict)
    lock: Lock = field(default_factory=Lock)

    def find(self, key: str) -> Held | None:
        with self.lock:
            if key in self.held:
                self.held.move_to_end(key)
            return self.held.get(key)

    def hold(self, key: str, held: Held) -> None:
        with self.lock:
            self.held[key] = held
            self.held.move_to_end(key)
            while len(self.held) > _MOST_HELD:
                self.held.popitem(last=False)
                self.tally.evictions += 1

    def drop(self, over: Callable[[str, Held], bool]) -> int:
        with self.lock:
            gone = [key for key, held in self.held.items() if over(key, held)]
            for key in gone:
                del self.held[key]
            self.tally.evictions += len(gone)
            return len(gone)


class SharedCache:
    """A cache that cannot be read or written is an empty one, never an error.

    A key's kind is what stands before its first `#`; `lifetimes` has the seconds that each kind may live.
    """

    def __init__(
        self, table: Table, clock: Callable[[], datetime], lifetimes: Mapping[str, float] | None = None
    ) -> None:
        self._shelf = Shelf(table, clock)
        self._clock = clock
        self._lifetimes = dict(lifetimes or {})
        self._process = _Process()
        self._shared = Tally()  # counted here, not yet told to the table
        self._told_at = clock()
        self._epoch, self._epoch_at = 0, datetime.min.replace(tzinfo=clock().tzinfo)

    def get(self, key: str, max_age: float) -> Any | None:
        oldest = self._clock() - timedelta(seconds=max_age)
        self._see_epoch()
        held = self._process.find(key)
        if held is not None and held.stored_at >= oldest:
            self._process.tally.hits += 1
            return held.value
        self._process.tally.misses += 1
        held = self._read(key, held)
        self.count(held is not None and held.stored_at >= oldest)
        return held.value if held and held.stored_at >= oldest else None

    def newest(self, key: str) -> Held | None:
        """As old as it may be, and never this process's copy of what another has renewed."""
        self._see_epoch()
        return self._read(key, self._process.find(key))

    def put(self, key: str, value: Any) -> None:
        self._see_epoch()
        stamp = ""
        try:
            stamp = self._shelf.put(key, value, self._epoch).stamp
        except TABLE_FAILED as error:
            logger.warning("cache not written", error=type(error).__name__)
        self._process.hold(key, Held(self._clock(), value, stamp))

    def count(self, hit: bool) -> None:
        """Details that a record holds are counted here too, though they are not kept here."""
        self._shared.hits += hit
        self._shared.misses += not hit
        if self._clock() - self._told_at >= _TALLY_EVERY:
            self._tell()

    @property
    def hit_ratio(self) -> float:
        return self._process.tally.hit_ratio

    def clear(self) -> int:
        """Nothing that is cached now is used any more: here at once, in every other process within 5 s."""
        self._epoch, self._epoch_at = self._shelf.raise_epoch(), self._clock()
        self._process.drop(lambda *_: True)
        return self._epoch

    def cleanup(self) -> tuple[int, int]:
        """How many entries that are over were removed from the table, and how many from this process."""
        self._see_epoch()
        removed = sum(self._shelf.remove(entry) for entry in self._shelf.entries() if self._over(entry))
        self._shared.evictions += removed
        dropped = self._process.drop(lambda key, held: self._expired(key, held.stored_at))
        self._tell()
        return removed, dropped

    def sides(self) -> tuple[Side, Side]:
        """The shared store with what all processes have told, and this process."""
        self._see_epoch()
        entries = [entry for entry in self._shelf.entries() if not self._over(entry)]
        told = self._tell()
        shared = Side(told, [entry.key for entry in entries], sum(entry.size for entry in entries))
        return shared, Side(self._process.tally, list(self._process.held))

    def _over(self, entry: Entry) -> bool:
        return entry.epoch != self._epoch or self._expired(entry.key, entry.stored_at)

    def _expired(self, key: str, stored_at: datetime) -> bool:
        lifetime = timedelta(seconds=self._lifetimes.get(key.partition("#")[0], _DAY))
        return stored_at + lifetime <= self._clock()

    def _read(self, key: str, held: Held | None) -> Held | None:
        try:
            entry = self._shelf.find(key)
            if entry is None or entry.epoch != self._epoch:
                return None
            if held is None or held.stamp != entry.stamp:
                held = Held(entry.stored_at, self._shelf.value(entry), entry.stamp)
        except (*TABLE_FAILED, *_UNREADABLE) as error:
            logger.warning("cache not read", error=type(error).__name__)
            return None
        self._process.hold(key, held)
        return held

    def _see_epoch(self) -> None:
        now = self._clock()
        if now - self._epoch_at < _EPOCH_EVERY:
            return
        self._epoch_at = now
        try:
            epoch = self._shelf.epoch()
        except (*TABLE_FAILED, *_UNREADABLE) as error:
            logger.warning("cache epoch not read", error=type(error).__name__)
            return
        if epoch != self._epoch:
            self._epoch = epoch
            self._process.drop(lambda *_: True)

    def _tell(self) -> Tally:
        self._told_at, told, self._shared = self._clock(), self._shared, Tally()
        try:
            return Tally(**self._shelf.tally(**vars(told)))
        except TABLE_FAILED as error:
            logger.warning("cache not counted", error=type(error).__name__)
            return told
