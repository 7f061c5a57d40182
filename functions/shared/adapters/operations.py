"""Operations by id and by instance; they are written together with the instance they belong to."""

from functions.shared.adapters.items import read_operation
from functions.shared.adapters.table import Table
from functions.shared.domain.errors import NotFound
from functions.shared.domain.instance import Operation


class Operations:
    def __init__(self, table: Table) -> None:
        self._table = table

    def get(self, operation_id: str) -> tuple[str, Operation]:
        """The instance's id and the operation."""
        item = self._table.get(operation_id, "operation")
        if item is None:
            raise NotFound("OPERATION_NOT_FOUND", "There is no operation of that id, or it is too old")
        return item["instanceId"], read_operation(item)

    def of(self, instance_id: str) -> list[Operation]:
        """Newest first."""
        found = self._table.query_all(
            "lookup = :lookup", {":lookup": f"operations#{instance_id}"}, index="lookup", forward=False
        )
        return [read_operation(item) for item in found]
