"""That Novita did not answer a moment ago, kept for seconds: the next caller need not wait to find out."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from functions.shared.platform.observability import logger
from functions.shared.stores.table import TABLE_FAILED, Table, Write, millis, moment

_KEY = ("outage#novita", "outage")


class RecentOutage:
    """For reads that a caller waits for. A circuit opens later, after several failures, and for longer."""

    def __init__(self, table: Table, clock: Callable[[], datetime], lasts: timedelta) -> None:
        self._table = table
        self._clock = clock
        self._lasts = lasts
        self._until = datetime.min.replace(tzinfo=UTC)

    def is_on(self) -> bool:
        """One read of the table, and none while this process knows already."""
        now = self._clock()
        if now < self._until:
            return True
        try:
            item = self._table.get(*_KEY)
        except TABLE_FAILED:
            return False
        if item is not None:
            self._until = moment(item["until"])
        return now < self._until

    def note(self) -> None:
        now = self._clock()
        self._until = now + self._lasts
        expires = int(self._until.timestamp()) + 60
        item = {"pk": _KEY[0], "sk": _KEY[1], "kind": "outage", "until": millis(self._until)}
        try:
            self._table.put(Write({**item, "expiresAt": expires}))
        except TABLE_FAILED as error:
            logger.warning("recent outage not stored", error=type(error).__name__)
