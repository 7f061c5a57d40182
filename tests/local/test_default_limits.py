"""The default rate limit in real processes and real time: callers at once, and one key that only reads."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from threading import Event

import pytest
import requests

from local.ports import Ports
from local.stack import LocalStack
from ops.keys import create_key, new_key
from tests.e2e.service import Service


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    # The default but for how soon a last look comes, how soon details are old enough to be asked for, and how
    # long a look-up may take, as a busy machine has other things to do. The soak test sets nothing.
    settings = {"INSTANCE_POLL_INTERVAL": "3", "DETAILS_TTL": "1", "LOOKUP_SECONDS": "6"}
    with LocalStack(tmp_path_factory.mktemp("limits"), Ports.free(), settings) as stack:
        service = Service(stack)
        service.clean_slate()
        _warm_up(service)
        yield service
        service.assert_books_balance()


def _warm_up(service: Service) -> None:
    """As many processes as there are callers at once, so that nobody waits for one to begin."""
    for _ in range(3):
        with ThreadPoolExecutor(10) as clients:
            assert all(
                answer.ok for answer in clients.map(lambda _: service.call("GET", "/api/me"), range(10))
            )


def _reads(service: Service, key: str, until: Event) -> int:
    """Everything that a key with no other right can make Novita be asked for, without a pause."""
    headers, answered = {"Authorization": f"Bearer {key}"}, 0
    for number in count():
        if until.is_set():
            return answered
        for path in (f"/api/products?name=none-{key[-4:]}-{number}", f"/api/templates/{key[-4:]}{number}"):
            service.call("GET", path, headers=headers)
            answered += 1
    raise AssertionError


REQUEST = {"name": "test", "productName": "RTX 4090 24GB", "templateId": "107672"}


def _creates_of_unknown_products(service: Service) -> list[requests.Response]:
    """Ten at once, from five clients."""
    with ThreadPoolExecutor(5) as clients:
        bodies = [{**REQUEST, "productName": f"none-{number}"} for number in range(10)]
        return list(clients.map(lambda body: service.call("POST", "/api/instances", body), bodies))


def _creates_and_gets(
    service: Service, instance_ids: list[str]
) -> tuple[list[requests.Response], list[requests.Response]]:
    """Six creates and a GET of each instance, all at once."""
    with ThreadPoolExecutor(10) as clients:
        created = [clients.submit(service.call, "POST", "/api/instances", REQUEST) for _ in range(6)]
        read = [clients.submit(service.call, "GET", f"/api/instances/{one}") for one in instance_ids]
        return [one.result() for one in created], [one.result() for one in read]


def _require_unknown(answers: list[requests.Response]) -> None:
    assert [answer.status_code for answer in answers] == [404] * 10
    assert {answer.json()["error"]["code"] for answer in answers} == {"PRODUCT_NOT_FOUND"}


def _require_asked(created: list[requests.Response], read: list[requests.Response]) -> None:
    """Nobody was told that Novita could not be asked."""
    assert [answer.status_code for answer in created] == [201] * 6
    assert {answer.json()["message"] for answer in created} == {"Accepted; a machine is being bought"}
    assert [answer.status_code for answer in read] == [200] * 4
    assert not any("stale" in answer.json() for answer in read)


def test_ten_unknown_products_at_once_from_five_clients_are_ten_times_not_found(service: Service) -> None:
    _require_unknown(_creates_of_unknown_products(service))

    assert len(service.simulator.calls("/products")) <= 4


def test_six_creates_and_four_gets_at_once_show_nothing_stale(service: Service) -> None:
    known = [service.take_over() for _ in range(4)]
    taken_at = datetime.now(UTC)
    assert service.wait(lambda: datetime.now(UTC) - taken_at > timedelta(seconds=1.5))

    created, read = _creates_and_gets(service, known)

    _require_asked(created, read)
    assert all(datetime.fromisoformat(one.json()["lastSyncedAt"]) > taken_at for one in read)


def test_a_create_is_bought_while_one_key_reads_all_it_can(service: Service) -> None:
    key, enough = new_key(), Event()
    table = service.stack.emulator.session().resource("dynamodb", endpoint_url=service.stack.emulator_url)
    create_key(table.Table(service.stack.table_name), name="reader", scopes=("read",), key=key)

    with ThreadPoolExecutor(8) as crowd:
        readers = [crowd.submit(_reads, service, key, enough) for _ in range(8)]
        try:
            assert service.wait(lambda: len(service.simulator.calls("/template")) >= 15)
            instance_id = service.create()
            shown = service.wait_for(instance_id, "starting", "running")
        finally:
            enough.set()
    calls = service.simulator.calls()

    assert "stale" not in shown
    assert sum(reader.result() for reader in readers) > 50
    assert sum(call["status"] == 429 for call in calls) == 0
    assert len(calls) <= 105
    service.wait_for(instance_id, "running", seconds=90)


@pytest.mark.soak
def test_after_a_quiet_minute_with_nothing_set_all_of_it_is_answered_by_novita(tmp_path: Path) -> None:
    with LocalStack(tmp_path, Ports.free()) as stack:
        service = Service(stack)
        service.clean_slate()
        _warm_up(service)
        known = [service.take_over() for _ in range(4)]
        time.sleep(61)

        _require_unknown(_creates_of_unknown_products(service))
        time.sleep(61)
        asked_at = datetime.now(UTC)
        created, read = _creates_and_gets(service, known)

        _require_asked(created, read)
        assert all(datetime.fromisoformat(one.json()["lastSyncedAt"]) >= asked_at for one in read)
        for one in created:
            service.wait_for(one.json()["instanceId"], "running", seconds=120)
        service.assert_books_balance()
