"""Values shared between functions through the table, and held in the warm process."""

import base64
import json
import secrets
import zlib
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from threading import Lock
from typing import Any

from functions.shared.platform.observability import logger
from functions.shared.stores.table import TABLE_FAILED, ConditionFailed, Item, Table, Write, millis, moment

_INLINE = 2_000  # characters: what is small is kept in the entry itself, which statistics read
_PART = 300_000  # DynamoDB refuses items beyond 400 kB
_KEPT = timedelta(days=1)  # at the most, and if nobody cleans up: the table removes it
_EPOCH_KEY = ("cache#:epoch", "epoch")
_COUNTS_KEY = ("cache#:tally", "tally")
# Nobody has renewed the entry since it was found to be over.
_SAME = "stamp = :stamp"


@dataclass(frozen=True)
class CacheEntry:
    """What the table knows of a value without the value."""

    key: str
    stored_at: datetime
    epoch: int
    stamp: str
    size: int
    item: Item


class CacheStore:
    def __init__(self, table: Table, clock: Callable[[], datetime]) -> None:
        self._table = table
        self._clock = clock

    def find(self, key: str) -> CacheEntry | None:
        item = self._table.get(_pk(key), "cache")
        return self._entry(item) if item else None

    def value(self, entry: CacheEntry) -> Any:
        """KeyError where it was renewed while it was read."""
        packed = entry.item.get("packed")
        if packed is None:
            packed = "".join(self._part(entry, number) for number in range(entry.item["parts"]))
        return json.loads(zlib.decompress(base64.b64decode(packed)))

    def put(self, key: str, value: Any, epoch: int) -> CacheEntry:
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

    def entries(self) -> list[CacheEntry]:
        found = self._table.query_all("#lookup = :cache", {":cache": "cache"}, index="lookup", names=_LOOKUP)
        return [self._entry(item) for item in self._table.whole(found)]

    def remove(self, entry: CacheEntry) -> bool:
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
        item = self._table.get(*_EPOCH_KEY)
        return int(item["epoch"]) if item else 0

    def raise_epoch(self) -> int:
        names, values = {"#epoch": "epoch"}, {":one": 1, ":kind": "count"}
        after = self._table.update(
            *_EPOCH_KEY, "ADD #epoch :one SET kind = :kind", names=names, values=values
        )
        return int(after["epoch"])

    def add_counts(self, counted: "CountsByKind") -> "CountsByKind":
        """Add to what all processes have counted, and return it."""
        more = [
            (f"{kind}_{name}", number)
            for kind, counts in counted.items()
            for name, number in vars(counts).items()
            if number
        ]
        names = {f"#{place}": name for place, (name, _) in enumerate(more)}
        values = {":kind": "count", **{f":{place}": number for place, (_, number) in enumerate(more)}}
        adding = ", ".join(f"#{place} :{place}" for place in range(len(more)))
        expression = f"SET kind = :kind ADD {adding}" if more else "SET kind = :kind"
        return _counts(self._table.update(*_COUNTS_KEY, expression, names=names, values=values))

    def _put_parts(self, item: Item, packed: str) -> Item:
        """Two sets of keys take turns, so that whoever reads the old value is not disturbed."""
        before = self._table.get(item["pk"], "cache") or {}
        turn = 1 - int(before.get("turn", 1))
        shared = {name: item[name] for name in ("pk", "stamp", "expiresAt")}
        parts = range(0, len(packed), _PART)
        for number, start in enumerate(parts):
            part = {**shared, "sk": _part(turn, number), "kind": "cache"}
            self._table.put(Write({**part, "packed": packed[start : start + _PART]}))
        return {"turn": turn, "parts": len(parts)}

    def _part(self, entry: CacheEntry, number: int) -> str:
        item = self._table.get(_pk(entry.key), _part(entry.item["turn"], number))
        if item is None or item["stamp"] != entry.stamp:
            raise KeyError(number)
        return str(item["packed"])

    def _entry(self, item: Item) -> CacheEntry:
        return CacheEntry(
            key=item["id"],
            stored_at=moment(item["storedAt"]),
            epoch=item["epoch"],
            stamp=item["stamp"],
            size=item["size"],
            item=item,
        )


_LOOKUP = {"#lookup": "lookup"}


def _counts(item: Item) -> "CountsByKind":
    """What an earlier version counted for all kinds together is left out."""
    found: CountsByKind = {}
    for attribute, number in item.items():
        kind, _, name = attribute.rpartition("_")
        if kind and name in CacheCounts.__dataclass_fields__:
            setattr(found.setdefault(kind, CacheCounts()), name, int(number))
    return found


