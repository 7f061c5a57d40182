"""What the simulator really holds: billing, spot reclaim, machines made or forced by hand."""

import pytest

from local.novita.client import Simulator, SimulatorError
from tests.simulator.bare_api import BODY, NOON, Api, reason


def test_the_list_of_machines_has_those_that_are_gone_too(api: Api, sim: Simulator) -> None:
    kept = api.create(name="kept")
    gone = api.create(name="gone")
    sim.advance(10)
    api.act("delete", gone)
    sim.advance(3)

    machines = {one["id"]: one for one in sim.instances()}

    assert (machines[kept]["name"], machines[kept]["status"], machines[kept]["billing"]) == (
        "kept",
        "running",
        True,
    )
    assert (machines[gone]["status"], machines[gone]["billing"]) == ("removed", False)
    assert (machines[gone]["createdAt"], machines[gone]["removedAt"]) == (NOON, NOON + 13)
    assert (machines[kept]["billedSeconds"], machines[gone]["billedSeconds"]) == (10, 10)
    assert machines[kept]["create"] == {**BODY, "name": "kept"}
    assert [one["id"] for one in sim.live()] == [kept]


def test_billing_begins_at_pulling(api: Api, sim: Simulator) -> None:
    api.create()
    creating = sim.live()[0]["billing"]
    sim.advance(3)

    assert creating is False
    assert (sim.live()[0]["status"], sim.live()[0]["billing"]) == ("pulling", True)


def test_its_intervals_are_those_in_which_it_is_billed(api: Api, sim: Simulator) -> None:
    id_ = api.create()
    sim.advance(20)
    api.act("stop", id_)
    sim.advance(20)
    api.act("start", id_)
    sim.advance(20)
    api.act("restart", id_)
    sim.advance(20)
    api.act("delete", id_)
    sim.advance(20)

    machine = sim.instance(id_)

    assert machine["billed"] == [
        {"from": NOON + 3, "to": NOON + 23},
        {"from": NOON + 41, "to": NOON + 83},  # a restart ends nothing
    ]
    assert machine["stored"] == [{"from": NOON + 23, "to": NOON + 40}]


def test_a_machine_can_be_put_there_by_hand(api: Api, sim: Simulator) -> None:
    put = sim.put_instance(name="any_name at all", status="running", ageSeconds=3600, billingMode="spot")

    shown = api.instance(put["id"])

    assert (shown["name"], shown["status"], shown["billingMode"]) == ("any_name at all", "running", "spot")
    assert shown["createdAt"] == str(NOON - 3600)
    assert [one["id"] for one in api.listed()] == [put["id"]]


def test_a_machine_by_hand_boots_like_any_other(api: Api, sim: Simulator) -> None:
    id_ = sim.put_instance()["id"]
    early = api.status(id_)
    sim.advance(10)

    assert (early, api.status(id_)) == ("toCreate", "running")


def test_status_and_error_can_be_forced(api: Api, sim: Simulator) -> None:
    id_ = api.create()
    sim.patch_instance(id_, status="freezing", statusError={"state": "pull", "message": "no space"})
    sim.advance(100)

    assert api.status(id_) == "freezing"
    assert api.instance(id_)["statusError"] == {"state": "pull", "message": "no space"}
    sim.patch_instance(id_, status="removed")
    assert reason(api.get("/gpu/instance", instanceId=id_)) == (400, "RESOURCE_NOT_FOUND")


def test_an_error_alone_does_not_stop_a_boot(api: Api, sim: Simulator) -> None:
    id_ = api.create()
    sim.patch_instance(id_, statusError={"message": "slow disk"})
    sim.advance(10)

    assert api.status(id_) == "running"
    assert api.instance(id_)["statusError"]["message"] == "slow disk"


