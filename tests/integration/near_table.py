"""The table in this process, for tests that make hundreds of thousands of calls to it.

It is the emulator's own, asked without a way there; whatever is not for the table goes on to the emulator.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ministack.services import dynamodb

from local.emulator import Emulator
from tests.integration.quick_http import Exchanged, exchange, stands_in

_PLACE = "near-table:1"


class NearTable(Emulator):
    """An emulator that is reached by way of this process."""

    def __init__(self, behind: Emulator) -> None:
        self._behind = behind
        self.url = f"http://{_PLACE}"

    def ask(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> Exchanged:
        if not headers.get("X-Amz-Target", "").startswith("DynamoDB_"):
            return exchange(self._behind.url, method, path, body, headers)
        named = {name.lower(): value for name, value in headers.items()}
        return _answer_of(dynamodb.handle_request(method, path, named, body or b"", {}))


@contextmanager
def near_table(behind: Emulator) -> Iterator[NearTable]:
    near = NearTable(behind)
    with stands_in(_PLACE, near.ask):
        yield near


def _answer_of(answering: Any) -> Exchanged:
    """It waits for nothing, so that it is done at once."""
    try:
        answering.send(None)
    except StopIteration as done:
        status, headers, body = done.value
        return status, headers, body.encode() if isinstance(body, str) else body
    raise AssertionError("the emulator's table waits for something")
