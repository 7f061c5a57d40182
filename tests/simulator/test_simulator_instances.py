"""Instances: what get shows, and what the actions do."""

import pytest

from local.novita.client import Simulator
from tests.simulator.bare_api import NOON, Api, reason


def test_get_shows_the_documented_fields_in_their_types(api: Api, sim: Simulator) -> None:
    id_ = api.create(envs=[{"key": "MODE", "value": "x"}], gpuNum=2)
    sim.advance(10)

    shown = api.instance(id_)

    assert (shown["id"], shown["name"], shown["status"]) == (id_, "ostler-test-1", "running")
    assert (shown["gpuNum"], shown["cpuNum"], shown["memory"]) == ("2", "32", "124")
    assert shown["rootfsSize"] == 60
    assert (shown["clusterId"], shown["clusterName"]) == ("cn-hongkong-1", "CN-HK-01 (Hong Kong)")
    assert (shown["productId"], shown["productName"]) == ("4090.16c62g", "RTX 4090 24GB")
    assert (shown["billingMode"], shown["endTime"], shown["instancePrice"]) == ("spot", "-1", "18000")
    assert (shown["createdAt"], shown["lastStartedAt"], shown["lastStoppedAt"]) == (
        str(NOON),
        str(NOON + 3),
        "0",
    )
    assert shown["statusError"] == {"state": "", "message": ""}
    assert shown["envs"] == [{"key": "MODE", "value": "x"}]
    assert set(shown["connectComponentSSH"]) == {"sshCommand", "password", "isRunning"}
    assert set(shown["connectComponentJupyter"]) == {"port", "address", "isRunning"}
    assert set(shown["connectComponentWebTerminal"]) == {"address", "username", "password", "isRunning"}
    assert set(shown["connectComponentLog"]) == {"systemLogAddress", "instanceLogAddress", "isRunning"}


def test_endpoints_are_known_once_it_runs(api: Api, sim: Simulator) -> None:
    id_ = api.create()
    before = api.instance(id_)["portMappings"]
    sim.advance(10)

    after = api.instance(id_)["portMappings"]

    assert before[0] == {"port": 8188, "type": "http", "endpoint": ""}
    assert after[0] == {"port": 8188, "type": "http", "endpoint": sim.app_url(id_, 8188)}
    assert after[2]["endpoint"] == sim.base_url.removeprefix("http://")


def test_a_port_can_be_made_to_lead_elsewhere(api: Api, sim: Simulator) -> None:
    id_ = api.create()
    sim.advance(10)

    sim.patch_instance(id_, endpoints={"8188": "https://nobody.invalid", "22": "127.0.0.1:1"})

    by_port = {one["port"]: one["endpoint"] for one in api.instance(id_)["portMappings"]}
    assert by_port == {8188: "https://nobody.invalid", 80: sim.app_url(id_, 80), 22: "127.0.0.1:1"}


def test_an_unknown_instance_is_a_400(api: Api) -> None:
    assert reason(api.get("/gpu/instance", instanceId="8097f1658f3e6ad1")) == (400, "RESOURCE_NOT_FOUND")
    assert reason(api.get("/gpu/instance")) == (400, "VALIDATOR_PARAM")
    assert reason(api.act("start", "8097f1658f3e6ad1")) == (400, "RESOURCE_NOT_FOUND")
    assert reason(api.post("/gpu/instance/delete", {})) == (400, "VALIDATOR_PARAM")


def test_stop_and_start_go_through_their_statuses(api: Api, sim: Simulator) -> None:
    id_ = api.create()
    sim.advance(10)
    stopped = api.act("stop", id_).json()
    seen = [api.status(id_)]
    for seconds in (1, 2):
        sim.advance(seconds)
        seen.append(api.status(id_))
    started = api.act("start", id_).json()
    for seconds in (0, 2, 3):
        sim.advance(seconds)
        seen.append(api.status(id_))

    assert stopped == {"instanceId": id_, "state": "toStop"}
    assert started == {"instanceId": id_, "state": "toStart"}
    assert seen == ["toStop", "stopping", "exited", "toStart", "starting", "running"]
    assert api.instance(id_)["lastStoppedAt"] == str(NOON + 13)


