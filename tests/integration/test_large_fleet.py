"""A fleet too large for one sweep is gone through by several, and every promise of the sweep holds."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from functions.shared.domain.ids import new_instance_id
from functions.shared.domain.instance.status import Status
from tests.integration.conftest import Build
from tests.integration.harness import Harness
from tests.integration.sweeps import events, live, machine_of, put, put_bought, running

MANY = 60
A_WALK = 4  # sweeps until Novita's list has been gone through: two new pages of ten in each


def large(build: Build, **settings: str) -> tuple[Harness, list[str]]:
    harness = build(SWEEP_AT_ONCE="20", **settings)
    harness.simulator.settings(maxPageSize=10)
    # Between two looks at the balance and two sums of what the day has cost.
    harness.begin(datetime(2031, 5, 14, 12, 1, tzinfo=UTC))
    return harness, running(harness, MANY)


def sweep(harness: Harness, times: int = 1) -> list[dict[str, Any]]:
    reports = []
    for _ in range(times):
        harness.advance(60)
        reports.append(harness.sweep())
        while harness.deliver():
            pass
    return reports


def calls(harness: Harness, path: str) -> int:
    return sum(one["path"].endswith(path) for one in harness.simulator.calls())


def test_no_sweep_reads_more_of_the_list_than_its_part_and_together_they_read_it_all(build: Build) -> None:
    harness, _ = large(build)
    for _ in range(2 * A_WALK):
        harness.simulator.clear_calls()
        (report,) = sweep(harness)
        assert calls(harness, "/gpu/instances") <= 3
        assert calls(harness, "/gpu/instance") == 0, "nothing is new"
        assert (report["known"], report["complete"]) == (MANY, True)

    _, status = harness.call("GET", "/api/status")

    assert (status["machines"], status["missing"], status["orphans"]) == (MANY, 0, 0)
    assert status["comparisonComplete"]


def test_a_sync_goes_on_with_the_list_and_says_that_it_is_not_complete(build: Build) -> None:
    harness, _ = large(build)

    _, dry = harness.call("POST", "/api/sync", {"dryRun": True})
    synced = [harness.call("POST", "/api/sync")[1] for _ in range(A_WALK)]

    assert (dry["known"], dry["complete"]) == (MANY, False)
    assert [one["complete"] for one in synced] == [False] * A_WALK
    assert harness.wiring.list_walks.read().last is not None


def test_what_novita_stopped_is_followed_within_one_pass(build: Build) -> None:
    harness, ids = large(build)
    sweep(harness, A_WALK)
    for one in (ids[0], ids[MANY // 2], ids[-1]):
        harness.simulator.patch_instance(machine_of(harness, one), status="exited")

    sweep(harness, A_WALK + 1)

    statuses = [harness.record(one).status for one in ids]
    assert statuses.count(Status.EXITED) == 3
    assert statuses.count(Status.RUNNING) == MANY - 3


def test_a_notice_is_told_within_one_pass_and_once(build: Build) -> None:
    harness, ids = large(build)
    sweep(harness)
    at = int((harness.now() + timedelta(hours=1)).timestamp())
    for one in (ids[0], ids[-1]):
        harness.simulator.patch_instance(
            machine_of(harness, one), spotStatus="notified", spotReclaimTime=str(at)
        )

    sweep(harness, A_WALK + 1)

    assert harness.history(ids[0]).count("instance.reclaim_notified") == 1
    assert harness.history(ids[-1]).count("instance.reclaim_notified") == 1
    sweep(harness, A_WALK)
    assert harness.history(ids[0]).count("instance.reclaim_notified") == 1


def test_a_machine_that_is_gone_unasked_is_missing_and_found_when_it_is_back(build: Build) -> None:
    harness, ids = large(build)
    sweep(harness, A_WALK)
    gone = [machine_of(harness, one) for one in (ids[3], ids[-3])]
    for one in gone:
        harness.simulator.hide(one)

    sweep(harness, 2 * A_WALK)  # the pass that has begun may have shown it
    harness.run(600)

    assert [one for one in ids if harness.record(one).missing] == [ids[3], ids[-3]]
    assert harness.sweep()["missing"] == 2
    _, status = harness.call("GET", "/api/status")
    assert status["missing"] == 2
    for one in gone:
        harness.simulator.show(one)
    harness.run(3700)
    assert [one for one in ids if harness.record(one).missing] == []


def test_pages_that_move_while_the_list_is_read_make_no_looks(build: Build) -> None:
    """Machines that others had by hand are removed from the beginning: all that come after move up."""
    harness, _ = large(build)
    strangers = harness.simulator.put_instances(8, name="stranger", status="running", ageSeconds=900_000)
    sweep(harness, 2)
    harness.simulator.clear_calls()

    for one in strangers:
        harness.simulator.patch_instance(one, status="removed")
        sweep(harness)
    sweep(harness, A_WALK)

    assert calls(harness, "/gpu/instance") == 0


def test_a_list_that_lacks_nearly_all_makes_no_more_looks_than_can_be_made(build: Build) -> None:
    harness, ids = large(build, NOVITA_RATE_LIMIT="40")
    sweep(harness, A_WALK)
    hidden = [machine_of(harness, one) for one in ids[1:]]
    for one in hidden:
        harness.simulator.hide(one)
    sweep(harness, 1)
    for one in hidden:
        harness.simulator.show(one)
    for _ in range(2 * A_WALK):
        harness.simulator.clear_calls()
        (report,) = sweep(harness)
        assert report["unlisted"] <= 10
        assert calls(harness, "/gpu/instance") <= 10

    harness.run(1200)

    assert {harness.record(one).status for one in ids} == {Status.RUNNING}
    assert not any(harness.record(one).missing for one in ids)


@pytest.mark.parametrize("machines", [0, 30])
def test_another_accounts_list_is_no_comparison_and_ends_nothing(build: Build, machines: int) -> None:
    harness, ids = large(build)
    sweep(harness, A_WALK)
    hidden = [machine_of(harness, one) for one in ids]
    for one in hidden:
        harness.simulator.hide(one)
    if machines:
        harness.simulator.put_instances(machines, name="stranger", status="running")
    sweep(harness, 2 * A_WALK)

    _, status = harness.call("GET", "/api/status")
    for one in hidden:
        harness.simulator.show(one)
    harness.run(3700)

    assert status["comparisonError"]["code"] == "NOVITA_UNAVAILABLE"
    assert {harness.record(one).status for one in ids} == {Status.RUNNING}
    assert not any(harness.record(one).missing for one in ids)
    for stranger in live(harness) - set(hidden):
        harness.simulator.patch_instance(stranger, status="removed")


def test_an_orphan_is_announced_once_counted_and_kept(build: Build) -> None:
    harness, _ = large(build)
    orphan = put(harness, new_instance_id(harness.now()))

    sweep(harness, 2 * A_WALK + 1)

    (told,) = events(harness, "orphan.detected")
    assert told["data"]["novitaInstanceId"] == orphan
    _, status = harness.call("GET", "/api/status")
    assert status["orphans"] == 1
    harness.simulator.patch_instance(orphan, status="removed")


def test_a_few_orphans_are_deleted_by_policy_and_too_many_wait_for_an_admins_word(build: Build) -> None:
    harness, ids = large(build, ORPHAN_POLICY="delete", ORPHAN_AGE="60")
    first = {put(harness, new_instance_id(harness.now())) for _ in range(3)}
    sweep(harness, 4 * A_WALK)
    assert not first & live(harness)

    many = {put(harness, new_instance_id(harness.now())) for _ in range(MANY // 5 + 1)}
    sweep(harness, 4 * A_WALK)
    _, status = harness.call("GET", "/api/status")
    assert many <= live(harness)
    assert status["orphanDeletionsHeld"] == len(many)

    harness.call("POST", "/api/sync", {"deleteOrphans": True})
    sweep(harness, 2 * A_WALK)
    assert not many & live(harness)
    assert len(live(harness)) == len(ids)


def test_a_surplus_machine_that_a_purchase_explains_is_given_back(build: Build) -> None:
    harness, ids = large(build)
    surplus = put_bought(harness, ids[7], purchase=2)

    sweep(harness, 2 * A_WALK)
    harness.settle()

    assert surplus not in live(harness)
    assert len(live(harness)) == MANY


def test_two_sweeps_that_go_on_from_the_same_place_lose_nothing(build: Build) -> None:
    harness, ids = large(build)
    sweep(harness, A_WALK)
    harness.simulator.patch_instance(machine_of(harness, ids[-1]), status="exited")

    def another(made: Any) -> None:
        if made.name.startswith("PutItem sweep#walk") or "sweep#walk" in made.name:
            harness.wire.before = None
            harness.elsewhere(harness.sweep)

    for _ in range(A_WALK + 1):
        harness.wire.before = another
        sweep(harness)
    harness.wire.before = None

    assert harness.record(ids[-1]).status is Status.EXITED
    assert [one for one in ids if harness.record(one).missing] == []


def test_costs_and_budgets_go_by_the_whole_fleet(build: Build) -> None:
    harness, ids = large(build)
    harness.call("PUT", "/api/budgets/all", {"limitUsd": 0.01, "period": "day", "action": "stop"})

    sweep(harness, 6)

    _, costs = harness.call("GET", "/api/costs?groupBy=instance")
    assert costs["totalUsd"] is not None
    stops = [harness.record(one).clock.budget_stop_at for one in ids]
    assert all(stops)
    harness.call("DELETE", "/api/budgets/all")
    sweep(harness, 2)
    assert not any(harness.record(one).clock.budget_stop_at for one in ids)


def test_the_day_that_is_over_is_summed_too(build: Build) -> None:
    harness = build(SWEEP_AT_ONCE="20")
    harness.simulator.settings(maxPageSize=10)
    harness.begin(datetime(2031, 5, 14, 23, 30, tzinfo=UTC))
    ids = running(harness, MANY)

    sweep(harness, 45)

    _, costs = harness.call("GET", "/api/costs?from=2031-05-14&to=2031-05-15&groupBy=day")
    each = [harness.record(one).ledger.usd(harness.now()) for one in ids]
    assert len(costs["groups"]) == 2
    assert all(float(group["amountUsd"]) > 0 for group in costs["groups"])
    # Today's sum is a few minutes old.
    assert float(costs["totalUsd"]) == pytest.approx(float(sum(each)), rel=0.2)
    assert float(costs["totalUsd"]) <= float(sum(each))
