"""The simulator through `novita-sdk`, somebody else's reading of Novita's API, with all defaults."""

from collections.abc import Iterator

import pytest
from novita import BadRequestError, NovitaClient
from novita.generated.models import CreateInstanceRequest

from local.novita.client import Simulator
from tests.simulator.bare_api import BODY


@pytest.fixture
def novita(sim: Simulator) -> Iterator[NovitaClient]:
    with NovitaClient("some-key", base_url=sim.base_url) as client:
        yield client


def test_products_and_templates_are_read(novita: NovitaClient) -> None:
    products = novita.gpu.products.list(product_name="4090", billing_method="spot")
    clusters = novita.gpu.clusters.list()
    template = novita.gpu.templates.get("107672")

    assert {one.name for one in products} == {"RTX 4090 24GB"}
    assert {one.id for one in clusters} >= {"cn-hongkong-1", "as-sgp-2"}
    assert template.image == "ghcr.io/ostler-demo/comfyui:latest"
    assert "107672" in {one.id for one in novita.gpu.templates.list()}


def test_a_machine_is_bought_listed_read_stopped_started_and_deleted(
    novita: NovitaClient, sim: Simulator
) -> None:
    order = CreateInstanceRequest.model_validate({**BODY, "name": "by-sdk"})
    machines = novita.gpu.instances

    id_ = machines.create(order).id
    sim.advance(60)
    assert [(one.id, one.name) for one in machines.list()] == [(id_, "by-sdk")]
    assert machines.get(id_).status == "running"
    machines.stop(id_)
    sim.advance(60)
    assert machines.get(id_).status == "exited"
    machines.start(id_)
    sim.advance(60)
    assert machines.get(id_).status == "running"
    machines.delete(id_)
    sim.advance(60)

    with pytest.raises(BadRequestError) as gone:
        machines.get(id_)
    assert gone.value.details["reason"] == "RESOURCE_NOT_FOUND"
    assert machines.list() == []


def test_network_storage_is_read(novita: NovitaClient, sim: Simulator) -> None:
    sim.put_storage("data", "AS-SGP-02")

    assert [one.storage_id for one in novita.gpu.storages.list()] == ["data"]
