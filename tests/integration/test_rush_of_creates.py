"""Many creates at once at the default rate limit: each is bought once, and none that came up is failed."""

import pytest

from functions.shared.domain.instance.status import Status
from tests.integration.conftest import Build
from tests.integration.rate import most_in_a_minute
from tests.integration.virtual_workers import VirtualWorkers

MINUTE = 60.0
BOOT_SECONDS = 120.0


@pytest.mark.parametrize(
    ("creates", "limit", "boot_max_wait"),
    [(14, 10, 130), pytest.param(1000, 100, 130, marks=pytest.mark.soak)],
)
def test_creates_at_once_fail_not_one_machine_that_came_up_in_time(
    build: Build, creates: int, limit: int, boot_max_wait: int
) -> None:
    """Seconds after they are up, the time that a boot may take is over: most are looked at later."""
    harness = build(NOVITA_RATE_LIMIT=f"{limit}", BOOT_MAX_WAIT=f"{boot_max_wait}")
    harness.simulator.settings(bootSeconds=BOOT_SECONDS)
    workers = VirtualWorkers(harness)
    for _ in range(creates):
        workers.at(0, harness.create)

    for minute in range(120):
        workers.at(minute * MINUTE, harness.sweep)
    minutes = 0
    while minutes < 60 and (minutes == 0 or any(not one.at_rest for one in harness.records())):
        workers.run(MINUTE)
        harness.wire.calls.clear()  # a million of them
        minutes += 1

    records = harness.records()
    assert {one.status for one in records} == {Status.RUNNING}
    assert len(records) == creates
    assert len(harness.simulator.live()) == creates
    assert len(harness.simulator.calls("/gpu/instance/create")) == creates
    assert most_in_a_minute(harness) <= 1.05 * limit
