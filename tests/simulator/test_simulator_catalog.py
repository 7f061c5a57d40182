"""Clusters, products and stock."""

from typing import Any

from local.novita.client import Simulator
from tests.simulator.bare_api import Api, reason


def test_clusters_map_names_to_ids(api: Api) -> None:
    found = {one["name"]: one["id"] for one in api.get("/clusters").json()["data"]}

    assert found == {
        "CN-HK-01 (Hong Kong)": "cn-hongkong-1",
        "AS-SGP-02 (Singapore)": "as-sgp-2",
        "AS-IN-01 (Mumbai)": "as-in-1",
        "US-CA-06 (California)": "us-ca-6",
    }


def test_a_product_has_the_documented_fields(api: Api) -> None:
    shown = api.products()["4090.16c62g"]

    assert shown == {
        "id": "4090.16c62g",
        "name": "RTX 4090 24GB",
        "cpuPerGpu": 16,
        "memoryPerGpu": 62,
        "diskPerGpu": 200,
        "availableDeploy": True,
        "inventoryState": "high",
        "minRootFS": 10,
        "maxRootFS": 1000,
        "minLocalStorage": 0,
        "maxLocalStorage": 1000,
        "regions": ["CN-HK-01 (Hong Kong)", "US-CA-06 (California)"],
        "price": "35000",
        "spotPrice": "18000",
        "monthlyPrice": [{"price": str(35000 * 720), "month": 1}],
        "billingMethods": ["onDemand", "monthly", "spot"],
    }


def test_without_a_billing_method_only_on_demand_is_shown(api: Api) -> None:
    assert "3090.10c40g" not in api.products()
    assert "3090.10c40g" in api.products(billingMethod="spot")
    assert "3090.12c48g" not in api.products(billingMethod="spot")
    assert reason(api.get("/products", billingMethod="free")) == (400, "VALIDATOR_PARAM")


def test_products_are_filtered(api: Api) -> None:
    assert set(api.products(productName="l40s")) == {"l40s.16c90g", "l40s.14c80g"}
    assert set(api.products(productName="3090", clusterId="us-ca-6")) == {"3090.8c32g"}
    assert set(api.products(minMemoryPerGpu=180)) == {"h100.24c224g", "h100.20c180g"}
    assert set(api.products(minCpuPerGpu=24)) == {"4090.24c128g", "h100.24c224g"}
    assert api.products(minRootFSSize=1001) == api.products(clusterId="mars-1") == {}
    assert reason(api.get("/products", gpuNum=9)) == (400, "VALIDATOR_PARAM")
    assert api.get("/cpu/products").json() == {"data": []}


def test_the_cheapest_differs_between_regions_and_one_is_never_to_be_had(api: Api) -> None:
    offers = api.products(productName="RTX 4090 24GB", billingMethod="spot").values()

    cheapest = {
        region: min((int(one["spotPrice"]), one["id"]) for one in offers if region in str(one["regions"]))
        for region in ("CN-HK-01", "AS-SGP-02", "US-CA-06")
    }

    assert cheapest["CN-HK-01"] == (4900, "4090.8c30g")
    assert [one["id"] for one in offers if not one["availableDeploy"]] == ["4090.8c30g"]
    assert cheapest["US-CA-06"][0] == 18000


def test_a_product_sells_out_and_comes_back(api: Api, sim: Simulator) -> None:
    order: dict[str, Any] = {"productId": "l40s.14c80g", "clusterId": "cn-hongkong-1"}
    seen = [api.products()["l40s.14c80g"]["inventoryState"]]
    first = api.create(**order, gpuNum=2)
    seen.append(api.products()["l40s.14c80g"]["inventoryState"])
    api.create(**order, gpuNum=2)
    sold_out = api.products()["l40s.14c80g"]
    refused = api.try_create(**order)
    anywhere = api.try_create(productId="l40s.14c80g", clusterId="")
    api.act("delete", first)
    sim.advance(3)

    assert seen == ["normal", "low"]
    assert (sold_out["inventoryState"], sold_out["availableDeploy"]) == ("none", False)
    assert reason(refused) == reason(anywhere) == (400, "INSUFFICIENT_RESOURCE")
    assert api.try_create(**order, gpuNum=2).status_code == 200


def test_a_count_that_does_not_fit_is_not_deployable(api: Api) -> None:
    assert api.products(gpuNum=4)["l40s.14c80g"]["availableDeploy"] is True
    assert api.products(gpuNum=5)["l40s.14c80g"]["availableDeploy"] is False


def test_stock_belongs_to_a_region(api: Api, sim: Simulator) -> None:
    sim.patch_product("4090.16c62g", stock={"CN-HK-01": 0})

    here = api.products(clusterId="cn-hongkong-1")["4090.16c62g"]
    anywhere = api.products()["4090.16c62g"]

    assert (here["availableDeploy"], anywhere["availableDeploy"]) == (False, True)
    assert reason(api.try_create(clusterId="cn-hongkong-1")) == (400, "INSUFFICIENT_RESOURCE")
    assert api.try_create(clusterId="us-ca-6").status_code == 200


def test_a_stopped_machine_may_not_get_its_gpus_back(api: Api, sim: Simulator) -> None:
    sim.patch_product("4090.16c62g", stock=1)
    stopped = sim.put_instance(status="exited")["id"]
    api.create()

    assert reason(api.act("start", stopped)) == (400, "INSUFFICIENT_RESOURCE")
    assert reason(api.act("migrate", stopped)) == (400, "MIGRATE_INSUFFICIENT_RESOURCE")
    assert api.status(stopped) == "exited"


def test_a_product_can_be_changed_by_hand(api: Api, sim: Simulator) -> None:
    sim.patch_product("4090.16c62g", price=1, spotPrice=2, availability=False, regions=["AS-IN-01"])

    shown = api.products()["4090.16c62g"]

    assert (shown["price"], shown["spotPrice"], shown["availableDeploy"]) == ("1", "2", False)
    assert shown["regions"] == ["AS-IN-01 (Mumbai)"]


def test_a_new_product_can_be_put_there(api: Api, sim: Simulator) -> None:
    sim.put_product(
        "new.1", name="B200", cpuPerGpu=1, memoryPerGpu=1, price=5, spotPrice=4, regions=["US-CA-06"]
    )

    assert api.products(productName="b200")["new.1"]["price"] == "5"


def test_the_price_of_a_purchase_stays(api: Api, sim: Simulator) -> None:
    id_ = api.create()

    sim.patch_product("4090.16c62g", spotPrice=99999)

    assert api.instance(id_)["instancePrice"] == "18000"
