"""Lists of Novita's that are wrong, late, cut short or too strange to be believed."""

import pytest

from functions.shared.domain.ids import new_instance_id
from functions.shared.domain.status import Status
from tests.integration.conftest import Build
from tests.integration.sweeps import LONG, events, listing, live, machine_of, put, running, states
from tests.integration.world import World


@pytest.mark.parametrize("count", [1, 3, 5])
def test_one_empty_list_ends_nothing(world: World, count: int) -> None:
    made = running(world, count)

    with listing(world, []):
        counts = world.sweep()
    world.settle()

    assert counts["unlisted"] == count
    assert counts["braked"] is (count > 3)
    assert {world.record(one).status for one in made} == {Status.RUNNING}
    assert len(live(world)) == count


def test_empty_lists_for_ten_minutes_end_nothing_either(world: World) -> None:
    made = running(world, 2)

    with listing(world, []):
        for _ in range(10):
            world.sweep()
            world.run(60)
    world.settle()

    assert {world.record(one).status for one in made} == {Status.RUNNING}


def test_too_much_at_once_changes_nothing_and_is_told(world: World, caplog: pytest.LogCaptureFixture) -> None:
    made = running(world, 4)
    world.simulator.patch_instance(machine_of(world, made[0]), status="exited")
    orphans = {put(world, new_instance_id(world.now())) for _ in range(4)}
    world.advance(5)
    before = states(world)

    counts = world.sweep()

    assert (counts["braked"], counts["changed"]) == (True, 0)
    assert states(world) == before
    assert events(world, "orphan.detected") == []
    _, stats = world.call("GET", "/api/jobs/stats")
    assert stats["sweeps"] == {"braked": 1, "incomplete": 0}
    assert [one.message for one in caplog.records if one.levelname == "ERROR"] == ["sweep braked"]
    for orphan in orphans:
        world.simulator.patch_instance(orphan, status="removed")


def test_a_page_missing_from_the_list_ends_nothing(world: World) -> None:
    made = running(world, 2)
    world.simulator.settings(maxPageSize=10)
    others = world.simulator.put_instances(25, name="other")
    missed = []

    for page in range(3):
        world.advance(LONG)
        with listing(world, [], page=f"pageNum={page}", total=27):
            missed.append(world.sweep()["unlisted"])
        world.settle()

    assert max(missed) > 0
    assert {world.record(one).status for one in made} == {Status.RUNNING}
    assert len(live(world)) == 2 + len(others)


@pytest.mark.parametrize("start", [0, 1])
def test_every_page_is_read_whatever_the_first_is_called(world: World, start: int) -> None:
    made = running(world, 2)
    world.simulator.settings(pageStart=start, maxPageSize=10)
    world.simulator.put_instances(25, name="other")
    world.advance(LONG)
    for one in made:
        world.simulator.patch_instance(machine_of(world, one), status="exited")
    world.advance(5)

    counts = world.sweep()

    assert (counts["changed"], counts["unlisted"]) == (2, 0)
    assert {world.record(one).status for one in made} == {Status.EXITED}


def test_novita_failing_in_the_middle_of_the_list_changes_nothing(world: World) -> None:
    made = running(world, 2)
    world.simulator.settings(maxPageSize=10)
    world.simulator.put_instances(25, name="other")
    world.advance(LONG)
    before = states(world)

    world.simulator.fault("status", path="/gpu/instances", match_query="pageNum=2", status=500)
    counts = world.sweep()
    world.simulator.clear_faults()

    assert (counts["complete"], counts["changed"], counts["unlisted"]) == (False, 0, 0)
    assert states(world) == before
    assert {world.record(one).status for one in made} == {Status.RUNNING}


def test_a_list_that_lags_behind_a_burst_of_purchases_is_no_alarm(build: Build) -> None:
    world = build()
    world.simulator.settings(listLagSeconds=60)
    for number in range(6):
        world.create(name=f"n{number}")
    while world.deliver():
        pass

    counts = world.sweep()

    assert (counts["known"], counts["unlisted"], counts["braked"]) == (6, 0, False)
    world.settle()
    assert len(live(world)) == 6


def test_a_list_from_before_a_stop_or_a_start_turns_nothing_back(world: World) -> None:
    (instance_id,) = running(world)
    world.simulator.settings(listLagSeconds=600, stopSeconds=1, startSeconds=1)

    for command, status in (("stop", Status.STOPPED), ("start", Status.READY)):
        assert world.call("POST", f"/api/instances/{instance_id}/{command}")[0] == 202
        for _ in range(10):
            world.run(5)
            if world.record(instance_id).status is status:
                break
        world.sweep()
        assert world.record(instance_id).status is status

    history = world.history(instance_id)
    assert "instance.exited" not in history
    assert history.count("instance.ready") == 1


def test_deleting_many_at_once_is_no_alarm(world: World) -> None:
    made = running(world, 6)
    for one in made[:5]:
        world.call("DELETE", f"/api/instances/{one}")
    while world.deliver():
        pass
    world.advance(10)

    counts = world.sweep()

    assert counts["braked"] is False
    world.settle()
    assert len(live(world)) == 1
