"""What Novita refuses to give back is asked for again, and takes a tenth of the rate limit whatever it is."""

from bisect import bisect_right
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from functions.shared.domain.instance.status import Status
from tests.integration.conftest import Build
from tests.integration.harness import Harness
from tests.integration.sweeps import machine_of, running
from tests.integration.virtual_workers import VirtualWorkers

REFUSAL: dict[str, Any] = {"status": 400, "reason": "PREPAID_INSTANCE_NOT_SUPPORT_RELEASE"}
MINUTES = 12


def deletes(harness: Harness) -> list[float]:
    return sorted(call["time"] for call in harness.simulator.calls("/gpu/instance/delete"))


def most_in_a_minute(times: list[float]) -> int:
    return max(bisect_right(times, at + 60) - number for number, at in enumerate(times))


@pytest.mark.parametrize("many", [25, pytest.param(100, marks=pytest.mark.soak)])
def test_refused_deletes_take_a_tenth_of_the_limit_and_nobody_waits_behind_them(
    build: Build, many: int
) -> None:
    harness = build(NOVITA_RATE_LIMIT="100")
    harness.costs_within = timedelta(hours=2)
    *refused, other = running(harness, many + 1)
    harness.restart()  # so that nothing holds the real queues
    workers, answers, asked = VirtualWorkers(harness), set[int](), "/gpu/instance/delete"
    harness.simulator.fault("status", asked, **REFUSAL)
    for one in refused:
        workers.at(0, partial(harness.call, "DELETE", f"/api/instances/{one}"))
    workers.run(29 if many < 50 else 75)
    assert len(deletes(harness)) >= many, "each has been refused"
    harness.simulator.clear_calls()

    for second in range(0, 60 * MINUTES, 15):
        path = f"/api/templates/{second + 1}"  # which nobody has asked for, so that Novita is asked
        workers.at(second, lambda path=path: answers.add(harness.call("GET", path)[0]))  # type: ignore[misc]  # bound now
    workers.run(60 * MINUTES)
    again = deletes(harness)
    harness.simulator.clear_calls()
    workers.at(0, partial(harness.call, "DELETE", f"/api/instances/{other}"))
    workers.run(2)

    assert many <= len(again)
    assert most_in_a_minute(again) <= 10
    assert answers == {404}
    assert machine_of(harness, other) in str(harness.simulator.calls(asked))
    assert all(harness.history(one).count("cleanup.stuck") == 1 for one in refused)
    harness.simulator.clear_faults()
    workers.run(3600)
    taken = [call for call in harness.simulator.calls(asked) if call["status"] == 200]
    assert len(taken) == many + 1
    workers.run(900)
    assert {record.status for record in harness.records()} == {Status.TERMINATED}
