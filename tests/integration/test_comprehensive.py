"""The comprehensive list: what is here and what Novita shows, merged, paged, cached, and without Novita."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from functions.shared.domain.ids import machine_name, new_instance_id
from functions.shared.domain.status import Status
from tests.integration.conftest import Build
from tests.integration.wire import Made
from tests.integration.world import World

LIST = "novita GET /gpu/instances"
PATH = "/api/instances/comprehensive"


def listed(world: World, query: str = "") -> Any:
    status, answer = world.call("GET", f"{PATH}?{query}" if query else PATH)
    assert status == 200, answer
    return answer


def reads(world: World) -> int:
    return sum(made.name == LIST and made.handler == "api" for made in world.wire.calls)


def kinds(answer: Any) -> dict[str, tuple[str, str, str]]:
    """Source, consistency and status, by the id of ours or of Novita's."""
    return {
        one.get("instanceId") or one["novitaInstanceId"]: (
            one["source"],
            one["dataConsistency"],
            one["status"],
        )
        for one in answer["instances"]
    }


def bought(world: World, **body: Any) -> str:
    instance_id = world.create(**body)
    world.settle()
    world.advance(60)
    return instance_id


def test_what_is_here_what_is_there_and_what_is_both(build: Build) -> None:
    world = build(MERGED_TTL="0", LIST_TTL="0.05")
    agreeing, differing, kept = bought(world), bought(world), bought(world)
    theirs = world.simulator.put_instance(name="theirs", status="running")["id"]
    machine = str(world.record(differing).machine_id)
    world.simulator.patch_instance(machine, status="exited")
    world.advance(10)

    answer = listed(world)

    assert kinds(answer) == {
        agreeing: ("merged", "consistent", "running"),
        differing: ("merged", "novita-newer", "exited"),
        kept: ("merged", "consistent", "running"),
        theirs: ("novita", "consistent", "running"),
    }
    assert answer["total"] == 4
    assert answer["sources"] == {"local": 0, "novita": 1, "merged": 3}
    assert answer["performance"].keys() == {
        "totalRequestTime",
        "novitaApiTime",
        "localDataTime",
        "mergeProcessingTime",
        "cacheHitRatio",
    }
    assert "stale" not in answer
    assert world.record(differing).status is Status.RUNNING  # nothing was changed by looking
    world.sweep()
    world.settle()


def test_an_instance_without_a_machine_is_local(build: Build) -> None:
    world = build(PURCHASE_MAX_WAIT="60")
    world.simulator.fault("status", path="/products", status=503)
    waiting = world.create()

    merged = listed(world)

    assert kinds(merged) == {waiting: ("local", "consistent", "creating")}
    assert merged["sources"] == {"local": 1, "novita": 0, "merged": 0}
    world.settle()


def test_novitas_own_can_be_left_out(world: World) -> None:
    ours = bought(world)
    world.simulator.put_instance(name="theirs", status="running")
    world.advance(10)

    answer = listed(world, "includeNovitaOnly=false")

    assert list(kinds(answer)) == [ours]
    assert (answer["total"], answer["sources"]) == (1, {"local": 0, "novita": 0, "merged": 1})


def test_machines_that_carry_our_mark_and_are_nobodys_or_too_many_are_conflicts(world: World) -> None:
    ours = bought(world)
    deployment = world.wiring.deployments.id()
    orphan = machine_name("x", deployment, new_instance_id(world.now()), 1)
    surplus = machine_name("test", deployment, ours, 2)
    ids = [world.simulator.put_instance(name=name, status="running")["id"] for name in (orphan, surplus)]
    world.advance(10)

    answer = kinds(listed(world))

    assert answer == {
        ours: ("merged", "consistent", "running"),
        ids[0]: ("novita", "conflicted", "running"),
        ids[1]: ("novita", "conflicted", "running"),
    }
    for one in ids:
        world.simulator.patch_instance(one, status="removed")


def test_the_same_name_twice_is_two_entries(world: World) -> None:
    first, second = bought(world, name="same"), bought(world, name="same")
    theirs = [world.simulator.put_instance(name="same", status="exited")["id"] for _ in range(2)]
    world.advance(10)

    answer = kinds(listed(world))

    assert answer == {
        first: ("merged", "consistent", "running"),
        second: ("merged", "consistent", "running"),
        **dict.fromkeys(theirs, ("novita", "consistent", "exited")),
    }


@pytest.mark.parametrize("page_start", [0, 1])
def test_250_machines_over_several_pages_are_all_there_once(world: World, page_start: int) -> None:
    world.simulator.settings(pageStart=page_start, maxPageSize=100)
    ours = bought(world)
    theirs = world.simulator.put_instances(249, name="theirs", status="running")
    world.advance(10)

    answer = listed(world, "limit=1000")

    assert reads(world) >= 3
    assert set(kinds(answer)) == {ours, *theirs}
    assert len(answer["instances"]) == answer["total"] == 250


def _during_paging(world: World, change: Callable[[], Any]) -> None:
    """Once, between the first page and the second."""

    def after(made: Made) -> None:
        if made.name == LIST:
            world.wire.after = None
            change()

    world.wire.after = after


