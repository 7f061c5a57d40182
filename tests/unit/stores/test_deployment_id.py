from typing import Any

from functions.shared.stores.machines import DeploymentId
from functions.shared.stores.table import Table
from tests.unit.tables import new_table


def test_the_id_is_made_once_and_kept(table: Table) -> None:
    first = DeploymentId(table)

    made = first.id()

    assert first.id() == DeploymentId(table).id() == made
    assert len(made) == 8


def test_of_two_that_make_it_at_the_same_moment_both_use_the_same(table: Table) -> None:
    class Late(Table):
        """Reads before the other writes, and writes after it."""

        def get(self, pk: str, sk: str) -> Any:
            item = super().get(pk, sk)
            other.id()
            return item

    other = DeploymentId(table)
    late = DeploymentId(Late(table.client, table.name))

    assert late.id() == other.id()


def test_two_tables_are_two_deployments(moto: Any) -> None:
    first, second = DeploymentId(new_table(moto)), DeploymentId(new_table(moto))

    assert first.id() != second.id()
