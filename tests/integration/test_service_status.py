"""GET /api/status: how the service stands, told by one item that the sweep writes."""

from datetime import datetime
from typing import Any

import pytest

from functions.shared.domain.ids import new_instance_id
from functions.shared.engine.compare import CompareWithNovita
from tests.integration.conftest import Build
from tests.integration.harness import Context, Harness
from tests.integration.stored_records import reading
from tests.integration.sweeps import machine_of, put, running

BALANCE = "novita GET /billing/balance/detail"


def status(harness: Harness) -> Any:
    code, answer = harness.call("GET", "/api/status")
    assert code == 200, answer
    return answer


def asked(harness: Harness) -> int:
    return sum(made.name == BALANCE for made in harness.wire.calls)


def seconds_ago(harness: Harness, stamp: str) -> float:
    return (harness.now() - datetime.fromisoformat(stamp)).total_seconds()


def test_before_the_first_sweep_nothing_is_made_up(harness: Harness) -> None:
    shown = status(harness)

    assert shown["keyProven"] is True
    assert not shown.keys() & {"lastSweepAt", "lastComparedAt", "missing", "orphans", "machines"}


def test_it_tells_what_the_last_sweep_found(harness: Harness) -> None:
    hidden, *_ = running(harness, 3)
    orphan = put(harness, new_instance_id(harness.now()))
    harness.simulator.hide(machine_of(harness, hidden))
    for _ in range(4):
        harness.sweep()
        harness.run(60)
    harness.sweep()
    harness.advance(10)

    shown = status(harness)

    assert seconds_ago(harness, shown["lastSweepAt"]) == pytest.approx(10, abs=1)
    assert shown["lastComparedAt"] == shown["lastSweepAt"]
    assert shown["comparisonComplete"] is True
    counts = {name: shown[name] for name in ("machines", "missing", "orphans", "stuckCleanups")}
    assert counts == {"machines": 3, "missing": 1, "orphans": 1, "stuckCleanups": 0}
    harness.simulator.patch_instance(orphan, status="removed")
    harness.simulator.show(machine_of(harness, hidden))
    harness.settle()


def test_a_list_that_cannot_be_read_is_told_and_the_last_good_comparison_with_it(harness: Harness) -> None:
    running(harness, 1)
    harness.sweep()
    good = status(harness)
    harness.advance(60)
    harness.simulator.fault("status", path="/gpu/instances", status=503)

    harness.sweep()

    shown = status(harness)
    assert shown["lastComparedAt"] == good["lastComparedAt"] < shown["lastSweepAt"]
    assert shown["comparisonError"]["code"] == "NOVITA_UNAVAILABLE"
    assert (shown["comparisonComplete"], shown["orphans"]) == (False, 0)


def test_it_reads_a_few_items_however_large_the_fleet_is(harness: Harness) -> None:
    running(harness, 12)
    harness.sweep()
    status(harness)  # what it does once is done

    with reading(harness) as read:
        status(harness)

    assert set(read.calls) == {"GetItem"}
    assert len(read.calls) <= 4
    assert read.entries == 0


def test_the_rate_limit_used_is_that_of_all_functions_in_the_last_minute(build: Build) -> None:
    harness = build(NOVITA_RATE_LIMIT="100")
    harness.create()
    harness.settle()

    shown = status(harness)["rateLimit"]

    assert (shown["limit"], shown["windowSeconds"]) == (100, 60)
    assert shown["usedBy"]["work"] >= 1
    assert shown["used"] == sum(shown["usedBy"].values())
    harness.advance(120)
    harness.call("GET", "/api/status")
    assert status(harness)["rateLimit"]["usedBy"]["work"] == 0


def test_a_pause_that_novita_asked_for_is_shown(harness: Harness) -> None:
    harness.wiring.limiter.pause(40)

    until = status(harness)["rateLimit"]["pausedUntil"]

    assert -seconds_ago(harness, until) == pytest.approx(40, abs=2)


def test_an_unproven_key_is_told(harness: Harness) -> None:
    running(harness, 1)
    harness.put_secret("novita", "another-key")
    harness.advance(400)

    assert status(harness)["keyProven"] is False


# The balance


def test_the_balance_is_novitas_own_and_asked_for_once_in_five_minutes(harness: Harness) -> None:
    harness.simulator.settings(balance=123_456)

    shown = [status(harness) for _ in range(5)]
    harness.restart()
    other_process = status(harness)

    expected = {"availableUsd": "12.3456", "cashUsd": "12.3456"}
    assert expected.items() <= shown[-1]["balance"].items()
    assert other_process["balance"] == shown[0]["balance"]
    assert asked(harness) == 1
    harness.advance(301)
    status(harness)
    assert asked(harness) == 2


