"""The secret that cursors are signed with: random, made once, read by nobody but the functions."""

import secrets

from functions.shared.stores.table import Table


class CursorSecret:
    def __init__(self, table: Table) -> None:
        self._table = table
        self._value: str | None = None

    def value(self) -> str:
        if self._value is None:
            item = {"pk": "cursors", "sk": "secret", "kind": "secret", "value": secrets.token_hex(32)}
            self._value = str(self._table.made_once(item)["value"])
        return self._value
