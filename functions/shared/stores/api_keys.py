"""API keys, found by the SHA-256 of what the caller presents; the key itself is nowhere stored."""

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from functions.shared.stores.table import Table

_SHAPE = re.compile(r"ost_[A-Za-z0-9_-]{43}")
_MOST_REMEMBERED = 1000


@dataclass(frozen=True)
class ApiKey:
    id: str
    scopes: frozenset[str]


class ApiKeys:
    """A key is trusted for a short time after it was looked up, so a revoked one dies within it."""

    def __init__(self, table: Table, clock: Callable[[], datetime], trusted_seconds: float) -> None:
        self._table = table
        self._clock = clock
        self._trusted_seconds = trusted_seconds
        self._remembered: dict[str, tuple[datetime, ApiKey]] = {}

    def find(self, presented: str) -> ApiKey | None:
        if not _SHAPE.fullmatch(presented):
            return None
        digest = hashlib.sha256(presented.encode()).hexdigest()
        now = self._clock()
        known = self._remembered.get(digest)
        if known and (now - known[0]).total_seconds() < self._trusted_seconds:
            return known[1]
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
        return ApiKey(item["keyId"], frozenset(item["scopes"]))
