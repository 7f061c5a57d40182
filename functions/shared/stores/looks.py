"""Until when looks are planned: each stretch of time once, whoever's step plans it."""

from collections.abc import Callable
from datetime import datetime, timedelta

from functions.shared.platform.observability import logger
from functions.shared.stores.table import TABLE_FAILED, ConditionFailed, Table, Write, millis, moment

_PLACE = "looks", "planned"
_KEPT = timedelta(days=1)
# Nobody has planned further than we know.
_AS_KNOWN = "attribute_not_exists(pk) OR plannedUntil <= :known"


class PlannedLooks:
    def __init__(self, table: Table, clock: Callable[[], datetime]) -> None:
        self._table = table
        self._clock = clock
        self._until = moment(0)

    def until(self, least: datetime) -> datetime | None:
        """As far as this process knows, if that is far enough, or as it is stored. None where nobody can
        tell: then no look is planned."""
        if self._until < least:
            try:
                item = self._table.get(*_PLACE)
            except TABLE_FAILED as error:
                logger.warning("planned looks not read", error=type(error).__name__)
                return None
            self._until = max(self._until, moment(item["plannedUntil"] if item else 0))
        return self._until

    def extend(self, until: datetime) -> bool:
        """Whether the time from what was known is this process's to plan."""
        pk, sk = _PLACE
        item = {
            "pk": pk,
            "sk": sk,
            "kind": "lease",
            "plannedUntil": millis(until),
            "expiresAt": int((self._clock() + _KEPT).timestamp()),
        }
        try:
            self._table.put(Write(item, _AS_KNOWN, {":known": millis(self._until)}))
        except ConditionFailed:
            return False
        except TABLE_FAILED as error:
            logger.warning("looks not planned", error=type(error).__name__)
            return False
        self._until = until
        return True