def test_spot_fields_can_be_forced_apart(api: Api, sim: Simulator) -> None:
    sim.settings(spotInGet=True)
    id_ = api.create()
    sim.patch_instance(id_, spotStatus="notified")
    only_status = api.instance(id_)
    sim.patch_instance(id_, spotReclaimTime=NOON + 3600)
    both = api.instance(id_)

    assert (only_status["spotStatus"], only_status["spotReclaimTime"]) == ("notified", "0")
    assert (both["spotStatus"], both["spotReclaimTime"]) == ("notified", str(NOON + 3600))


def test_a_reclaim_is_announced_and_then_happens(api: Api, sim: Simulator) -> None:
    sim.settings(bootSeconds=0, spotInGet=True)
    id_ = api.create()
    sim.reclaim(id_, in_seconds=3600)

    seen = []
    for seconds in (0, 3600, 3):
        sim.advance(seconds)
        shown = api.instance(id_)
        seen.append((shown["spotStatus"], shown["status"], shown["spotReclaimTime"]))

    assert seen == [
        ("notified", "running", str(NOON + 3600)),
        ("reclaiming", "stopping", str(NOON + 3600)),
        ("terminated", "exited", str(NOON + 3600)),
    ]
    assert sim.live()[0]["billing"] is False


def test_a_reclaimed_machine_can_be_started_or_migrated_again(api: Api, sim: Simulator) -> None:
    sim.settings(spotInGet=True)
    id_ = sim.put_instance(status="running", billingMode="spot")["id"]
    sim.reclaim(id_)
    sim.advance(3)
    api.act("migrate", id_)
    sim.advance(10)

    shown = api.instance(id_)

    assert (shown["status"], shown["spotStatus"], shown["spotReclaimTime"]) == ("running", "running", "0")


def test_a_machine_that_is_stopped_before_its_reclaim_stays_stopped(api: Api, sim: Simulator) -> None:
    sim.settings(spotInGet=True)
    id_ = sim.put_instance(status="running", billingMode="spot")["id"]
    sim.reclaim(id_, in_seconds=100)
    api.act("stop", id_)
    sim.advance(200)

    shown = api.instance(id_)

    assert (shown["status"], shown["spotStatus"]) == ("exited", "terminated")
    assert shown["lastStoppedAt"] == str(NOON + 3)


def test_a_reclaim_may_come_without_a_word_leave_no_room_or_no_machine(api: Api, sim: Simulator) -> None:
    sim.settings(spotInGet=True)
    silent, gone = (sim.put_instance(status="running", billingMode="spot")["id"] for _ in range(2))
    sim.reclaim(silent, notice=False, noRoomSeconds=100)
    sim.reclaim(gone, removed=True)
    sim.advance(3)

    shown = api.instance(silent)
    assert (shown["status"], shown["spotStatus"], shown["spotReclaimTime"]) == ("exited", "running", "0")
    assert sim.instance(gone)["removedAt"] is not None
    assert api.act("start", silent).json()["reason"] == "INSUFFICIENT_RESOURCE"
    sim.advance(100)
    assert api.act("start", silent).status_code == 200


def test_spot_fields_are_on_the_list_and_on_get_only_if_told(api: Api, sim: Simulator) -> None:
    id_ = api.create()
    sim.advance(5)

    assert "spotStatus" not in api.instance(id_)
    assert api.listed()[0]["spotStatus"] == "running"


def test_only_spot_machines_are_reclaimed(sim: Simulator) -> None:
    id_ = sim.put_instance(status="running")["id"]

    with pytest.raises(SimulatorError, match="not spot"):
        sim.reclaim(id_)


def test_boots_are_spread_by_sigma_and_repeat_by_seed(api: Api, sim: Simulator) -> None:
    sim.settings(bootSeconds=100, bootSecondsSigma=0.5, bootSeed=1, listLagSeconds=0)
    for _ in range(20):
        api.create()
    sim.advance(100)

    running = [one["status"] for one in api.listed()].count("running")

    assert 3 < running < 17
