"""A Novita that lies: other accounts, machines that go away and come back, old lists, refusals that last."""

from typing import Any

import pytest

from local.novita.client import Simulator
from tests.simulator.bare_api import Api, reason

DAY = 86_400
NO_ROUTE: dict[str, Any] = {
    "status": 404,
    "body": '{"code": 404, "message": "route not found"}',
    "contentType": "application/json",
}


@pytest.fixture
def other(sim: Simulator) -> Api:
    """A caller whose key belongs to another account."""
    sim.settings(accounts={"their-key": "them"}, listLagSeconds=0)
    made = Api(sim)
    made.session.headers["Authorization"] = "Bearer their-key"
    return made


def not_found(api: Api, id_: str) -> bool:
    return reason(api.get("/gpu/instance", instanceId=id_)) == (400, "RESOURCE_NOT_FOUND")


def test_an_account_sees_only_its_own_machines(api: Api, other: Api, sim: Simulator) -> None:
    ours, theirs = api.create(), other.create()

    assert [one["id"] for one in api.listed()] == [ours]
    assert [one["id"] for one in other.listed()] == [theirs]
    assert not_found(api, theirs)
    assert not_found(other, ours)
    assert {one["id"]: one["account"] for one in sim.live()} == {ours: "", theirs: "them"}


@pytest.mark.parametrize("action", ["start", "stop", "restart", "delete"])
def test_nobody_acts_on_a_machine_of_another_account(
    api: Api, other: Api, sim: Simulator, action: str
) -> None:
    id_ = api.create()
    before = sim.instance(id_)["history"]

    answer = other.act(action, id_)

    assert reason(answer) == (400, "RESOURCE_NOT_FOUND")
    assert sim.instance(id_)["history"] == before


def test_without_accounts_all_keys_are_of_one(api: Api, sim: Simulator) -> None:
    another = Api(sim)
    another.session.headers["Authorization"] = "Bearer another-key"
    id_ = api.create()

    assert another.status(id_) == "toCreate"


def test_a_machine_can_be_put_into_another_account(api: Api, other: Api, sim: Simulator) -> None:
    given = str(sim.put_instance(name="theirs", status="running", account="them")["id"])
    moved = api.create()

    sim.patch_instance(moved, account="them")

    assert {one["id"] for one in other.listed()} == {given, moved}
    assert api.listed() == []


def test_a_fault_mistakes_the_account(api: Api, sim: Simulator) -> None:
    sim.settings(listLagSeconds=0)
    id_ = api.create()
    sim.fault("account", "/gpu/instance", times=1)
    sim.fault("account", "/gpu/instances", times=1)

    assert not_found(api, id_)
    assert api.listed() == []
    assert (api.status(id_), len(api.listed())) == ("toCreate", 1)


def test_a_hidden_machine_lives_and_comes_back_with_its_id(api: Api, sim: Simulator) -> None:
    sim.settings(listLagSeconds=0, bootSeconds=0)
    id_ = api.create()

    sim.hide(id_)
    gone = (not_found(api, id_), api.listed(), reason(api.act("delete", id_)))
    sim.advance(DAY)
    still = (not_found(api, id_), sim.instance(id_)["hidden"], sim.instance(id_)["billing"])
    sim.show(id_)

    assert gone == (True, [], (400, "RESOURCE_NOT_FOUND"))
    assert still == (True, True, True)
    assert api.status(id_) == "running"
    assert [one["id"] for one in api.listed()] == [id_]


def test_a_machine_is_hidden_for_a_while(api: Api, sim: Simulator) -> None:
    sim.settings(listLagSeconds=0)
    id_ = api.create()
    sim.hide(id_, seconds=60)
    sim.advance(59)
    hidden = not_found(api, id_)

    sim.advance(1)

    assert hidden
    assert api.status(id_) == "running"


def test_the_list_of_yesterday_shows_what_was_there_then(api: Api, sim: Simulator) -> None:
    sim.settings(listLagSeconds=0)
    old = api.create()
    sim.advance(DAY)
    api.act("delete", old)
    sim.advance(60)
    new = api.create()
    sim.fault("stale", "/gpu/instances", times=1, ageSeconds=DAY)

    yesterday = api.listed()

    assert [(one["id"], one["status"]) for one in yesterday] == [(old, "running")]
    assert [one["id"] for one in api.listed()] == [new]


def test_a_404_without_a_reason_does_nothing(api: Api, sim: Simulator) -> None:
    id_ = api.create()
    before = sim.instance(id_)["history"]
    sim.fault("garbage", "/gpu/instance", **NO_ROUTE)
    sim.fault("garbage", "/gpu/instance/delete", **NO_ROUTE)

    answers = [api.get("/gpu/instance", instanceId=id_), api.act("delete", id_)]

    assert [answer.status_code for answer in answers] == [404, 404]
    assert ["reason" in answer.json() for answer in answers] == [False, False]
    assert sim.instance(id_)["history"] == before


@pytest.mark.parametrize("action", ["stop", "delete"])
def test_an_action_is_refused_until_told_otherwise(api: Api, sim: Simulator, action: str) -> None:
    sim.settings(bootSeconds=0)
    refused, other = api.create(), api.create()
    why = "PREPAID_INSTANCE_NOT_SUPPORT_RELEASE"
    fault = sim.fault("status", f"/gpu/instance/{action}", match_body=refused, status=400, reason=why)

    answers = [reason(api.act(action, refused)) for _ in range(3)]
    for_others = api.act(action, other)
    sim.clear_fault(fault["id"])

    assert answers == [(400, why)] * 3
    assert for_others.status_code == 200
    assert api.act(action, refused).status_code == 200
