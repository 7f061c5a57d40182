"""The body of a create call: exactly what Novita documents, nothing else."""

from dataclasses import replace
from decimal import Decimal

import pytest

from functions.shared.domain.market import Offer, Order, RegistryAuth, Template
from functions.shared.novita import payloads as orders

ORDER = Order(
    name="comfy-dep1-01J",
    offer=Offer("4090.16c62g", "RTX 4090 24GB", "CN-HK-01", "cn-hongkong-1", Decimal("0.18")),
    template=Template(id="1", name="t", image="ghcr.io/x/y:latest"),
    gpu_num=2,
    rootfs_size=60,
    billing_mode="spot",
)
FULL = replace(
    ORDER,
    template=Template(
        id="1",
        name="t",
        image="ghcr.io/x/y:latest",
        image_auth="auth-id",
        ports=((8188, "http"), (22, "tcp")),
        envs=(("K", "V"),),
        start_command="run",
        entrypoint="/bin/sh",
        min_cuda_version="12.4",
        tools=(("Jupyter", "8888", "http"),),
    ),
)
AUTH = RegistryAuth("auth-id", "bob", "hunter2")


def test_the_smallest_order_has_no_empty_fields() -> None:
    assert orders.order_body(ORDER) == {
        "kind": "gpu",
        "name": "comfy-dep1-01J",
        "productId": "4090.16c62g",
        "gpuNum": 2,
        "rootfsSize": 60,
        "imageUrl": "ghcr.io/x/y:latest",
        "clusterId": "cn-hongkong-1",
        "billingMode": "spot",
    }


def test_a_full_order_has_its_ports_in_one_string() -> None:
    body = orders.order_body(FULL)

    assert body["ports"] == "8188/http,22/tcp"
    assert body["envs"] == [{"key": "K", "value": "V"}]
    assert body["tools"] == [{"name": "Jupyter", "port": "8888", "type": "http"}]
    assert (body["command"], body["entrypoint"], body["minCudaVersion"]) == ("run", "/bin/sh", "12.4")
    assert body["imageAuthId"] == "auth-id"
    assert "imageAuth" not in body


def test_a_password_takes_the_place_of_the_auth_id() -> None:
    body = orders.order_body(FULL, AUTH)

    assert body["imageAuth"] == "bob:hunter2"
    assert "imageAuthId" not in body


@pytest.mark.parametrize("password", ["", "***", "********", "hun***r2", "••••••", "xxxxxxxx"])
def test_a_masked_password_is_known_as_such(password: str) -> None:
    assert orders.is_masked(replace(AUTH, password=password))


def test_a_password_is_no_mask() -> None:
    assert not orders.is_masked(AUTH)
    assert orders.is_masked(replace(AUTH, username=""))
