"""Novita's own bill beside ours: read once a day, told where it differs, and never mistaken for nothing."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from functions.shared.platform.observability import BALANCE_LOW, BILLS_DIFFER
from tests.integration.conftest import Build, Measured
from tests.integration.harness import Harness
from tests.integration.sweeps import events
from tests.integration.wire import Killed, Made

NOON = datetime(2031, 5, 14, 12, 0, tzinfo=UTC)
DAY = 86_400.0
BILL = "novita GET /billing/bill/list"


@pytest.fixture
def harness(build: Build) -> Harness:
    harness = build()
    harness.begin(NOON)
    return harness


def sweep_for(harness: Harness, hours: int) -> None:
    """One every three hours is enough for what is due once a day, at a minute in which all is done."""
    for _ in range(0, hours, 3):
        harness.advance(3 * 3600 - harness.now().timestamp() % 3600)
        harness.sweep()
        harness.deliver()


def running(harness: Harness, **body: Any) -> str:
    instance_id = harness.create(**body)
    harness.settle()
    return instance_id


def cost(harness: Harness, instance_id: str) -> Any:
    return harness.call("GET", f"/api/instances/{instance_id}/cost")[1]


def reads(harness: Harness) -> int:
    return sum(made.name == BILL for made in harness.wire.calls)


def test_the_bill_is_read_once_a_day_and_shown_beside_ours(harness: Harness) -> None:
    instance_id = running(harness, gpuNum=4)
    assert "billed" not in cost(harness, instance_id)

    sweep_for(harness, 24)

    billed = cost(harness, instance_id)["billed"]
    assert reads(harness) == 1
    assert billed["from"] == "2031-05-14T00:00:00.000Z"
    assert billed["through"] == "2031-05-15T00:00:00.000Z"
    assert abs(float(billed["totalUsd"]) - float(billed["oursUsd"])) < 0.01
    assert float(billed["totalUsd"]) > 8  # twelve hours of four GPUs
    assert "differs" not in billed
    sweep_for(harness, 48)
    assert reads(harness) == 3
    assert events(harness, "cost.differs") == []


def test_a_bill_that_differs_is_told_once_a_day_and_machine(harness: Harness) -> None:
    harness.simulator.settings(billFactor=1.5)
    instance_id = running(harness, gpuNum=4)

    sweep_for(harness, 24)

    (told,) = events(harness, "cost.differs")
    assert told["data"]["instanceId"] == instance_id
    assert told["data"]["novitaInstanceId"] == harness.record(instance_id).machine.id
    assert float(told["data"]["billedUsd"]) > 1.4 * float(told["data"]["oursUsd"])
    assert cost(harness, instance_id)["billed"]["differs"] is True
    sweep_for(harness, 24)
    assert len(events(harness, "cost.differs")) == 2, "the next day once more"


@pytest.mark.parametrize("factor", [1.09, 0.92])
def test_a_small_difference_is_none(harness: Harness, factor: float) -> None:
    harness.simulator.settings(billFactor=factor)
    running(harness, gpuNum=4)

    sweep_for(harness, 24)

    assert events(harness, "cost.differs") == []


def test_a_bill_that_cannot_be_read_is_no_difference_and_asked_for_again(harness: Harness) -> None:
    instance_id = running(harness, gpuNum=4)
    harness.simulator.fault("status", path="/billing/bill/list", status=500)
    sweep_for(harness, 24)
    harness.simulator.clear_faults()
    harness.simulator.fault("garbage", path="/billing/bill/list", body='{"bills": [{"payAmount": "much"}]}')
    sweep_for(harness, 3)
    assert "billed" not in cost(harness, instance_id)
    assert events(harness, "cost.differs") == []
    assert harness.wiring.circuits.states()[0].state == "CLOSED"

    harness.simulator.clear_faults()
    sweep_for(harness, 2)

    assert "billed" in cost(harness, instance_id)


@pytest.mark.parametrize("change", [{"billsAbsent": True}, {"billLagSeconds": 3 * DAY}])
def test_a_bill_that_is_late_or_absent_is_no_difference(harness: Harness, change: dict[str, Any]) -> None:
    harness.simulator.settings(**change)
    instance_id = running(harness, gpuNum=4)

    sweep_for(harness, 24)

    assert reads(harness) == 1
    assert "billed" not in cost(harness, instance_id)
    assert events(harness, "cost.differs") == []


def test_what_novita_billed_before_an_import_and_after_a_release_is_no_difference(harness: Harness) -> None:
    made = harness.simulator.put_instance(name="theirs", status="running", gpuNum=8, ageSeconds=20 * 3600)
    _, imported = harness.call("POST", "/api/instances/import", {"novitaInstanceId": made["id"]})
    instance_id = imported["instanceId"]
    sweep_for(harness, 28)
    assert "billed" not in cost(harness, instance_id), "the day of its import alone is over"

    sweep_for(harness, 24)
    billed = cost(harness, instance_id)["billed"]
    status, _ = harness.call("DELETE", f"/api/instances/{instance_id}?release=true")
    sweep_for(harness, 60)

    assert status == 202
    assert abs(float(billed["totalUsd"]) - float(billed["oursUsd"])) < 0.01
    assert billed["from"] == "2031-05-15T00:00:00.000Z"
    assert reads(harness) == 1, "of the day between them"
    assert cost(harness, instance_id)["billed"]["through"] == "2031-05-16T00:00:00.000Z"
    assert events(harness, "cost.differs") == []
    harness.simulator.patch_instance(made["id"], status="removed")


def test_what_has_ended_is_billed_to_its_last_day_and_then_not_asked_about(harness: Harness) -> None:
    instance_id = running(harness, gpuNum=4)
    harness.run(3600)
    harness.call("DELETE", f"/api/instances/{instance_id}")
    harness.settle()

    sweep_for(harness, 24)

    assert float(cost(harness, instance_id)["billed"]["totalUsd"]) > 0.7
    sweep_for(harness, 96)
    before = reads(harness)
    sweep_for(harness, 48)
    assert reads(harness) == before


def test_bills_take_no_more_than_a_twentieth_of_the_rate_limit(build: Build) -> None:
    harness = build(NOVITA_RATE_LIMIT="100")
    harness.begin(NOON)
    for number in range(8):
        harness.create(name=f"n{number}")
    harness.settle()
    harness.advance(DAY)
    harness.wire.calls.clear()

    harness.sweep()

    assert reads(harness) == 5
    harness.advance(60)
    harness.sweep()
    assert reads(harness) == 8


def replaced(build: Build, times: int) -> tuple[Harness, str]:
    """An instance whose machine was taken away so many times, with two calls for bills in a minute."""
    harness = build(NOVITA_RATE_LIMIT="40")
    harness.begin(NOON)
    harness.simulator.settings(removedVisibleSeconds=600)
    again = {"action": "replace", "replaceAfter": "1m", "maxRecoveries": 100}
    instance_id = harness.create(onReclaim=again, gpuNum=4)
    harness.run(60)
    for _ in range(times):
        harness.simulator.reclaim(
            harness.record(instance_id).machine.id or "", notice=False, noRoomSeconds=DAY
        )
        harness.advance(130)
        harness.sweep()
        harness.settle()
    assert len({one["id"] for one in harness.simulator.instances()}) == times + 1
    harness.advance(DAY)
    harness.wire.calls.clear()
    return harness, instance_id


def asked(harness: Harness) -> list[str]:
    """The machines whose bills were asked for since the last time."""
    found = [made.params["ownerId"] for made in harness.wire.calls if made.name == BILL]
    harness.wire.calls.clear()
    return found


def sweep(harness: Harness) -> list[str]:
    harness.advance(60)
    harness.sweep()
    return asked(harness)


def test_an_instance_with_many_machines_takes_its_share_of_the_calls_and_is_read_whole(build: Build) -> None:
    harness, instance_id = replaced(build, 4)

    found = [sweep(harness) for _ in range(4)]

    assert [len(one) for one in found] == [2, 2, 1, 0]
    assert len({machine for one in found for machine in one}) == 5
    assert found[0][0] == harness.record(instance_id).machine.id, "what runs comes first"
    billed = cost(harness, instance_id)["billed"]
    assert abs(float(billed["totalUsd"]) - float(billed["oursUsd"])) < 0.01
    harness.advance(DAY)
    found = [sweep(harness) for _ in range(3)]
    assert [len(one) for one in found] == [2, 2, 1], "once more: a bill may be late"
    harness.advance(DAY)
    assert [sweep(harness) for _ in range(2)] == [[harness.record(instance_id).machine.id], []]
    assert float(cost(harness, instance_id)["billed"]["totalUsd"]) > float(billed["totalUsd"]) + 2 * 17


def test_a_machine_whose_bill_is_refused_hides_no_other_ones(build: Build) -> None:
    harness, instance_id = replaced(build, 2)
    newest, *older = sweep(harness)
    harness.simulator.fault("status", path="/billing/bill/list", match_query=newest, status=400)
    harness.advance(DAY)

    found = [sweep(harness) for _ in range(3)]

    assert found[0] == [newest, *older]
    assert newest not in found[1]
    harness.advance(3600)
    assert newest in sweep(harness)
    assert float(cost(harness, instance_id)["billed"]["totalUsd"]) > 1
    harness.simulator.clear_faults()


@pytest.mark.parametrize("call", ["PutItem bill/event", "PutItem bill/bill"])
@pytest.mark.parametrize("after", [False, True])
def test_a_sweep_that_dies_loses_no_difference_and_tells_it_once(
    harness: Harness, measured: Measured, call: str, after: bool
) -> None:
    harness.simulator.settings(billFactor=1.5)
    running(harness, gpuNum=4)
    harness.advance(DAY)
    metrics = measured(harness)

    def die(made: Made) -> None:
        if made.name == call:
            harness.wire.before = harness.wire.after = None
            raise Killed

    if after:
        harness.wire.after = die
    else:
        harness.wire.before = die
    harness.sweep()
    assert harness.wire.before is harness.wire.after is None, "it has died there"
    harness.advance(3700)
    harness.sweep()
    harness.deliver()

    assert len(events(harness, "cost.differs")) == 1
    kept = call == "PutItem bill/bill" and after
    assert kept or metrics.of(BILLS_DIFFER.name)


def test_a_balance_below_a_day_of_the_present_rate_is_measured(harness: Harness, measured: Measured) -> None:
    running(harness, gpuNum=4)
    metrics = measured(harness)
    harness.simulator.settings(balance=200_000)  # 20 USD; a day is 17.28
    for _ in range(6):
        harness.advance(60)
        harness.sweep()
    assert not metrics.of(BALANCE_LOW.name)

    harness.simulator.settings(balance=170_000)
    for _ in range(6):
        harness.advance(60)
        harness.sweep()

    assert metrics.of(BALANCE_LOW.name)


def test_without_machines_nobody_asks_for_bills_or_balance(harness: Harness) -> None:
    for _ in range(6):
        harness.advance(timedelta(hours=5).total_seconds())
        harness.sweep()

    assert not [made for made in harness.wire.calls if "billing" in made.name]


def test_the_simulators_balance_runs_out(harness: Harness) -> None:
    harness.simulator.settings(balance=5_000, spendBalance=True)  # half a dollar
    first = running(harness, gpuNum=2)
    harness.run(3600 * 2)

    second = harness.create(name="second")
    harness.settle()

    error = harness.record(second).error
    assert error is not None
    assert (error.details or {})["reason"] == "BALANCE_NOT_ENOUGH"
    assert harness.record(first).status == "running"
