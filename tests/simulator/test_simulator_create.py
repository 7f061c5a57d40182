"""Creating an instance: what is taken, what is refused and why."""

from typing import Any

import pytest

from local.novita.client import Simulator
from local.novita.templates import AUTHS, PRIVATE_IMAGE
from tests.simulator.bare_api import Api, reason

AUTH_ID, _, USER, PASSWORD = AUTHS[0]


def test_a_good_order_gives_an_id_of_sixteen_hex_digits(api: Api) -> None:
    response = api.try_create()

    assert response.status_code == 200
    assert set(response.json()) == {"id"}
    assert len(response.json()["id"]) == 16
    assert int(response.json()["id"], 16) >= 0


@pytest.mark.parametrize("field", ["productId", "gpuNum", "rootfsSize", "imageUrl", "kind"])
def test_a_required_field_that_is_missing_is_named(api: Api, sim: Simulator, field: str) -> None:
    response = api.try_create(without=field)

    assert reason(response) == (400, "VALIDATOR_PARAM")
    assert field in response.json()["message"]
    assert sim.instances() == []


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"kind": "tpu"}, "VALIDATOR_PARAM"),
        ({"gpuNum": 0}, "VALIDATOR_PARAM"),
        ({"gpuNum": 9}, "VALIDATOR_PARAM"),
        ({"gpuNum": "1"}, "VALIDATOR_PARAM"),
        ({"name": "x" * 256}, "VALIDATOR_PARAM"),
        ({"name": "under_score"}, "VALIDATOR_PARAM"),
        ({"imageUrl": ""}, "VALIDATOR_PARAM"),
        ({"imageUrl": "x" * 501}, "VALIDATOR_PARAM"),
        ({"ports": [{"port": 80, "type": "http"}]}, "VALIDATOR_PARAM"),
        ({"ports": "80"}, "VALIDATOR_PARAM"),
        ({"ports": "80/udp"}, "VALIDATOR_PARAM"),
        ({"ports": "0/http"}, "VALIDATOR_PARAM"),
        ({"ports": "65536/http"}, "VALIDATOR_PARAM"),
        ({"ports": "2222/tcp"}, "VALIDATOR_PARAM"),
        ({"ports": "2224/http"}, "VALIDATOR_PARAM"),
        ({"ports": "80/http,80/tcp"}, "VALIDATOR_PARAM"),
        ({"ports": ",".join(f"{port}/http" for port in range(8000, 8016))}, "VALIDATOR_PARAM"),
        ({"envs": [{"key": "K", "value": "v"}] * 101}, "VALIDATOR_PARAM"),
        ({"envs": [{"key": "K", "value": 1}]}, "VALIDATOR_PARAM"),
        ({"envs": [{"key": "K" * 512, "value": ""}]}, "VALIDATOR_PARAM"),
        ({"command": "x" * 2048}, "VALIDATOR_PARAM"),
        ({"imageAuth": "no-colon"}, "VALIDATOR_PARAM"),
        ({"rootfsSize": 1001}, "VALIDATOR_PARAM"),
        ({"rootfsSize": 6145}, "VALIDATOR_PARAM"),
        ({"billingMode": "free"}, "VALIDATOR_PARAM"),
        ({"autoRenewMonth": 13}, "VALIDATOR_PARAM"),
        ({"clusterId": "as-in-1"}, "VALIDATOR_PARAM"),
        ({"clusterId": "mars-1"}, "RESOURCE_NOT_FOUND"),
        ({"productId": "none"}, "RESOURCE_NOT_FOUND"),
        ({"kind": "cpu"}, "RESOURCE_NOT_FOUND"),
        ({"imageAuthId": "none"}, "RESOURCE_NOT_FOUND"),
        ({"productId": "3090.12c48g"}, "UNSUPPORTED_BILLING_MODE"),
        ({"productId": "4090.8c30g"}, "INSUFFICIENT_RESOURCE"),
        ({"imageUrl": "ghcr.io/ostler-demo/missing:1"}, "IMAGE_NOT_FOUND"),
        ({"networkId": "n-1"}, "NETWORK_NOT_FOUND"),
        ({"networkStorages": [{"Id": "s-1"}]}, "NETWORK_STORAGE_NOT_FOUND"),
    ],
)
def test_a_bad_order_is_refused_and_buys_nothing(
    api: Api, sim: Simulator, wrong: dict[str, Any], why: str
) -> None:
    response = api.try_create(**wrong)

    assert reason(response) == (400, why)
    assert sim.instances() == []


