"""The smoke test for real accounts, tried on the deployed template and the simulator."""

import os
from dataclasses import replace

import pytest

from ops.command import RefusalError
from ops.keys import list_keys
from ops.smoke import SmokeTest, find_service, read_order
from ops.smoke_client import ServiceClient, api_key_auth
from ops.smoke_purchase import Order
from ops.target import Target
from tests.e2e.service import Service

ORDER = Order(template="107672", max_price=0.5, max_wait_seconds=40)


def smoke(service: Service, order: Order | None = None, key: str = "") -> tuple[bool, list[str]]:
    said: list[str] = []
    client = ServiceClient(service.stack.api_url, api_key_auth(key or service.stack.api_key))
    good = SmokeTest(client, "", order, said.append).run()
    return good, said


def test_a_smoke_test_only_looks(service: Service) -> None:
    good, said = smoke(service)

    assert good, said
    assert [line.split(":")[0].split(maxsplit=1) for line in said[:-1]] == [
        ["ok", "health"],
        ["ok", "deep health"],
        ["ok", "no key is refused"],
        ["ok", "a wrong key is refused"],
        ["ok", "description of the API"],
        ["ok", "products"],
        ["ok", "quote"],
    ]
    assert said[-1] == "7 of 7 checks passed"
    assert service.get("/api/instances")["total"] == 0
    assert service.simulator.calls("/gpu/instance/create") == []


def test_a_purchase_gives_the_machine_back_and_says_what_it_cost(service: Service) -> None:
    good, said = smoke(service, ORDER)

    assert good, said
    assert "it cost about 0.0" in said[-2]
    (machine,) = service.simulator.instances()
    assert machine["status"] == "removed"


def test_a_machine_that_does_not_come_up_is_given_back(service: Service) -> None:
    service.simulator.settings(bootSeconds=600)

    good, said = smoke(service, Order("107672", 0.5, max_wait_seconds=3))

    assert not good
    assert any(line.startswith("FAILED   purchase") for line in said)
    assert service.simulator.live() == []


def test_nothing_is_bought_above_the_price_that_was_set(service: Service) -> None:
    good, said = smoke(service, Order("107672", 0.0001))

    assert not good
    assert any("PRICE_CAP_EXCEEDED" in line for line in said)
    assert service.simulator.instances() == []


def test_a_service_that_is_not_well_sells_nothing(service: Service) -> None:
    good, said = smoke(service, ORDER, key="ost_" + "x" * 43)

    assert not good
    assert any(line.startswith("skipped  purchase") for line in said)
    assert service.simulator.calls() == []


def test_buying_without_a_price_cap_is_refused() -> None:
    with pytest.raises(RefusalError, match="SMOKE_MAX_PRICE and SMOKE_TEMPLATE"):
        read_order({"SMOKE_BUY": "1"})

    assert read_order({}) is None
    assert read_order({"SMOKE_BUY": "1", "SMOKE_MAX_PRICE": "0.3", "SMOKE_TEMPLATE": "7"}) == Order("7", 0.3)


@pytest.mark.usefixtures("credentials")
def test_a_deployed_stack_is_found_with_a_key_for_as_long_as_it_takes(service: Service) -> None:
    table = service.stack.emulator.table(service.stack.table_name)

    with find_service({}, lambda: Target.find(os.environ)) as client:
        answer = replace(client, url=service.stack.api_url).call("GET", "/api/instances")
        assert answer.status_code == 200

    assert client.url == service.stack.outputs["ApiUrl"]
    assert {key.revoked_at != "" for key in list_keys(table) if key.name == "smoke test"} == {True}


@pytest.mark.parametrize(
    ("auth", "named"),
    [("", "OSTLER_API_KEY"), ("keys", "OSTLER_API_KEY"), ("jwt", "OSTLER_TOKEN"), ("open", "OSTLER_AUTH")],
)
def test_an_address_without_what_opens_it_is_refused(auth: str, named: str) -> None:
    with (
        pytest.raises(RefusalError, match=named),
        find_service({"OSTLER_URL": "http://a.example", "OSTLER_AUTH": auth}, lambda: Target.find({})),
    ):
        pass
