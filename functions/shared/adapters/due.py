"""The index of what is due: instances to look at, webhook attempts to make, events to announce."""

from collections.abc import Sequence
from datetime import datetime

from botocore.exceptions import ClientError

from functions.shared.adapters.items import millis
from functions.shared.adapters.table import ConditionFailed, Item, Table

# Neither another sweep nor a step has moved the due time since it was read.
_STILL_DUE = "dueAt = :seen"
# A step's transaction has the item at this moment: it was quicker.
_BEING_WRITTEN = "TransactionConflictException"


class Due:
    def __init__(self, table: Table) -> None:
        self._table = table

    def overdue(self, kind: str, until: datetime, limit: int) -> Sequence[Item]:
        """Keys of what should have happened by then, longest overdue first."""
        found, _ = self._table.query(
            "due = :due AND dueAt <= :until",
            {":due": kind, ":until": millis(until)},
            index="due",
            limit=limit,
        )
        return found

    def claim(self, overdue: Item, until: datetime) -> Item | None:
        """Take it for one sweep, unless another sweep or a step was quicker: the whole item, due later."""
        try:
            return self._table.update(
                overdue["pk"],
                overdue["sk"],
                "SET dueAt = :until",
                condition=_STILL_DUE,
                values={":until": millis(until), ":seen": overdue["dueAt"]},
            )
        except ConditionFailed:
            return None
        except ClientError as error:
            if error.response["Error"]["Code"] != _BEING_WRITTEN:
                raise
            return None