@pytest.mark.parametrize(
    "fault",
    [
        {"kind": "status", "status": 503},
        {"kind": "status", "status": 403, "reason": "FORBIDDEN"},
        {"kind": "status", "status": 404, "reason": "RESOURCE_NOT_FOUND"},
        {"kind": "status", "status": 429, "retryAfter": 3000},
        {"kind": "garbage", "body": "html"},
        {"kind": "garbage", "body": "{}"},
    ],
    ids=lambda fault: f"{fault['kind']} {fault.get('status', fault.get('body'))}",
)
def test_a_balance_that_novita_does_not_tell_is_left_out_and_harms_nothing(
    build: Build, fault: dict[str, Any]
) -> None:
    """Another service of Novita's: its failures must neither open a circuit nor pause a purchase."""
    harness = build(BREAKER_FAILURE_THRESHOLD="1")
    harness.simulator.fault(path="/billing/balance/detail", **fault)

    shown = [status(harness) for _ in range(3)]

    assert all("balance" not in one for one in shown)
    assert asked(harness) == 1
    assert "pausedUntil" not in shown[-1]["rateLimit"]
    assert {one.state for one in harness.wiring.circuits.states()} == {"CLOSED"}
    harness.simulator.clear_faults()
    harness.advance(61)
    assert "balance" in status(harness)


# When Novita last showed a machine


def last_synced(harness: Harness, instance_id: str) -> str:
    (shown,) = [
        one
        for one in harness.call("GET", "/api/instances")[1]["instances"]
        if one["instanceId"] == instance_id
    ]
    return str(shown["lastSyncedAt"])


def test_what_a_sweep_listed_was_synced_then_and_no_record_is_written_for_it(harness: Harness) -> None:
    (instance_id,) = running(harness)
    version = harness.record(instance_id).version
    harness.advance(800)
    harness.sweep()
    harness.advance(45)

    assert seconds_ago(harness, last_synced(harness, instance_id)) == pytest.approx(45, abs=1)
    harness.simulator.fault("status", path="/gpu/instance", status=503)
    one = harness.call("GET", f"/api/instances/{instance_id}")[1]
    assert one["stale"] is True
    assert one["lastSyncedAt"] == last_synced(harness, instance_id)
    assert harness.record(instance_id).version == version


def test_a_machine_that_the_list_lacks_was_synced_when_a_list_last_had_it(harness: Harness) -> None:
    instance_id, other = running(harness, 2)
    harness.sweep()
    listed_at = harness.now()
    harness.simulator.hide(machine_of(harness, instance_id))
    for _ in range(6):
        harness.run(60)
        harness.sweep()

    hidden, seen = last_synced(harness, instance_id), last_synced(harness, other)
    assert (datetime.fromisoformat(hidden) - listed_at).total_seconds() == pytest.approx(0, abs=1)
    assert seconds_ago(harness, seen) < 5
    harness.simulator.show(machine_of(harness, instance_id))
    harness.settle()


def test_a_list_that_could_not_be_read_shows_nothing_newer(harness: Harness) -> None:
    (instance_id,) = running(harness)
    harness.sweep()
    before = last_synced(harness, instance_id)
    harness.simulator.fault("status", path="/gpu/instances", status=503)
    harness.advance(60)
    harness.sweep()

    assert last_synced(harness, instance_id) == before


def test_what_was_just_looked_at_costs_no_read_of_the_sweeps_item(harness: Harness) -> None:
    (instance_id,) = running(harness)
    harness.sweep()
    harness.advance(60)
    before = len(harness.wire.calls)

    harness.call("GET", f"/api/instances/{instance_id}")

    made = [call.name for call in harness.wire.calls[before:]]
    assert "novita GET /gpu/instance" in made
    assert "GetItem sweep/sweep" not in made


def test_a_page_of_old_details_reads_the_sweeps_item_once(harness: Harness) -> None:
    running(harness, 5)
    harness.sweep()
    harness.advance(60)
    before = len(harness.wire.calls)

    harness.call("GET", "/api/instances")

    made = [call.name for call in harness.wire.calls[before:]]
    assert made.count("GetItem sweep/sweep") == 1


def test_a_sweep_that_began_earlier_and_ends_later_does_not_put_the_findings_back(harness: Harness) -> None:
    running(harness, 1)
    began = harness.now()
    harness.advance(60)
    harness.sweep()
    shown = status(harness)
    report = harness.wiring.invocation(Context()).compose(CompareWithNovita)()

    harness.wiring.last_sweep.note(report, began)

    harness.restart()
    assert status(harness)["lastSweepAt"] == shown["lastSweepAt"]
