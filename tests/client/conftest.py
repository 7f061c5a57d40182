"""A small server and a client of it whose clock only its own waits move."""

from collections.abc import Iterator

import pytest
from ostler.client import Ostler

from tests.client.small_server import SmallServer, small_server


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0
        self.waits: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds


@pytest.fixture
def server() -> Iterator[SmallServer]:
    with small_server() as running:
        yield running


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def client(server: SmallServer, clock: Clock) -> Iterator[Ostler]:
    with Ostler(server.url, "ost_test", clock=clock, sleep=clock.sleep) as client:
        yield client
