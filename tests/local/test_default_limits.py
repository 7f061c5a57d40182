"""The default rate limit in real processes and real time: callers at once, and one key that only reads."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from threading import Event

import pytest

from local.ports import Ports
from local.stack import LocalStack
from ops.keys import create_key, new_key
from tests.e2e.service import Service


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    settings = {
        "INSTANCE_POLL_INTERVAL": "3"
    }  # the default but for the time that the last look takes to come
    with LocalStack(tmp_path_factory.mktemp("limits"), Ports.free(), settings) as stack:
        service = Service(stack)
        service.clean_slate()
        yield service
        service.assert_books_balance()


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


def test_ten_unknown_products_at_once_from_five_clients_are_ten_times_not_found(service: Service) -> None:
    request = {"name": "test", "templateId": "107672"}

    with ThreadPoolExecutor(5) as clients:
        answers = list(
            clients.map(
                lambda number: service.call(
                    "POST", "/api/instances", {**request, "productName": f"none-{number}"}
                ),
                range(10),
            )
        )

    assert [answer.status_code for answer in answers] == [404] * 10
    assert {answer.json()["error"]["code"] for answer in answers} == {"PRODUCT_NOT_FOUND"}
    assert len(service.simulator.calls("/products")) <= 4


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
