"""Values shared between functions through the table, and held in the warm process."""

import base64
import json
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from functions.shared.adapters.items import millis
from functions.shared.adapters.table import Table, Write
from functions.shared.log import logger

_MOST_BYTES = 350_000  # DynamoDB refuses items beyond 400 kB
_KEPT_SECONDS = 86_400


@dataclass(frozen=True)
class _Held:
    stored_at: datetime
    value: Any


class SharedCache:
    """A cache that cannot be read or written is an empty one, never an error."""

    def __init__(self, table: Table, clock: Callable[[], datetime]) -> None:
        self._table = table
        self._clock = clock
        self._held: dict[str, _Held] = {}

    def get(self, key: str, max_age: float) -> Any | None:
        oldest = self._clock() - timedelta(seconds=max_age)
        held = self._held.get(key)
        if held is None or held.stored_at < oldest:
            held = self._read(key)
        if held is None or held.stored_at < oldest:
            return None
        self._held[key] = held
        return held.value

    def put(self, key: str, value: Any) -> None:
        now = self._clock()
        self._held[key] = _Held(now, value)
        packed = base64.b64encode(zlib.compress(json.dumps(value).encode())).decode()
        if len(packed) > _MOST_BYTES:
            return
        item = {
            "pk": f"cache#{key}",
            "sk": "cache",
            "kind": "cache",
            "storedAt": millis(now),
            "packed": packed,
            "expiresAt": int(now.timestamp()) + _KEPT_SECONDS,
        }
        try:
            self._table.put(Write(item))
        except (ClientError, BotoCoreError) as error:
            logger.warning("cache not written", error=type(error).__name__)

    def _read(self, key: str) -> _Held | None:
        try:
            item = self._table.get(f"cache#{key}", "cache")
        except (ClientError, BotoCoreError) as error:
            logger.warning("cache not read", error=type(error).__name__)
            return None
        if item is None:
            return None
        stored_at = datetime.fromtimestamp(item["storedAt"] / 1000, self._clock().tzinfo)
        return _Held(stored_at, json.loads(zlib.decompress(base64.b64decode(item["packed"]))))
