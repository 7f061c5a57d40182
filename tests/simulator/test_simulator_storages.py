"""Network storage: made, listed in pages, mounted in its own cluster, and kept while it is in use."""

from typing import Any

import pytest

from local.novita.client import Simulator
from tests.simulator.bare_api import Api, reason


def make(api: Api, name: str = "data", cluster: str = "cn-hongkong-1") -> str:
    body = {"clusterId": cluster, "storageName": name, "storageSize": 100}
    response = api.post("/networkstorage/create", body)
    assert response.status_code == 200, response.text
    return str(response.json()["id"])


def listed(api: Api, **query: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = api.get("/networkstorages/list", **query).json()["data"]
    return found


def test_a_storage_is_made_listed_changed_and_removed(api: Api) -> None:
    id_ = make(api)

    (shown,) = listed(api)
    assert shown == {
        "storageId": id_,
        "storageName": "data",
        "storageSize": 100,
        "clusterId": "cn-hongkong-1",
        "clusterName": "CN-HK-01 (Hong Kong)",
        "price": "200",
    }
    grown = {"storageId": id_, "storageName": "more", "storageSize": 200}
    assert api.post("/networkstorage/update", grown).json() == {}
    assert reason(api.post("/networkstorage/update", grown | {"storageSize": 100})) == (
        400,
        "VALIDATOR_PARAM",
    )
    assert [one["storageSize"] for one in listed(api, storageId=id_)] == [200]
    assert api.post("/networkstorage/delete", {"storageId": id_}).json() == {}
    assert listed(api) == []


def test_pages_are_asked_for_by_page_no(api: Api, sim: Simulator) -> None:
    for number in range(5):
        make(api, f"s{number}")

    pages = [listed(api, pageSize=2, pageNo=number) for number in range(4)]

    assert [[one["storageName"] for one in page] for page in pages] == [
        ["s0", "s1"],
        ["s2", "s3"],
        ["s4"],
        [],
    ]
    sim.settings(pageStart=1)
    assert [one["storageName"] for one in listed(api, pageSize=2, pageNo=2)] == ["s2", "s3"]


def test_it_is_mounted_in_its_own_cluster_only(api: Api) -> None:
    here, there = make(api), make(api, cluster="as-sgp-2")

    assert reason(api.try_create(networkStorages=[{"Id": there}])) == (400, "NETWORK_STORAGE_UNAVAILABLE")
    assert reason(api.try_create(networkStorages=[{"Id": "none"}])) == (400, "NETWORK_STORAGE_NOT_FOUND")
    id_ = api.create(networkStorages=[{"Id": here, "mountPoint": "/data"}])
    mount = {"type": "network", "size": 100, "id": here, "mountPath": "/data"}
    assert api.instance(id_)["volumeMounts"] == [mount]


def test_without_a_cluster_the_machine_is_where_its_storage_is(api: Api) -> None:
    id_ = api.create(without="clusterId", productId="4090.18c96g", networkStorages=[{"Id": make(api)}])

    assert api.instance(id_)["clusterId"] == "cn-hongkong-1"


def test_it_cannot_be_removed_while_a_machine_has_it(api: Api, sim: Simulator) -> None:
    storage = make(api)
    machine = api.create(networkStorages=[{"Id": storage}])

    assert reason(api.post("/networkstorage/delete", {"storageId": storage})) == (
        400,
        "NETWORK_STORAGE_IN_USE",
    )
    api.act("delete", machine)
    sim.advance(60)
    assert api.post("/networkstorage/delete", {"storageId": storage}).status_code == 200


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ({"clusterId": "mars", "storageName": "a", "storageSize": 100}, "RESOURCE_NOT_FOUND"),
        ({"clusterId": "as-sgp-2", "storageName": "a", "storageSize": 9}, "VALIDATOR_PARAM"),
        ({"clusterId": "as-sgp-2", "storageSize": 10}, "VALIDATOR_PARAM"),
    ],
)
def test_a_bad_one_is_not_made(api: Api, body: dict[str, Any], why: str) -> None:
    assert reason(api.post("/networkstorage/create", body)) == (400, why)
    assert listed(api) == []


def test_its_id_may_be_all_that_is_answered(api: Api, sim: Simulator) -> None:
    sim.settings(storageCreateAs="string")
    body = {"clusterId": "as-sgp-2", "storageName": "a", "storageSize": 10}

    assert api.post("/networkstorage/create", body).json() == listed(api)[0]["storageId"]
