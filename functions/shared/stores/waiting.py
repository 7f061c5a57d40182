"""What is due, read whole: the index only has keys, and a sweep that queues something puts its time off."""

from collections.abc import Iterator
from datetime import datetime

from functions.shared.domain.delivery.webhooks import Delivery
from functions.shared.domain.instance.record import Instance
from functions.shared.stores.deliveries import read_delivery
from functions.shared.stores.instances import read_record
from functions.shared.stores.table import Due, Item, Table, readable


class Waiting:
    def __init__(self, table: Table, due: Due) -> None:
        self._table = table
        self._due = due

    def instances(self, until: datetime, limit: int) -> list[Instance]:
        return list(readable(read_record, self._read("instance", until, limit)))

    def deliveries(self, until: datetime, limit: int) -> list[Delivery]:
        return list(readable(read_delivery, self._read("delivery", until, limit)))

    def _read(self, kind: str, until: datetime, limit: int) -> Iterator[Item]:
        found = self._due.overdue(kind, until, limit)
        return self._table.get_all((one["pk"], one["sk"]) for one in found)