@pytest.mark.parametrize(
    ("action", "status"),
    [
        ("start", "running"),
        ("start", "pulling"),
        ("stop", "exited"),
        ("stop", "pulling"),
        ("restart", "exited"),
        ("restart", "starting"),
        ("migrate", "creating"),
    ],
)
def test_an_action_in_the_wrong_state_changes_nothing(
    api: Api, sim: Simulator, action: str, status: str
) -> None:
    id_ = sim.put_instance(status=status)["id"]

    response = api.act(action, id_)

    assert response.status_code == 400
    assert "invalid state change" in response.json()["message"]
    assert api.status(id_) == status


@pytest.mark.parametrize(
    ("action", "statuses"),
    [("restart", ["toRestart", "restarting", "running"]), ("migrate", ["migrating", "migrating", "running"])],
)
def test_restart_and_migrate_come_back_to_running(
    api: Api, sim: Simulator, action: str, statuses: list[str]
) -> None:
    sim.settings(migrateSeconds=5)
    id_ = sim.put_instance(status="running")["id"]
    response = api.act(action, id_)

    seen = []
    for seconds in (0, 2, 3):
        sim.advance(seconds)
        seen.append(api.status(id_))

    assert response.json() == {}
    assert seen == statuses


def test_edit_opens_ports_and_grows_the_disk(api: Api, sim: Simulator) -> None:
    id_ = sim.put_instance(status="running", rootfsSize=60)["id"]

    edited = api.post(
        "/gpu/instance/edit",
        {"instanceId": id_, "ports": [{"port": 9000, "type": "tcp"}], "expandRootDisk": 40},
    )
    too_much = api.post("/gpu/instance/edit", {"instanceId": id_, "expandRootDisk": 5000})
    reserved = api.post("/gpu/instance/edit", {"instanceId": id_, "ports": [{"port": 2222, "type": "tcp"}]})

    assert edited.json() == {}
    assert api.instance(id_)["rootfsSize"] == 100
    assert [one["port"] for one in api.instance(id_)["portMappings"]] == [9000]
    assert reason(too_much) == reason(reserved) == (400, "VALIDATOR_PARAM")


def test_upgrade_wants_the_full_set_and_resets_the_machine(api: Api, sim: Simulator) -> None:
    id_ = sim.put_instance(status="running")["id"]
    change = {
        "instanceId": id_,
        "imageUrl": "other/image",
        "envs": [{"key": "A", "value": "b"}],
        "command": "run",
        "save": True,
        "networkVolume": {"volumeMounts": []},
    }

    partial = api.post("/gpu/instance/upgrade", {"instanceId": id_, "imageUrl": "other/image"})
    whole = api.post("/gpu/instance/upgrade", change)

    assert reason(partial) == (400, "VALIDATOR_PARAM")
    assert whole.json() == {}
    assert (api.status(id_), api.instance(id_)["imageUrl"]) == ("toReset", "other/image")
    sim.advance(5)
    assert api.status(id_) == "running"


def test_the_rest_of_the_calls_answer(api: Api, sim: Simulator) -> None:
    id_ = sim.put_instance()["id"]

    assert api.post("/gpu/instance/renewInstance", {"instanceId": id_, "month": 1}).json() == {}
    assert api.post("/gpu/instance/transToMonthlyInstance", {"instanceId": id_, "month": 1}).json() == {}
    assert api.get("/jobs").json() == {"jobs": [], "total": 0}
    assert api.get("/gpu/instance/list").status_code == 404


def test_an_image_that_cannot_be_pulled_says_so(api: Api, sim: Simulator) -> None:
    id_ = api.create(imageUrl="ghcr.io/ostler-demo/unpullable:1")

    sim.advance(100)

    assert api.status(id_) == "pulling"
    assert "failed to pull" in api.instance(id_)["statusError"]["message"]
