from typing import Any

from functions.shared.stores.cursor_secret import CursorSecret
from functions.shared.stores.table import Table
from tests.unit.tables import new_table


def test_the_secret_is_made_once_and_is_the_same_for_all(table: Table) -> None:
    first = CursorSecret(table)

    made = first.value()

    assert first.value() == CursorSecret(table).value() == made
    assert len(bytes.fromhex(made)) == 32


def test_of_two_that_make_it_at_the_same_moment_both_use_the_same(table: Table) -> None:
    class Late(Table):
        """Reads before the other writes, and writes after it."""

        def get(self, pk: str, sk: str) -> Any:
            item = super().get(pk, sk)
            other.value()
            return item

    other = CursorSecret(table)
    late = CursorSecret(Late(table.client, table.name))

    assert late.value() == other.value()


def test_every_deployment_has_its_own(moto: Any) -> None:
    assert CursorSecret(new_table(moto)).value() != CursorSecret(new_table(moto)).value()