@pytest.mark.parametrize("body", [None, [], "text", 7])
def test_a_body_that_is_no_object_is_refused(api: Api, body: Any) -> None:
    response = api.post("/gpu/instance/create", body)

    assert reason(response) == (400, "VALIDATOR_PARAM")


def test_ports_and_tools_count_together(api: Api) -> None:
    ports = ",".join(f"{port}/http" for port in range(8000, 8014))
    tool = {"name": "Jupyter", "port": "8888", "type": "http"}

    assert api.try_create(ports=ports, tools=[tool]).status_code == 200
    assert reason(api.try_create(ports=ports, tools=[tool, tool])) == (400, "VALIDATOR_PARAM")


def test_spaces_between_ports_and_no_ports_at_all_are_fine(api: Api) -> None:
    spaced = api.create(ports="80/http, 3306/tcp")
    none = api.create(ports="")

    assert [one["port"] for one in api.instance(spaced)["portMappings"]] == [80, 3306]
    assert api.instance(none)["portMappings"] == []


def test_a_small_disk_becomes_ten_gigabytes(api: Api) -> None:
    id_ = api.create(rootfsSize=3)

    assert api.instance(id_)["rootfsSize"] == 10


def test_unknown_fields_are_dropped(api: Api) -> None:
    id_ = api.create(env=[{"key": "K", "value": "v"}])

    assert api.instance(id_)["envs"] == []


def test_months_force_monthly_billing(api: Api) -> None:
    id_ = api.create(month=1, billingMode="onDemand")

    assert api.instance(id_)["billingMode"] == "monthly"
    assert api.instance(id_)["endTime"] != "-1"
    assert reason(api.act("delete", id_)) == (400, "PREPAID_INSTANCE_NOT_SUPPORT_RELEASE")


def test_without_a_cluster_one_that_sells_it_is_chosen(api: Api) -> None:
    id_ = api.create(clusterId="")

    assert api.instance(id_)["clusterId"] in ("cn-hongkong-1", "us-ca-6")


def test_a_private_image_needs_a_login(api: Api) -> None:
    refused = api.try_create(imageUrl=PRIVATE_IMAGE)
    wrong = api.try_create(imageUrl=PRIVATE_IMAGE, imageAuth=f"{USER}:wrong")
    by_id = api.try_create(imageUrl=PRIVATE_IMAGE, imageAuthId=AUTH_ID)
    by_login = api.try_create(imageUrl=PRIVATE_IMAGE, imageAuth=f"{USER}:{PASSWORD}")

    assert reason(refused) == (400, "IMAGE_NOT_FOUND")
    assert reason(wrong) == (400, "IMAGE_NOT_FOUND")
    assert by_id.status_code == by_login.status_code == 200


def test_money_and_limits_can_run_out(api: Api, sim: Simulator) -> None:
    sim.settings(balanceEnough=False)
    poor = api.try_create()
    sim.settings(balanceEnough=True, instanceLimit=1)
    api.create()
    many = api.try_create()

    assert reason(poor) == (400, "BALANCE_NOT_ENOUGH")
    assert reason(many) == (400, "CREATE_INSTANCE_LIMIT")


def test_a_name_can_be_taken_twice(api: Api) -> None:
    first = api.create(name="same")
    second = api.create(name="same")

    assert first != second


@pytest.mark.parametrize("header", ["", "Bearer", "Bearer ", "Basic abc", "some-key"])
def test_no_key_is_no_entry(api: Api, header: str) -> None:
    api.session.headers["Authorization"] = header

    assert reason(api.get("/clusters")) == (401, "UNAUTHORIZED")


def test_a_key_can_be_told_to_be_rejected(api: Api, sim: Simulator) -> None:
    sim.settings(rejectedKeys=["some-key"])

    rejected = api.get("/clusters")
    api.session.headers["Authorization"] = "Bearer another-key"
    accepted = api.get("/clusters")

    assert reason(rejected) == (401, "UNAUTHORIZED")
    assert accepted.status_code == 200
