"""A retry of the client after a lost answer never makes a second instance."""

from collections.abc import Iterator

import pytest
import requests
from ostler.client import Ostler

from tests.client.small_server import LOST, Asked, Said, SmallServer, small_server
from tests.e2e.service import Service


@pytest.fixture
def losing(service: Service) -> Iterator[SmallServer]:
    """In front of the service: everything is passed on, and of the first two answers nobody hears."""
    with small_server() as front:

        def pass_on(asked: Asked) -> Said:
            passed = ("Authorization", "Idempotency-Key")
            headers = {name: value for name, value in asked.headers.items() if name in passed}
            url = service.stack.api_url + asked.path
            answer = requests.request(asked.method, url, json=asked.body, headers=headers, timeout=30)
            return Said(LOST) if len(front.asked) <= 2 else Said(answer.status_code, answer.json())

        front.otherwise = pass_on
        yield front


def test_lost_answers_to_a_create_make_one_instance(service: Service, losing: SmallServer) -> None:
    with Ostler(losing.url, service.stack.api_key) as client:
        made = client.create("once", "RTX 4090 24GB", "107672")

    assert len(losing.asked) == 3
    assert [one["instanceId"] for one in service.get("/api/instances")["instances"]] == [made["instanceId"]]
    service.wait_for(made["instanceId"], "running")
    assert len(service.simulator.live()) == 1
