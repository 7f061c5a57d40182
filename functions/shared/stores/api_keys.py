"""API keys, found by the SHA-256 of what the caller presents; the key itself is nowhere stored."""

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from functions.shared.domain.money.caps import NO_CAPS, CapLimits
from functions.shared.stores.table import Table

_SHAPE = re.compile(r"ost_[A-Za-z0-9_-]{43}")
_MOST_REMEMBERED = 1000


@dataclass(frozen=True)
class ApiKey:
    id: str
    scopes: frozenset[str]
    caps: CapLimits = NO_CAPS


class ApiKeys:
    """A key is trusted for a short time after it was looked up, so a revoked one dies within it."""

    def __init__(self, table: Table, clock: Callable[[], datetime], trusted_seconds: float) -> None:
        self._table = table
        self._clock = clock
        self._trusted_seconds = trusted_seconds
        self._remembered: dict[str, tuple[datetime, ApiKey]] = {}

    def remembered(self, presented: str) -> ApiKey | None:
        """Without asking the table."""
        known = self._remembered.get(_digest(presented))
        trusted = known and (self._clock() - known[0]).total_seconds() < self._trusted_seconds
        return known[1] if known and trusted else None

    def find(self, presented: str) -> ApiKey | None:
        if not _SHAPE.fullmatch(presented):
            return None
        if known := self.remembered(presented):
            return known
        digest, now = _digest(presented), self._clock()
        key = self._look_up(digest)
        self._remembered.pop(digest, None)
        if key:
            if len(self._remembered) >= _MOST_REMEMBERED:
                self._remembered.clear()
            self._remembered[digest] = (now, key)
        return key

    def _look_up(self, digest: str) -> ApiKey | None:
        item = self._table.get(f"key#{digest}", "key")
        if item is None or item.get("revokedAt"):
            return None
        caps = CapLimits(item.get("maxInstances"), item.get("maxHourlyMicros"))
        return ApiKey(item["keyId"], frozenset(item["scopes"]), caps)


def _digest(presented: str) -> str:
    return hashlib.sha256(presented.encode("utf-8", "replace")).hexdigest()
