"""The SDK as it is in production, retries and all, where nobody waits for real."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from botocore import UNSIGNED
from botocore.retries.standard import ExponentialBackoff

from functions.shared.platform.wiring import Wiring
from tests.integration.quick_http import send_quickly
from tests.integration.wire import WatchedWiring, watch

_CLIENTS: dict[tuple[str, str], Any] = {}


class ProductionWiring(WatchedWiring):
    """With the SDK as it is in production, its repeated attempts included; only that signing is left out and
    sending is quicker."""

    def client(self, service: Any) -> Any:
        place = (str(service), os.environ["AWS_ENDPOINT_URL"])
        if place not in _CLIENTS:
            _CLIENTS[place] = watch(send_quickly(Wiring.client(self, service)))
            _CLIENTS[place].meta.events.register("choose-signer", lambda **_: UNSIGNED)
        return _CLIENTS[place]


@contextmanager
def attempts_at_once() -> Iterator[None]:
    """The SDK waits between its attempts; nobody here waits for real."""
    with patch.object(ExponentialBackoff, "delay_amount", lambda *_: 0.0):
        yield
