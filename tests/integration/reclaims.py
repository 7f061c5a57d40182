"""Spot machines that Novita takes away, as tests have them."""

from typing import Any

from functions.shared.domain.instance.status import Status
from tests.integration.harness import Harness


def running(harness: Harness, **body: Any) -> tuple[str, str]:
    """An instance that runs, and its machine."""
    instance_id = harness.create(**body)
    harness.run(60)  # a limit is not waited for
    record = harness.record(instance_id)
    assert record.status in (Status.RUNNING, Status.READY)
    return instance_id, record.machine.id or ""


def told(harness: Harness, instance_id: str, *types: str) -> list[dict[str, Any]]:
    _, answer = harness.call("GET", f"/api/instances/{instance_id}/events")
    return [one for one in answer["events"] if one["type"] in types]


def shown(harness: Harness, instance_id: str) -> Any:
    return harness.call("GET", f"/api/instances/{instance_id}")[1]


def taken_away(harness: Harness, machine_id: str, **how: Any) -> None:
    """And a sweep has seen it."""
    harness.simulator.reclaim(machine_id, **{"notice": False, **how})
    harness.advance(130)
    harness.sweep()


def no_offers(harness: Harness, **change: Any) -> None:
    for product in harness.simulator.products():
        harness.simulator.patch_product(product["id"], **(change or {"available": False}))