def _pk(key: str) -> str:
    return f"cache#{key}"


def _part(turn: int, number: int) -> str:
    return f"part#{turn}#{number:03d}"


# Nobody is at it, or whoever was has been for longer than it may take.
_FREE = "attribute_not_exists(pk) OR leaseUntil <= :now"
# It was not taken over meanwhile.
_MINE = "holder = :holder"


@dataclass(frozen=True)
class Lease:
    """What one process at a time does for all."""

    table: Table
    clock: Callable[[], datetime]
    place: tuple[str, str]

    def take(self, seconds: float) -> str | None:
        """Whose it is now; None where another process is at it. Without the table everybody is alone."""
        now, holder = self.clock(), secrets.token_hex(6)
        until = now + timedelta(seconds=seconds)
        try:
            self.table.put(Write(self._item(holder, until), _FREE, {":now": millis(now)}))
        except ConditionFailed:
            return None
        except TABLE_FAILED as error:
            logger.warning("lease not taken", lease=self.place[0], error=type(error).__name__)
        return holder

    def release(self, holder: str) -> None:
        over = self._item(holder, moment(0))
        try:
            self.table.put(Write(over, _MINE, {":holder": holder}))
        except ConditionFailed:
            return
        except TABLE_FAILED as error:
            logger.warning("lease not released", lease=self.place[0], error=type(error).__name__)

    def _item(self, holder: str, until: datetime) -> Item:
        pk, sk = self.place
        kept_until = int((self.clock() + _KEPT).timestamp())
        return {
            "pk": pk,
            "sk": sk,
            "kind": "lease",
            "holder": holder,
            "leaseUntil": millis(until),
            "expiresAt": kept_until,
        }


_UNREADABLE_VALUE = (KeyError, TypeError, ValueError, zlib.error)  # written by another version, or by hand
_DAY = 86_400.0
_MOST_HELD = 256  # values in one process
_EPOCH_EVERY = timedelta(seconds=4)  # a clear is seen by every process within 5 s
_FLUSH_EVERY = timedelta(seconds=60)


@dataclass
class CacheCounts:
    hits: int = 0
    misses: int = 0
    sets: int = 0
    evictions: int = 0

    @property
    def hit_ratio(self) -> float:
        asked = self.hits + self.misses
        return round(self.hits / asked, 4) if asked else 0.0


CountsByKind = dict[str, CacheCounts]


def kind_of(key: str) -> str:
    return key.partition("#")[0]


def total_counts(counted: CountsByKind) -> CacheCounts:
    return CacheCounts(*map(sum, zip(*(vars(one).values() for one in counted.values()), strict=True)))


@dataclass(frozen=True)
class HeldValue:
    stored_at: datetime
    value: Any
    stamp: str


@dataclass
class _Process:
    """What one warm process holds; threads of one request share it."""

    counts: CountsByKind = field(default_factory=lambda: defaultdict(CacheCounts))
    held: "OrderedDict[str, HeldValue]" = field(default_factory=OrderedDict)
    lock: Lock = field(default_factory=Lock)

    def find(self, key: str) -> HeldValue | None:
        with self.lock:
            if key in self.held:
                self.held.move_to_end(key)
            return self.held.get(key)

    def hold(self, key: str, held: HeldValue) -> None:
        with self.lock:
            self.held[key] = held
            self.held.move_to_end(key)
            while len(self.held) > _MOST_HELD:
                gone, _ = self.held.popitem(last=False)
                self.counts[kind_of(gone)].evictions += 1

    def drop(self, over: Callable[[str, HeldValue], bool]) -> int:
        with self.lock:
            gone = [key for key, held in self.held.items() if over(key, held)]
            for key in gone:
                del self.held[key]
                self.counts[kind_of(key)].evictions += 1
            return len(gone)


