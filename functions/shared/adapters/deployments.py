"""The id of this deployment, made once and kept: only machines that carry it are ours."""

from functions.shared.adapters.table import NEW, ConditionFailed, Table, Write
from functions.shared.domain.ids import new_deployment_id


class Deployments:
    def __init__(self, table: Table) -> None:
        self._table = table
        self._id: str | None = None

    def id(self) -> str:
        if self._id is None:
            self._id = self._read() or self._make()
        return self._id

    def _read(self) -> str | None:
        item = self._table.get("deployment", "deployment")
        return str(item["id"]) if item else None

    def _make(self) -> str:
        made = new_deployment_id()
        item = {"pk": "deployment", "sk": "deployment", "kind": "deployment", "id": made}
        try:
            self._table.put(Write(item, NEW))
        except ConditionFailed:
            return self._read() or made
        return made
