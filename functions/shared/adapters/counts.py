"""How many jobs went well and how many did not: one counter for each type, and never worth a failure."""

from collections.abc import Callable

from functions.shared.adapters.table import TABLE_FAILED, Table
from functions.shared.log import logger

_WORTH_TRYING_SECONDS = 25.0  # what the SDK may take to find out that the table does not answer


class Counts:
    def __init__(self, table: Table, time_left: Callable[[], float]) -> None:
        self._table = table
        self._time_left = time_left

    def add(self, job: str, **counted: int) -> None:
        """In one write. A number too low is better than a job that is done again for lack of time."""
        more = {name: number for name, number in counted.items() if number}
        if not more or self._time_left() < _WORTH_TRYING_SECONDS:
            return
        try:
            self._table.update(
                f"count#{job}",
                "count",
                "SET kind = :kind ADD " + ", ".join(f"#{name} :{name}" for name in more),
                names={f"#{name}": name for name in more},
                values={":kind": "count", **{f":{name}": number for name, number in more.items()}},
            )
        except TABLE_FAILED as error:
            logger.warning("not counted", job=job, error=type(error).__name__)

    def of(self, job: str) -> dict[str, int]:
        item = self._table.get(f"count#{job}", "count") or {}
        return {name: value for name, value in item.items() if isinstance(value, int)}
