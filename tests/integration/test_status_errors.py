"""What Novita says is wrong with a machine reaches the caller, and ends a boot that cannot succeed."""

from dataclasses import replace
from datetime import timedelta

import pytest

from functions.shared.domain.instance.status import Status
from tests.integration.harness import Harness
from tests.integration.stored_records import rewrite
from tests.integration.wire import Made

UNPULLABLE = "107681"
IMAGE = "ghcr.io/ostler-demo/comfyui"  # of the template that tests use
POLL = timedelta(seconds=30)


@pytest.mark.parametrize("shape", ["object", "string"])
def test_an_image_that_cannot_be_pulled_fails_within_one_poll_and_the_machine_is_given_back(
    harness: Harness, shape: str
) -> None:
    harness.simulator.settings(bootSeconds=100, statusErrorAs=shape)
    instance_id = harness.create(templateId=UNPULLABLE)
    bought_at = harness.now()

    harness.settle()

    record = harness.record(instance_id)
    shown_at = bought_at + timedelta(seconds=100)
    assert record.status is Status.FAILED
    assert record.error is not None
    assert record.error.code == "IMAGE_PULL_FAILED"
    assert "ghcr.io/ostler-demo/unpullable:latest: manifest unknown" in record.error.message
    assert shown_at <= record.updated_at <= shown_at + POLL
    assert harness.simulator.live() == []
    _, events = harness.call("GET", f"/api/instances/{instance_id}/events")
    told = {event["type"]: event.get("error", {}).get("message", "") for event in events["events"]}
    assert "manifest unknown" in told["instance.machine_error"]
    assert "manifest unknown" in told["instance.failed"]


def test_an_unpullable_image_whose_error_has_another_id_at_every_look_is_looked_at_twice(
    harness: Harness,
) -> None:
    instance_id = harness.create()
    harness.run(1)
    (machine,) = harness.simulator.live()
    looks: list[str] = []

    def show_another(made: Made) -> None:
        if made.name.endswith("/delete") or len(looks) > 20:
            harness.wire.before = None
        if made.name.startswith("novita GET /gpu/instance"):
            looks.append(made.name)
            wrong = {"state": "pulling", "message": f"manifest unknown, request {len(looks):x}-af"}
            harness.simulator.patch_instance(machine["id"], status="pulling", statusError=wrong)

    harness.wire.before = show_another
    harness.settle()

    record = harness.record(instance_id)
    assert record.error is not None
    assert (record.status, record.error.code) == (Status.FAILED, "IMAGE_PULL_FAILED")
    assert len(looks) <= 3  # or a sweep's list showed it first
    assert harness.simulator.live() == []


def test_a_registry_that_is_down_is_waited_for_and_shown(harness: Harness) -> None:
    harness.simulator.settings(unpullableImages={IMAGE: "503 Service Unavailable"})
    instance_id = harness.create()
    harness.run(120)

    _, waiting = harness.call("GET", f"/api/instances/{instance_id}")
    harness.simulator.settings(unpullableImages={})
    (machine,) = harness.simulator.live()
    harness.simulator.patch_instance(machine["id"], status="running")
    harness.settle()
    harness.advance(60)  # a list may lag
    harness.sweep()
    _, shown = harness.call("GET", f"/api/instances/{instance_id}")

    assert waiting["status"] == "starting"
    assert waiting["waitingFor"]["code"] == "MACHINE_ERROR"
    assert waiting["waitingFor"]["message"].endswith("503 Service Unavailable")
    assert waiting["statusError"].endswith("503 Service Unavailable")
    assert shown["status"] == "running"
    assert not {"waitingFor", "statusError"} & shown.keys()
    assert harness.history(instance_id).count("instance.machine_error") == 1


def test_a_boot_that_is_given_up_names_the_error_that_novita_showed(harness: Harness) -> None:
    harness.simulator.settings(unpullableImages={IMAGE: "503 Service Unavailable"})
    instance_id = harness.create(maxWaitTime=60_000)

    harness.settle()

    error = harness.record(instance_id).error
    assert error is not None
    assert error.code == "STARTUP_TIMEOUT"
    assert error.message.endswith("503 Service Unavailable")


def test_a_start_of_a_kept_machine_whose_image_is_gone_fails_and_it_is_stopped_again(
    harness: Harness,
) -> None:
    instance_id = harness.create()
    harness.settle()
    harness.call("POST", f"/api/instances/{instance_id}/stop")
    harness.settle()
    harness.simulator.settings(unpullableImages={IMAGE: "pull access denied"})
    status, accepted = harness.call("POST", f"/api/instances/{instance_id}/start")
    assert status == 202, accepted

    harness.settle()

    record = harness.record(instance_id)
    (machine,) = harness.simulator.live()
    _, operation = harness.call("GET", f"/api/operations/{accepted['operationId']}")
    assert (record.status, machine["status"]) == (Status.FAILED, "exited")
    assert operation["status"] == "failed"
    assert operation["error"]["code"] == "IMAGE_PULL_FAILED"
    assert "pull access denied" in operation["error"]["message"]


def test_a_machine_that_runs_and_shows_an_error_runs_on(harness: Harness) -> None:
    instance_id = harness.create()
    harness.settle()
    (machine,) = harness.simulator.live()
    harness.simulator.patch_instance(
        machine["id"], statusError={"state": "pulling", "message": "image not found"}
    )

    harness.advance(300)
    harness.sweep()
    harness.run(300)

    record = harness.record(instance_id)
    _, shown = harness.call("GET", f"/api/instances/{instance_id}")
    assert record.status is Status.RUNNING
    assert shown["statusError"] == "pulling: image not found"
    assert harness.history(instance_id)[-1] == "instance.machine_error"
    assert len(harness.simulator.live()) == 1


def test_an_error_that_a_sweep_sees_is_not_left_to_a_look_that_is_far_away(harness: Harness) -> None:
    harness.simulator.settings(bootSeconds=5)
    instance_id = harness.create(templateId=UNPULLABLE)
    while harness.deliver():
        pass
    later = harness.now() + timedelta(minutes=30)
    rewrite(harness.wiring.table, instance_id, lambda record: replace(record, next_check_at=later))
    harness.advance(10)

    harness.sweep()
    while harness.deliver():
        pass

    failed = harness.record(instance_id)
    harness.settle()
    assert failed.status is Status.FAILED
