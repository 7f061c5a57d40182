"""The control interface: settings, clock, reset, and a reason for every refusal."""

from typing import Any

import pytest
import requests

from local.novita.client import Simulator, SimulatorError
from tests.simulator.bare_api import NOON, Api


def control(sim: Simulator, method: str, path: str, **more: Any) -> requests.Response:
    return requests.request(method, f"{sim.base_url}/_sim{path}", timeout=5, **more)


def test_health_needs_no_key(sim: Simulator) -> None:
    assert control(sim, "GET", "/health").status_code == 200


def test_settings_are_changed_one_by_one(sim: Simulator) -> None:
    before = sim.settings()

    after = sim.settings(bootSeconds=1)

    assert after == {**before, "bootSeconds": 1}
    assert sim.settings() == after


@pytest.mark.parametrize(
    ("method", "path", "body", "named"),
    [
        ("PUT", "/settings", {"bogus": 1}, "bogus"),
        ("PUT", "/settings", {"boot_seconds": 1}, "boot_seconds"),
        ("PUT", "/settings", {"bootSeconds": -1}, "bootSeconds"),
        ("PUT", "/settings", {"bootSeconds": "1"}, "bootSeconds"),
        ("PUT", "/settings", {"pageStart": 2}, "pageStart"),
        ("PUT", "/settings", {"totalInList": 1}, "totalInList"),
        ("PUT", "/settings", [], "object"),
        ("POST", "/clock", {}, "advanceSeconds"),
        ("POST", "/clock", {"advanceSeconds": -1}, "advanceSeconds"),
        ("POST", "/clock", {"mode": "slow"}, "mode"),
        ("POST", "/faults", {}, "kind"),
        ("POST", "/faults", {"kind": "flood"}, "kind"),
        ("POST", "/faults", {"kind": "status", "rate": 2}, "rate"),
        ("POST", "/faults", {"kind": "status", "times": 0}, "times"),
        ("POST", "/faults", {"kind": "status", "match": {"host": "x"}}, "host"),
        ("POST", "/faults", {"kind": "status", "retryAfter": "a\nb"}, "retryAfter"),
        ("DELETE", "/faults/none", None, "none"),
        ("GET", "/calls?since=1", None, "since"),
        ("POST", "/instances", {"colour": "red"}, "colour"),
        ("POST", "/instances", {"count": 0}, "count"),
        ("POST", "/instances", {"productId": "none"}, "productId"),
        ("POST", "/instances", {"clusterId": "mars-1"}, "clusterId"),
        ("POST", "/instances", {"ports": "80/udp"}, "ports"),
        ("PATCH", "/instances/none", {"status": "running"}, "none"),
        ("PATCH", "/instances/none", {"state": "running"}, "state"),
        ("POST", "/instances/none/reclaim", {"inSeconds": -1}, "inSeconds"),
        ("PATCH", "/products/none", {"price": 1}, "none"),
        ("PATCH", "/products/4090.16c62g", {"price": "1"}, "price"),
        ("PATCH", "/products/4090.16c62g", {"cost": 1}, "cost"),
        ("PATCH", "/products/4090.16c62g", {"regions": ["MARS"]}, "MARS"),
        ("PATCH", "/products/4090.16c62g", {"stock": -1}, "stock"),
        ("PATCH", "/products/4090.16c62g", {"stock": 1, "regions": 5}, "regions"),
        ("PUT", "/products/new", {"name": "x"}, "price"),
        ("PUT", "/auths/x", {"name": "n"}, "password"),
        ("PUT", "/inbox/a/answer", {"status": 42}, "status"),
        ("PUT", "/inbox/a/answer", [{"colour": "red"}], "colour"),
        ("PUT", "/inbox/a/answer", {"headers": {"A": "b\r\nC: d"}}, "headers"),
        ("PUT", "/app/*/80", {"afterSeconds": -1}, "afterSeconds"),
    ],
)
def test_bad_input_is_a_400_that_names_it(
    sim: Simulator, method: str, path: str, body: Any, named: str
) -> None:
    response = control(sim, method, path, json=body)

    assert response.status_code == 400
    assert set(response.json()) == {"error"}
    assert named in response.json()["error"]


@pytest.mark.parametrize("path", ["/settings", "/app/x/1", "/inbox/a/answer"])
def test_what_is_not_json_is_a_400(sim: Simulator, path: str) -> None:
    response = control(sim, "PUT", path, data=b"{")

    assert response.status_code == 400
    assert "not JSON" in response.json()["error"]


def test_an_unknown_control_call_is_named(sim: Simulator) -> None:
    response = control(sim, "POST", "/explode")

    assert response.status_code == 404
    assert "/explode" in response.json()["error"]


def test_nothing_changes_if_one_setting_is_wrong(sim: Simulator) -> None:
    with pytest.raises(SimulatorError, match="bogus"):
        sim.settings(bootSeconds=77, bogus=1)

    assert sim.settings()["bootSeconds"] == 10


def test_nothing_of_a_machine_changes_if_one_field_is_wrong(api: Api, sim: Simulator) -> None:
    id_ = api.create()

    with pytest.raises(SimulatorError, match="spotReclaimTime"):
        sim.patch_instance(id_, status="exited", spotReclaimTime="soon")
    with pytest.raises(SimulatorError, match="endpoints: 9999"):
        sim.patch_instance(id_, status="exited", endpoints={"9999": "http://127.0.0.1:1"})

    assert api.status(id_) == "toCreate"


def test_virtual_time_stands_still_until_it_is_advanced(sim: Simulator) -> None:
    first, second = sim.now(), sim.now()
    advanced = sim.advance(5)

    assert first == second == NOON
    assert advanced == sim.now() == NOON + 5


def test_real_time_goes_on_from_where_virtual_time_stood(sim: Simulator) -> None:
    control(sim, "POST", "/clock", json={"mode": "real"})

    assert NOON < sim.now() < NOON + 60


def test_a_reset_empties_everything(api: Api, sim: Simulator) -> None:
    api.create()
    sim.settings(bootSeconds=1)
    sim.fault("status")
    sim.patch_product("4090.16c62g", price=1)
    sim.answer("a", status=500)
    requests.post(sim.inbox_url("a"), timeout=5)

    sim.reset()

    assert (sim.instances(), sim.calls(), sim.faults(), sim.inbox("a")) == ([], [], [], [])
    assert sim.settings()["bootSeconds"] == 10
    assert sim.now() != NOON
    assert api.products()["4090.16c62g"]["price"] == "35000"


def test_answers_come_without_a_stall(api: Api) -> None:
    api.get("/clusters")

    fastest = min(api.get("/clusters").elapsed.total_seconds() for _ in range(10))

    assert fastest < 0.03
