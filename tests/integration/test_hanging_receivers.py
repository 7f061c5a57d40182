"""Receivers that hang: from a minute after they began, everybody else's webhooks are sent within seconds."""

from datetime import datetime, timedelta
from functools import partial
from math import ceil
from urllib.parse import urlsplit

import pytest

from functions.shared.domain.messages import DeliveryMessage
from tests.integration.conftest import Build
from tests.integration.harness import Harness
from tests.integration.virtual_workers import WORKERS, VirtualNetwork, VirtualWorkers
from tests.unit.webhook.harness import announcement

OTHERS = [f"https://hook.well-{number}.example" for number in range(10)]
PER_RECEIVER = 3


class Telling:
    """Events for receivers, some of which hang once `begin_to_hang` says so."""

    def __init__(self, harness: Harness) -> None:
        self._harness = harness
        self._told = 0
        self._hanging: frozenset[str] = frozenset()
        self.workers = VirtualWorkers(harness)
        self.network = VirtualNetwork(self.workers, _origin, lambda origin: origin in self._hanging)
        harness.wiring.outbound = self.network
        self.told_at: dict[str, datetime] = {}

    def begin_to_hang(self, origins: list[str]) -> None:
        self._hanging = frozenset(origins)

    def tell(self, origin: str) -> str:
        """One event for the receiver, with a path of its own, by which it is known again."""
        self._told += 1
        url = f"{origin}/{self._told}"
        wired, now = self._harness.wiring, self.workers.now()
        delivery_id, _ = wired.deliveries.add(announcement(url, self._told), url, now)
        self.told_at[url] = now
        wired.queues.send("webhook", DeliveryMessage(delivery_id, 1, "corr"))
        return url

    def keep_telling(self, origins: list[str], every: float, seconds: float) -> None:
        """Each of them gets an event after each interval, one origin after the other within it."""
        for number in range(ceil(seconds / every) * len(origins)):
            origin = origins[number % len(origins)]
            self.workers.at(number * every / len(origins), partial(self.tell, origin))

    def waits(self, origins: list[str], since: datetime) -> list[float]:
        """From each event to its first attempt, in order of length; for ever where there was none."""
        began = {url: at for at, url in reversed(self.network.began)}
        return sorted(
            (began[url] - at).total_seconds() if url in began else float("inf")
            for url, at in self.told_at.items()
            if _origin(url) in origins and at >= since
        )


def _origin(url: str) -> str:
    return f"{urlsplit(url).scheme}://{urlsplit(url).netloc}"


@pytest.fixture
def telling(build: Build) -> Telling:
    return Telling(build(WEBHOOK_PER_RECEIVER=str(PER_RECEIVER)))


HANGING: dict[str, list[str]] = {
    "20 receivers": [f"https://hook.hang-{number}.example" for number in range(20)],
    "50 subdomains": [f"https://hook-{number}.hang.example" for number in range(50)],
    "50 ports": [f"http://203.0.113.9:{8000 + number}" for number in range(50)],
}


def percentile(waits: list[float], share: float) -> float:
    return waits[ceil(share * len(waits)) - 1]


@pytest.mark.parametrize(
    ("which", "known", "events"),
    [
        ("20 receivers", True, WORKERS),
        ("50 subdomains", False, 1),
        pytest.param("50 ports", True, 2, marks=pytest.mark.soak),
    ],
)
def test_a_minute_after_receivers_began_to_hang_all_others_are_told_within_5_seconds(
    telling: Telling, which: str, known: bool, events: int
) -> None:
    """Whether the hanging ones are known to have answered before or not; so many events for each of them."""
    hanging = HANGING[which]
    for origin in (*OTHERS, *(hanging if known else ())):
        telling.tell(origin)
    telling.workers.run(30)

    telling.begin_to_hang(hanging)
    began = telling.workers.now()
    for origin in hanging:  # in the worst order: as many of one receiver as there are workers
        for _ in range(events):
            telling.tell(origin)
    telling.keep_telling(OTHERS, every=8, seconds=104)
    telling.workers.run(60)
    telling.network.most_hanging = 0
    telling.network.most_open.clear()
    telling.workers.run(50)

    waits = telling.waits(OTHERS, began + timedelta(seconds=60))
    assert len(waits) >= 50
    assert percentile(waits, 0.95) < 5
    assert 0 < telling.network.most_hanging <= WORKERS // 2
    assert max(telling.network.most_open.values()) <= PER_RECEIVER
