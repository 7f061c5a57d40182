"""A harness for each test, on a table of its own in this process."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.unit.tables import dynamodb, new_table
from tests.unit.webhook.harness import Hook, WebhookHarness, listening

Listen = Callable[..., Hook]


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    with dynamodb() as made:
        yield made


@pytest.fixture
def make_harness(client: Any) -> Callable[..., WebhookHarness]:
    table = new_table(client)
    return lambda **options: WebhookHarness(table, **options)


@pytest.fixture
def harness(make_harness: Callable[..., WebhookHarness]) -> WebhookHarness:
    return make_harness()


@pytest.fixture
def listen(harness: WebhookHarness) -> Iterator[Listen]:
    """Opens receivers that give these answers in turn, and the last one for good."""
    with ExitStack() as servers:

        def open_one(*answers: Any) -> Hook:
            return servers.enter_context(listening(harness.clock, *answers))

        yield open_one
