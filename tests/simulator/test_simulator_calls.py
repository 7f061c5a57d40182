"""The record of calls: complete, and without a secret."""

from local.novita.client import Simulator
from local.novita.masking import masked
from local.novita.templates import AUTHS, PRIVATE_IMAGE
from tests.simulator.bare_api import NOON, Api


def test_every_call_is_recorded_with_its_status(api: Api, sim: Simulator) -> None:
    api.session.headers.update({"X-Request-ID": "req-1", "X-Correlation-ID": "corr-1"})
    api.get("/products", productName="4090")
    api.get("/gpu/instance", instanceId="none")
    api.get("/no/such/path")

    calls = sim.calls()

    assert [(call["method"], call["path"].removeprefix("/gpu-instance/openapi/v1")) for call in calls] == [
        ("GET", "/products"),
        ("GET", "/gpu/instance"),
        ("GET", "/no/such/path"),
    ]
    assert [call["status"] for call in calls] == [200, 400, 404]
    assert calls[0]["query"] == {"productName": "4090"}
    assert (calls[0]["time"], calls[0]["fault"]) == (NOON, None)
    assert calls[0]["headers"]["X-Request-ID"] == "req-1"
    assert calls[0]["headers"]["X-Correlation-ID"] == "corr-1"
    assert calls[0]["headers"]["Authorization"] == "Bearer ***"


def test_calls_are_found_by_path_and_method_and_can_be_forgotten(api: Api, sim: Simulator) -> None:
    id_ = api.create()
    api.instance(id_)
    api.listed()

    assert len(sim.calls("/gpu/instance/create")) == 1
    assert [call["query"] for call in sim.calls("/gpu/instance")] == [{"instanceId": id_}]
    assert len(sim.calls(method="get")) == 2
    sim.clear_calls()
    assert sim.calls() == []


def test_no_secret_is_kept_in_the_open(api: Api, sim: Simulator) -> None:
    _, _, user, password = AUTHS[0]
    envs = [{"key": "HF_TOKEN", "value": "hf_abc"}, {"key": "MODE", "value": "fast"}]
    api.create(imageUrl=PRIVATE_IMAGE, imageAuth=f"{user}:{password}", envs=envs)
    api.post("/repository/auth/save", {"name": "n", "username": "u", "password": "open-sesame"})

    shown = str(sim.calls()) + str(sim.instances())

    assert not [secret for secret in (password, "hf_abc", "open-sesame", "some-key") if secret in shown]
    assert sim.calls()[0]["body"]["envs"][1] == {"key": "MODE", "value": "***"}
    assert sim.live()[0]["create"]["imageAuth"] == "***"


def test_a_body_that_is_not_json_is_only_measured(api: Api, sim: Simulator) -> None:
    api.session.post(api.url + "/gpu/instance/create", data=b"password=open-sesame", timeout=5)

    assert sim.calls()[0]["body"] == "not JSON, 20 bytes"


def test_masking_goes_to_any_depth() -> None:
    body = {"a": [{"b": {"password": "x", "imageAuth": ""}}], "envs": [{"key": "API_KEY", "value": "y"}]}

    assert masked(body) == {
        "a": [{"b": {"password": "***", "imageAuth": ""}}],
        "envs": [{"key": "API_KEY", "value": "***"}],
    }
