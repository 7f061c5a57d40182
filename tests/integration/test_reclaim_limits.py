"""What else acts on a machine that is being brought back: limits, caps, a boot that takes too long."""

from datetime import timedelta

import pytest

from tests.integration.conftest import Build
from tests.integration.harness import Harness
from tests.integration.reclaims import no_offers, running, shown, taken_away, told


def offers(harness: Harness) -> None:
    no_offers(harness, available=True)


def test_an_idle_limit_stops_nothing_that_is_being_brought_back(harness: Harness) -> None:
    """Removed after its notice, so that it is `running` and missing, and without an offer for longer than the
    limit. Back, its time counts from then."""
    harness.costs_within = timedelta(minutes=4)  # nobody looks for so long
    instance_id, machine_id = running(harness, onReclaim="replace", limits={"idleStopAfter": "30m"})
    no_offers(harness)
    harness.advance(130)
    harness.simulator.reclaim(machine_id, 100, removed=True)
    harness.advance(10)
    harness.sweep()
    harness.advance(230)
    harness.sweep()

    harness.run(3000)

    assert shown(harness, instance_id)["recovering"]["action"] == "replace"
    offers(harness)
    harness.run(1700)
    view = shown(harness, instance_id)
    assert (view["status"], view["recoveries"]) == ("running", 1)
    harness.settle()
    assert shown(harness, instance_id)["endedBy"] == "idle"
    harness.assert_books_balance()


def test_the_time_while_it_was_away_does_not_count_as_unused(harness: Harness) -> None:
    instance_id, machine_id = running(harness, onReclaim="restart", limits={"idleStopAfter": "30m"})
    harness.run(600)

    taken_away(harness, machine_id, noRoomSeconds=2400)
    harness.run(4000)

    (back,) = told(harness, instance_id, "recovery.completed")
    assert shown(harness, instance_id)["status"] == "running"
    harness.settle()
    (expiring,) = told(harness, instance_id, "instance.expiring")
    assert expiring["timestamp"] > back["timestamp"]
    assert shown(harness, instance_id)["endedBy"] == "idle"
    harness.assert_books_balance()


def test_what_is_being_brought_back_is_not_off(harness: Harness) -> None:
    wish = {"action": "restart", "window": "2h"}
    instance_id, machine_id = running(harness, onReclaim=wish, limits={"deleteAfterStopped": "30m"})

    taken_away(harness, machine_id, noRoomSeconds=3600)
    harness.run(4500)

    view = shown(harness, instance_id)
    assert (view["status"], view["recoveries"]) == ("running", 1)
    harness.assert_books_balance()


def test_what_was_not_brought_back_is_off_from_then_on(harness: Harness) -> None:
    wish = {"action": "restart", "window": "20m"}
    instance_id, machine_id = running(harness, onReclaim=wish, limits={"deleteAfterStopped": "30m"})

    taken_away(harness, machine_id, noRoomSeconds=100_000)
    harness.run(1500)
    assert len(told(harness, instance_id, "recovery.failed")) == 1
    harness.run(1200)

    assert shown(harness, instance_id)["status"] == "exited"
    harness.settle()
    view = shown(harness, instance_id)
    assert (view["status"], view["endedBy"]) == ("terminated", "stopped_too_long")
    harness.assert_books_balance()


@pytest.mark.parametrize("held_by", ["cap", "budget"])
def test_nothing_is_given_back_for_what_may_not_be_bought(build: Build, held_by: str) -> None:
    """The spot machine is within the cap, the one on demand that could take its place is not."""
    harness = build(**({"MAX_HOURLY_USD": "0.25"} if held_by == "cap" else {}))
    if held_by == "budget":
        budget = {"limitUsd": "0.3", "period": "day", "scope": "all", "action": "refuse"}
        assert harness.call("PUT", "/api/budgets/small", budget)[0] == 200
    wish = {"action": "replace", "window": "30m", "fallback": "onDemand"}
    instance_id, machine_id = running(harness, onReclaim=wish)
    for product in harness.simulator.products():
        harness.simulator.patch_product(product["id"], billingMethods=["onDemand"])

    taken_away(harness, machine_id, noRoomSeconds=100_000)
    harness.run(900)

    view = shown(harness, instance_id)
    code = {"cap": "CAP_EXCEEDED", "budget": "BUDGET_EXCEEDED"}[held_by]
    assert (view["status"], view["waitingFor"]["code"]) == ("exited", code)
    harness.settle()
    assert shown(harness, instance_id)["status"] == "exited"
    assert harness.simulator.instance(machine_id)["removedAt"] is None
    starts = harness.simulator.calls("/gpu/instance/start")
    assert len(starts) < 15, "polled"
    harness.assert_books_balance()


@pytest.mark.parametrize("action", ["restart", "replace"])
def test_an_application_that_does_not_answer_is_stopped_and_brought_back_later(
    harness: Harness, action: str
) -> None:
    check = {"maxWaitTimeMs": 240_000}
    wish = {"action": action, "window": "1h"}
    instance_id, machine_id = running(harness, onReclaim=wish, healthCheck=check)
    harness.simulator.app(status=502)
    taken_away(harness, machine_id)

    harness.run(500)

    assert told(harness, instance_id, "instance.failed", "recovery.failed") == []
    assert "recovering" in shown(harness, instance_id)
    assert harness.simulator.calls("/gpu/instance/stop")
    harness.simulator.app(status=200)
    harness.settle()
    view = shown(harness, instance_id)
    assert (view["status"], view["recoveries"]) == ("ready", 1)
    harness.assert_books_balance()


@pytest.mark.parametrize("action", ["restart", "replace"])
def test_a_boot_that_takes_too_long_is_replaced_or_taken_when_it_is_over(build: Build, action: str) -> None:
    """Novita does not let a machine be stopped that is starting."""
    harness = build(BOOT_MAX_WAIT="300")
    wish = {"action": action, "window": "1h"}
    instance_id, machine_id = running(harness, onReclaim=wish)
    harness.simulator.settings(startSeconds=900)
    taken_away(harness, machine_id)

    harness.settle()

    view = shown(harness, instance_id)
    assert (view["status"], view["recoveries"]) == ("running", 1)
    assert (view["novitaInstanceId"] != machine_id) is (action == "replace")
    assert told(harness, instance_id, "instance.failed", "recovery.failed") == []
    harness.assert_books_balance()


def test_one_that_never_comes_up_is_exited_when_the_window_is_over(harness: Harness) -> None:
    wish, check = {"action": "restart", "window": "20m"}, {"maxWaitTimeMs": 240_000}
    instance_id, machine_id = running(harness, onReclaim=wish, healthCheck=check)
    harness.simulator.app(status=502)

    taken_away(harness, machine_id)
    harness.settle()

    view = shown(harness, instance_id)
    assert (view["status"], view["endedBy"]) == ("exited", "failure")
    (failed,) = told(harness, instance_id, "recovery.failed")
    assert failed["error"]["code"] == "RECOVERY_FAILED"
    assert harness.simulator.instance(machine_id)["status"] == "exited"
    harness.assert_books_balance()