def test_a_machine_that_appears_while_the_pages_are_read_hides_none(world: World) -> None:
    world.simulator.settings(maxPageSize=10, listLagSeconds=0)
    theirs = world.simulator.put_instances(35, name="theirs", status="running")
    _during_paging(
        world, lambda: theirs.append(world.simulator.put_instance(name="new", status="running")["id"])
    )

    answer = listed(world, "limit=1000")

    assert len(answer["instances"]) == answer["total"]
    assert set(kinds(answer)) == set(theirs)


def test_a_machine_that_vanishes_while_the_pages_are_read_hides_none_of_the_others(world: World) -> None:
    world.simulator.settings(maxPageSize=10, listLagSeconds=0)
    theirs = world.simulator.put_instances(35, name="theirs", status="running")
    newest = theirs[-1]
    _during_paging(world, lambda: world.simulator.patch_instance(newest, status="removed"))

    answer = listed(world, "limit=1000")

    assert set(theirs[:-1]) <= set(kinds(answer)) <= set(theirs)


def test_pages_follow_one_another_without_gaps(build: Build) -> None:
    world = build(MERGED_TTL="0", LIST_TTL="0.05")
    theirs = world.simulator.put_instances(12, name="theirs", status="running")
    ours = bought(world)
    world.advance(10)

    first = listed(world, "limit=5")
    world.simulator.put_instance(name="newer than all", status="running")
    world.advance(10)
    second = listed(world, f"limit=5&cursor={first['nextCursor']}")
    third = listed(world, f"limit=5&cursor={second['nextCursor']}")

    found = [key for answer in (first, second, third) for key in kinds(answer)]
    assert len(found) == len(set(found)) == 13
    assert set(found) == {ours, *theirs}
    assert (first["total"], second["total"]) == (13, 14)
    assert "nextCursor" not in third
    status, answer = world.call("GET", f"{PATH}?cursor={first['nextCursor'][:-2]}AA")
    assert (status, answer["error"]["code"]) == (400, "INVALID_CURSOR")


def test_the_merged_list_is_kept_for_30_seconds_by_all(world: World) -> None:
    bought(world)
    first = listed(world)
    before = reads(world)
    world.simulator.put_instance(name="theirs", status="running")

    world.advance(29)
    world.restart()
    kept = listed(world)

    assert kept["instances"] == first["instances"]
    assert reads(world) == before
    world.advance(2)
    assert listed(world)["total"] == 2
    assert reads(world) > before


def test_sync_lets_records_follow_and_makes_none(world: World) -> None:
    instance_id = bought(world)
    machine = str(world.record(instance_id).machine_id)
    world.simulator.patch_instance(machine, status="exited")
    world.simulator.put_instance(name="theirs", status="running")
    world.advance(10)
    assert kinds(listed(world))[instance_id] == ("merged", "novita-newer", "exited")

    answer = listed(world, "syncLocalState=true")

    assert kinds(answer)[instance_id] == ("merged", "consistent", "exited")
    assert kinds(listed(world)) == kinds(answer)  # as it was cached
    assert world.record(instance_id).status is Status.EXITED
    assert world.history(instance_id)[-1] == "instance.exited"
    assert [record.id for record in world.records()] == [instance_id]
    assert kinds(listed(world, "syncLocalState=true"))[instance_id][1] == "consistent"


def test_sync_does_not_believe_a_list_that_lacks_too_much(world: World) -> None:
    ids = [bought(world) for _ in range(5)]
    before = {one: world.record(one) for one in ids}
    world.advance(300)
    world.simulator.fault("garbage", path="/gpu/instances", body='{"instances": [], "total": 0}')

    answer = listed(world, "syncLocalState=true")

    assert {kind[:2] for kind in kinds(answer).values()} == {("local", "conflicted")}
    assert {one: world.record(one) for one in ids} == before


def test_without_novita_only_what_is_here_is_shown_and_said_to_be_old(world: World) -> None:
    instance_id = bought(world)
    world.simulator.fault("status", path="/gpu/instances", status=503)

    answer = listed(world)
    before = reads(world)
    again = [listed(world) for _ in range(3)]

    assert answer["stale"] is True
    assert kinds(answer) == {instance_id: ("local", "local-newer", "running")}
    assert answer["sources"] == {"local": 1, "novita": 0, "merged": 0}
    assert all(one["stale"] for one in again)
    assert reads(world) == before  # nobody waits for Novita again
    world.simulator.clear_faults()
    world.advance(6)
    assert "stale" not in listed(world)


def test_both_sides_are_fetched_at_the_same_time(world: World) -> None:
    bought(world)
    world.simulator.fault("slow", path="/gpu/instances", delayMs=400)

    def slow_table(made: Made) -> None:
        if made.name == "Query instances#running":
            time.sleep(0.4)

    world.wire.before = slow_table
    took = listed(world)["performance"]
    world.wire.before = None

    assert took["novitaApiTime"] >= 400
    assert took["localDataTime"] >= 400
    assert took["totalRequestTime"] < took["novitaApiTime"] + took["localDataTime"] - 200


def test_polling_and_the_merged_list_share_one_read(world: World) -> None:
    bought(world)
    world.wiring.listing.shared(5, None)
    before = reads(world)

    listed(world)

    assert reads(world) == before
