"""Lists of Novita's that are wrong, late, cut short or too strange to be believed."""

from datetime import timedelta

import pytest

from functions.shared.domain.instance.status import Status
from tests.integration.conftest import Build
from tests.integration.harness import Harness
from tests.integration.sweeps import LONG, listing, live, machine_of, put_bought, running, states


@pytest.mark.parametrize("count", [1, 3, 5])
def test_one_empty_list_ends_nothing(harness: Harness, count: int) -> None:
    made = running(harness, count)

    with listing(harness, []):
        counts = harness.sweep()
    harness.settle()

    assert counts["unlisted"] == count
    assert {harness.record(one).status for one in made} == {Status.RUNNING}
    assert len(live(harness)) == count


def test_empty_lists_for_ten_minutes_end_nothing_either(harness: Harness) -> None:
    made = running(harness, 2)

    with listing(harness, []):
        for _ in range(10):
            harness.sweep()
            harness.run(60)
    harness.settle()

    assert {harness.record(one).status for one in made} == {Status.RUNNING}


def test_much_at_once_is_followed_looked_for_and_told_all_the_same(harness: Harness) -> None:
    """Four of ten were removed by hand, one is off, one is too many: nothing of that is held back."""
    made = running(harness, 10)
    for one in made[:4]:
        harness.simulator.patch_instance(machine_of(harness, one), status="removed")
    harness.simulator.patch_instance(machine_of(harness, made[4]), status="exited")
    surplus = put_bought(harness, made[5], purchase=2)
    harness.advance(5)

    harness.sweep()
    harness.run(600)

    assert [harness.record(one).missing for one in made] == [True] * 4 + [False] * 6
    assert all(harness.history(one).count("instance.missing") == 1 for one in made[:4])
    assert harness.record(made[4]).status is Status.EXITED
    assert surplus not in live(harness)
    harness.settle()
    assert {harness.record(one).status for one in made[:4]} == {Status.TERMINATED}
    assert {harness.record(one).status for one in made[5:]} == {Status.RUNNING}


def test_a_page_missing_from_the_list_ends_nothing(harness: Harness) -> None:
    made = running(harness, 2)
    harness.simulator.settings(maxPageSize=10)
    others = harness.simulator.put_instances(25, name="other")
    missed = []

    for page in range(3):
        harness.advance(LONG)
        with listing(harness, [], page=f"pageNum={page}", total=27):
            missed.append(harness.sweep()["unlisted"])
        harness.settle()

    assert max(missed) > 0
    assert {harness.record(one).status for one in made} == {Status.RUNNING}
    assert len(live(harness)) == 2 + len(others)


@pytest.mark.parametrize("start", [0, 1])
def test_every_page_is_read_whatever_the_first_is_called(harness: Harness, start: int) -> None:
    made = running(harness, 2)
    harness.simulator.settings(pageStart=start, maxPageSize=10)
    harness.simulator.put_instances(25, name="other")
    harness.advance(LONG)
    for one in made:
        harness.simulator.patch_instance(machine_of(harness, one), status="exited")
    harness.advance(5)

    counts = harness.sweep()

    assert (counts["changed"], counts["unlisted"]) == (2, 0)
    assert {harness.record(one).status for one in made} == {Status.EXITED}


def test_novita_failing_in_the_middle_of_the_list_changes_nothing(harness: Harness) -> None:
    made = running(harness, 2)
    harness.simulator.settings(maxPageSize=10)
    harness.simulator.put_instances(25, name="other")
    harness.advance(LONG)
    before = states(harness)

    harness.simulator.fault("status", path="/gpu/instances", match_query="pageNum=2", status=500)
    counts = harness.sweep()
    harness.simulator.clear_faults()

    assert (counts["complete"], counts["changed"], counts["unlisted"]) == (False, 0, 0)
    assert states(harness) == before
    assert {harness.record(one).status for one in made} == {Status.RUNNING}


def test_a_list_that_lags_behind_a_burst_of_purchases_is_no_alarm(build: Build) -> None:
    harness = build()
    harness.simulator.settings(listLagSeconds=60)
    for number in range(6):
        harness.create(name=f"n{number}")
    while harness.deliver():
        pass

    counts = harness.sweep()

    assert (counts["known"], counts["unlisted"]) == (6, 0)
    harness.settle()
    assert len(live(harness)) == 6


def test_a_list_from_before_a_stop_or_a_start_turns_nothing_back(harness: Harness) -> None:
    (instance_id,) = running(harness)
    harness.simulator.settings(listLagSeconds=600, stopSeconds=1, startSeconds=1)

    for command, status in (("stop", Status.STOPPED), ("start", Status.READY)):
        assert harness.call("POST", f"/api/instances/{instance_id}/{command}")[0] == 202
        for _ in range(10):
            harness.run(5)
            if harness.record(instance_id).status is status:
                break
        harness.sweep()
        assert harness.record(instance_id).status is status

    history = harness.history(instance_id)
    assert "instance.exited" not in history
    assert history.count("instance.ready") == 1


@pytest.mark.parametrize(("command", "status"), [("stop", Status.STOPPED), ("start", Status.READY)])
def test_a_list_of_minutes_ago_read_by_a_clock_that_is_ahead_turns_nothing_back(
    harness: Harness, command: str, status: Status
) -> None:
    (instance_id,) = running(harness)
    if command == "start":
        harness.simulator.patch_instance(machine_of(harness, instance_id), status="exited")
        harness.advance(5)
        harness.sweep()
    harness.advance(300)
    assert harness.call("POST", f"/api/instances/{instance_id}/{command}")[0] == 202
    harness.settle()
    assert harness.record(instance_id).status is status
    before = harness.history(instance_id)
    harness.simulator.fault("stale", path="/gpu/instances", ageSeconds=120)
    harness.skew = lambda: timedelta(minutes=1)
    harness.advance(65)
    harness.restart()

    harness.sweep()

    assert harness.record(instance_id).status is status
    assert harness.history(instance_id) == before
