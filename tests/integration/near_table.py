"""The table in this process: nine of ten calls are for it, and the way to another costs as much as they do.

It is the emulator's own, which gets the bytes that botocore would send and whose answer botocore reads; only
the connection is missing. Whatever is not for the table goes on to the emulator.
"""

import importlib
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import Any

from local.emulator import Emulator
from tests.integration.quick_http import Exchanged, exchange, send_quickly, stands_in

_PLACE = "near-table:1"


@cache
def _table() -> Any:
    """The emulator sets up the log of the whole process when it is imported; that is put back."""
    root = logging.getLogger()
    level, handlers = root.level, root.handlers[:]
    service = importlib.import_module("ministack.services.dynamodb")
    root.setLevel(level)
    root.handlers[:] = handlers
    return service


class NearTable(Emulator):
    """An emulator that is reached by way of this process."""

    def __init__(self, behind: Emulator) -> None:
        self._behind = behind
        self.url = f"http://{_PLACE}"
        self._one_at_a_time = Lock()  # as the emulator answers

    def client(self, service: str) -> Any:
        return send_quickly(super().client(service))

    def ask(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> Exchanged:
        if not headers.get("X-Amz-Target", "").startswith("DynamoDB_"):
            return exchange(self._behind.url, method, path, body, headers)
        named = {name.lower(): value for name, value in headers.items()}
        with self._one_at_a_time:
            return _answer_of(_table().handle_request(method, path, named, body or b"", {}))


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
