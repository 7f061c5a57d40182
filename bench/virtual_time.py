"""Time that only moves when it is told to, and a table whose answers carry the date of that time."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

from functions.shared.stores.table import TableClock


class Clock:
    def __init__(self) -> None:
        self.now = datetime(2030, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


class VirtualTableClock(TableClock):
    """As if each answer had been dated in virtual time: in whole seconds, as the table's are."""

    def __init__(self, own: Callable[[], datetime], true_now: Callable[[], datetime]) -> None:
        super().__init__(own, lambda: true_now().timestamp())
        self._true_now = true_now

    def learn(self, sent: int, answer: Any) -> None:  # noqa: ARG002  # what the table says is of real time
        super().learn(sent, dated(self._true_now()))


def dated(at: datetime) -> dict[str, Any]:
    """An answer of the table's at that time, as far as its date goes."""
    date = format_datetime(at.astimezone(UTC).replace(microsecond=0), usegmt=True)
    return {"ResponseMetadata": {"HTTPHeaders": {"date": date}}}
