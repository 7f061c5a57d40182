"""When an instance is seen: removal, and the lag of list and get."""

from local.novita.client import Simulator
from tests.simulator.bare_api import Api, reason


def test_a_deleted_instance_is_not_found_once_it_is_gone(api: Api, sim: Simulator) -> None:
    id_ = api.create()
    api.act("delete", id_)
    seen = [api.status(id_)]
    sim.advance(1)
    seen.append(api.status(id_))
    again = api.act("delete", id_)
    sim.advance(2)

    gone = api.get("/gpu/instance", instanceId=id_)

    assert seen == ["toRemove", "removing"]
    assert again.status_code == 200
    assert reason(gone) == (400, "RESOURCE_NOT_FOUND")
    assert reason(api.act("delete", id_)) == (400, "RESOURCE_NOT_FOUND")


def test_a_removed_instance_can_stay_visible_for_a_while(api: Api, sim: Simulator) -> None:
    sim.settings(removedVisibleSeconds=60, removeSeconds=0)
    id_ = api.create()
    api.act("delete", id_)

    seen = api.status(id_)
    sim.advance(60)

    assert seen == "removed"
    assert reason(api.get("/gpu/instance", instanceId=id_)) == (400, "RESOURCE_NOT_FOUND")


def test_the_list_lags_behind_get(api: Api, sim: Simulator) -> None:
    sim.settings(listLagSeconds=5, bootSeconds=0, stopSeconds=0, removeSeconds=0)
    id_ = api.create()
    unlisted = api.listed()
    sim.advance(5)
    listed = api.listed()
    api.act("stop", id_)
    sim.advance(4.9)
    still = api.listed()[0]["status"]
    sim.advance(0.1)
    then = api.listed()[0]["status"]
    api.act("delete", id_)
    gone = api.get("/gpu/instance", instanceId=id_)
    left_over = api.listed()
    sim.advance(5)

    assert unlisted == []
    assert [(one["id"], one["status"]) for one in listed] == [(id_, "running")]
    assert (still, then) == ("running", "exited")
    assert reason(gone) == (400, "RESOURCE_NOT_FOUND")
    assert [one["status"] for one in left_over] == ["exited"]
    assert api.listed() == []


def test_get_can_lag_too(api: Api, sim: Simulator) -> None:
    sim.settings(getLagSeconds=3)
    id_ = api.create()

    early = api.get("/gpu/instance", instanceId=id_)
    sim.advance(3)

    assert reason(early) == (400, "RESOURCE_NOT_FOUND")
    assert api.status(id_) == "pulling"


def test_the_list_filters_by_name_product_and_status(api: Api, sim: Simulator) -> None:
    sim.settings(listLagSeconds=0)
    first = api.create(name="Alpha-1")
    second = api.create(name="beta-2", productId="l40s.14c80g")
    api.act("delete", second)

    assert [one["id"] for one in api.listed(name="alph")] == [first]
    assert [one["id"] for one in api.listed(productName="l40s")] == [second]
    assert [one["id"] for one in api.listed(status="toRemove")] == [second]
    assert [one["id"] for one in api.listed()] == [second, first]
