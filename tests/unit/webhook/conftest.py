"""A line for each test, on a table of its own in this process."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.unit.tables import dynamodb, new_table
from tests.unit.webhook.harness import Hook, Line, listening

Listen = Callable[..., Hook]


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    with dynamodb() as made:
        yield made


@pytest.fixture
def make_line(client: Any) -> Callable[..., Line]:
    table = new_table(client)
    return lambda **options: Line(table, **options)


@pytest.fixture
def line(make_line: Callable[..., Line]) -> Line:
    return make_line()


@pytest.fixture
def listen(line: Line) -> Iterator[Listen]:
    """Opens receivers that give these answers in turn, and the last one for good."""
    with ExitStack() as servers:

        def open_one(*answers: Any) -> Hook:
            return servers.enter_context(listening(line.clock, *answers))

        yield open_one