class SharedCache:
    """A cache that cannot be read or written is an empty one, never an error.

    A key's kind is what stands before its first `#`; `lifetimes` gives the seconds that each kind may live.
    """

    def __init__(
        self, table: Table, clock: Callable[[], datetime], lifetimes: Callable[[], Mapping[str, float]] = dict
    ) -> None:
        self._store = CacheStore(table, clock)
        self._table = table
        self._clock = clock
        self._lifetimes = lifetimes
        self._process = _Process()
        # Counted here, not yet added to the table.
        self._shared: CountsByKind = defaultdict(CacheCounts)
        self._flushed_at = clock()
        self._epoch, self._epoch_at = 0, datetime.min.replace(tzinfo=clock().tzinfo)

    def get(self, key: str, max_age: float) -> Any | None:
        held = self.held(key, max_age)
        return held.value if held else None

    def held(self, key: str, max_age: float) -> HeldValue | None:
        oldest = self._clock() - timedelta(seconds=max_age)
        self._see_epoch()
        held = self._process.find(key)
        if held is not None and held.stored_at >= oldest:
            self._process.counts[kind_of(key)].hits += 1
            return held
        self._process.counts[kind_of(key)].misses += 1
        held = self._read(key, held)
        self.count(kind_of(key), hit=held is not None and held.stored_at >= oldest)
        return held if held and held.stored_at >= oldest else None

    def age(self, held: HeldValue) -> float:
        return (self._clock() - held.stored_at).total_seconds()

    def lease(self, key: str, readers: str) -> Lease:
        """Whoever takes it reads the value for all of them."""
        return Lease(self._table, self._clock, (_pk(key), f"lease#{readers}"))

    def newest(self, key: str) -> HeldValue | None:
        """As old as it may be, and never this process's copy of what another has renewed."""
        self._see_epoch()
        return self._read(key, self._process.find(key))

    def put(self, key: str, value: Any) -> None:
        self._see_epoch()
        stamp = ""
        try:
            stamp = self._store.put(key, value, self._epoch).stamp
        except TABLE_FAILED as error:
            logger.warning("cache not written", error=type(error).__name__)
        self._process.hold(key, HeldValue(self._clock(), value, stamp))
        self._process.counts[kind_of(key)].sets += 1
        self._shared[kind_of(key)].sets += 1

    def count(self, kind: str, *, hit: bool) -> None:
        """Details that a record holds are counted here too, though they are not kept here."""
        self._shared[kind].hits += hit
        self._shared[kind].misses += not hit
        if self._clock() - self._flushed_at >= _FLUSH_EVERY:
            self.flush_counts()

    def count_set(self, kind: str) -> None:
        self._shared[kind].sets += 1

    @property
    def hit_ratio(self) -> float:
        return total_counts(self._process.counts).hit_ratio if self._process.counts else 0.0

    def clear(self) -> int:
        """Nothing that is cached now is used any more: here at once, in every other process within 5 s."""
        self._epoch, self._epoch_at = self._store.raise_epoch(), self._clock()
        self._process.drop(lambda *_: True)
        return self._epoch

    def cleanup(self) -> tuple[int, int]:
        """How many entries that are over were removed from the table, and how many from this process."""
        self._see_epoch()
        over = [entry for entry in self._store.entries() if self._over(entry)]
        removed = [entry.key for entry in over if self._store.remove(entry)]
        for key in removed:
            self._shared[kind_of(key)].evictions += 1
        dropped = self._process.drop(lambda key, held: self._expired(key, held.stored_at))
        self.flush_counts()
        return len(removed), dropped

    def entries(self) -> list[CacheEntry]:
        """What the table holds and may still be used."""
        self._see_epoch()
        return [entry for entry in self._store.entries() if not self._over(entry)]

    def of_process(self) -> tuple[CountsByKind, list[str]]:
        """What this process counted, and the keys of what it holds."""
        return dict(self._process.counts), list(self._process.held)

    def _over(self, entry: CacheEntry) -> bool:
        return entry.epoch != self._epoch or self._expired(entry.key, entry.stored_at)

    def _expired(self, key: str, stored_at: datetime) -> bool:
        lifetime = timedelta(seconds=self._lifetimes().get(kind_of(key), _DAY))
        return stored_at + lifetime <= self._clock()

    def _read(self, key: str, held: HeldValue | None) -> HeldValue | None:
        try:
            entry = self._store.find(key)
            if entry is None or entry.epoch != self._epoch:
                return None
            if held is None or held.stamp != entry.stamp:
                held = HeldValue(entry.stored_at, self._store.value(entry), entry.stamp)
        except (*TABLE_FAILED, *_UNREADABLE_VALUE) as error:
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
            epoch = self._store.epoch()
        except (*TABLE_FAILED, *_UNREADABLE_VALUE) as error:
            logger.warning("cache epoch not read", error=type(error).__name__)
            return
        if epoch != self._epoch:
            self._epoch = epoch
            self._process.drop(lambda *_: True)

    def flush_counts(self) -> CountsByKind:
        """Add what was counted here to the table, and return what all processes have counted."""
        self._flushed_at, counted, self._shared = self._clock(), self._shared, defaultdict(CacheCounts)
        try:
            return self._store.add_counts(counted)
        except TABLE_FAILED as error:
            logger.warning("cache counts not written", error=type(error).__name__)
            return counted
