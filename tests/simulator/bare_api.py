"""A bare client of the API under test: it judges nothing and hands back what came."""

from typing import Any

import requests

from local.novita.client import Simulator

Json = dict[str, Any]
NOON = 1_800_000_000
BODY: Json = {
    "name": "ostler-test-1",
    "productId": "4090.16c62g",
    "gpuNum": 1,
    "rootfsSize": 60,
    "imageUrl": "ghcr.io/ostler-demo/comfyui:latest",
    "ports": "8188/http,80/http,22/tcp",
    "clusterId": "cn-hongkong-1",
    "kind": "gpu",
    "billingMode": "spot",
}


class Api:
    def __init__(self, sim: Simulator) -> None:
        self.url = sim.api_url
        self.session = requests.Session()
        self.session.trust_env = False
        self.session.headers["Authorization"] = "Bearer some-key"

    def get(self, path: str, timeout: float = 10, **query: Any) -> requests.Response:
        return self.session.get(self.url + path, params=query, timeout=timeout)

    def post(self, path: str, body: Any = None, timeout: float = 10, **more: Any) -> requests.Response:
        return self.session.post(self.url + path, json=body, timeout=timeout, **more)

    def try_create(self, timeout: float = 10, without: str = "", **over: Any) -> requests.Response:
        body = {name: value for name, value in {**BODY, **over}.items() if name != without}
        return self.post("/gpu/instance/create", body, timeout=timeout)

    def create(self, **over: Any) -> str:
        response = self.try_create(**over)
        assert response.status_code == 200, response.text
        return str(response.json()["id"])

    def act(self, action: str, id_: str) -> requests.Response:
        return self.post(f"/gpu/instance/{action}", {"instanceId": id_})

    def instance(self, id_: str) -> Json:
        response = self.get("/gpu/instance", instanceId=id_)
        assert response.status_code == 200, response.text
        found: Json = response.json()
        return found

    def status(self, id_: str) -> str:
        return str(self.instance(id_)["status"])

    def listed(self, **query: Any) -> list[Json]:
        found: list[Json] = self.get("/gpu/instances", **{"pageSize": 100, **query}).json()["instances"]
        return found

    def products(self, **query: Any) -> dict[str, Json]:
        return {one["id"]: one for one in self.get("/products", **query).json()["data"]}


def reason(response: requests.Response) -> tuple[int, str]:
    body = response.json()
    assert set(body) == {"code", "reason", "message", "metadata"}
    assert body["code"] == response.status_code
    return response.status_code, str(body["reason"])
