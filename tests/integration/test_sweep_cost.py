"""What a sweep reads does not grow with what has ended: only what may have a machine is looked at."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from functions.shared.domain.ids import new_instance_id
from functions.shared.domain.instance.status import Status
from tests.integration.harness import Harness
from tests.integration.stored_records import Read, put_alike, reading, stored
from tests.integration.sweeps import running


def sweep(harness: Harness) -> Read:
    harness.advance(60)
    with reading(harness) as read:
        report = harness.sweep()
    assert report["known"] == 3, report
    assert report["complete"], report
    return read


@pytest.mark.parametrize("many", [300, pytest.param(10_000, marks=pytest.mark.soak)])
def test_a_sweep_reads_no_more_for_all_that_has_failed_or_ended(harness: Harness, many: int) -> None:
    # Between two looks at the balance and two sums of what the day has cost.
    harness.begin(datetime(2031, 5, 14, 12, 0, tzinfo=UTC))
    running(harness, 3)
    sweep(harness)  # what it does once is done
    before = sweep(harness)

    began = harness.now() - timedelta(days=10)
    vanished = {"status": Status.TERMINATED, "machine_id": "m-gone", "gone": ("m-gone",)}
    ended: list[dict[str, Any]] = [
        {"status": Status.FAILED},
        {"status": Status.TERMINATED},
        {**vanished, "vanished": ("m-gone",)},
    ]
    for number, changes in enumerate(ended):
        ids = [new_instance_id(began + timedelta(seconds=3 * n + number)) for n in range(many)]
        put_alike(harness, stored(began, **changes), ids)
    after = sweep(harness)

    assert after == before
    assert before.items == 3
    assert before.entries >= 3
