"""Messages that fail for the last time: kept with their reason, and fatal where they must be."""

from typing import Any

import pytest
from botocore.exceptions import ClientError

from functions.shared.adapters.table import unmarshal
from functions.shared.domain.dead_letter import read_letter, unsaid
from functions.shared.domain.messages import StepMessage
from functions.shared.domain.status import Status
from tests.integration.conftest import Build
from tests.integration.letters import bury, dead, dead_items, deliver_all, failed_create, redrive, send
from tests.integration.wire import Made
from tests.integration.world import World

DAY = 86_400


@pytest.fixture
def world(build: Build) -> World:
    """One whose failed messages come back at once, as nobody waits for real seconds here."""
    return build(RETRY_BASE_SECONDS="0")


def test_a_purchase_that_fails_four_times_is_a_dead_letter_with_its_reason(world: World) -> None:
    instance_id, letter = failed_create(world)

    assert (letter["queue"], letter["instanceId"], letter["attempts"]) == ("create", instance_id, 4)
    assert letter["error"] == "ClientError"
    assert letter["reason"] == {
        "code": "INTERNAL_ERROR",
        "message": "AWS answered ResourceNotFoundException to Query",
    }
    assert letter["correlationId"] == world.record(instance_id).correlation_id
    (item,) = dead_items(world)
    assert item["expiresAt"] == pytest.approx(world.now().timestamp() + 14 * DAY, abs=2)


def test_a_dead_letter_with_the_current_token_fails_the_instance(world: World) -> None:
    instance_id, _ = failed_create(world)

    record = world.record(instance_id)
    assert record.status is Status.FAILED
    assert record.at_rest
    assert record.error
    assert record.error.message == "AWS answered ResourceNotFoundException to Query"
    assert world.history(instance_id) == ["instance.creating", "instance.failed"]


def test_a_dead_letter_with_an_old_token_is_only_kept(world: World) -> None:
    instance_id = world.create()

    bury(world, world.as_received("create-dead", StepMessage(instance_id, "of-a-step-before", "c").as_json()))

    assert [one["instanceId"] for one in dead(world)] == [instance_id]
    assert world.record(instance_id).status is Status.CREATING
    world.settle()
    assert world.record(instance_id).status is Status.RUNNING


def test_in_monitor_the_deadline_decides(world: World) -> None:
    instance_id = world.create()
    deliver_all(world)
    record = world.record(instance_id)
    assert (record.status, record.queue) == (Status.STARTING, "monitor")
    message = StepMessage(instance_id, record.token, "c")

    bury(world, world.as_received("monitor-dead", message.as_json()))

    assert [one["queue"] for one in dead(world)] == ["monitor"]
    assert world.record(instance_id) == record
    world.settle()
    assert world.record(instance_id).status is Status.RUNNING


def test_a_start_that_dies_fails_and_its_machine_is_stopped(world: World) -> None:
    instance_id = world.create()
    world.settle()
    world.call("POST", f"/api/instances/{instance_id}/stop")
    world.settle()
    world.call("POST", f"/api/instances/{instance_id}/start")
    record = world.record(instance_id)
    assert record.queue == "startup"

    bury(world, world.as_received("startup-dead", StepMessage(instance_id, record.token, "c").as_json()))
    world.settle()

    record = world.record(instance_id)
    assert record.status is Status.FAILED
    assert world.history(instance_id)[-2:] == ["instance.failed", "startup.failed"]
    assert [one["status"] for one in world.simulator.live()] == ["exited"]


def test_a_machine_that_never_was_ready_is_deleted_when_its_check_dies(world: World) -> None:
    world.simulator.app(status=502)
    instance_id = world.create(healthCheck={})
    for _ in range(20):
        if world.record(instance_id).status is Status.HEALTH_CHECKING:
            break
        world.run(5)
    record = world.record(instance_id)
    assert record.queue == "startup"

    bury(world, world.as_received("startup-dead", StepMessage(instance_id, record.token, "c").as_json()))
    world.settle()

    assert world.record(instance_id).status is Status.FAILED
    assert world.simulator.live() == []


def test_a_body_that_is_none_of_ours_is_kept_too(world: World) -> None:
    bodies = [
        "",
        "{",
        "[]",
        "null",
        "[" * 9999,
        '{"instance_id": ""}',
        '{"instance_id": "\\ud800"}',
        "\ud800",
    ]

    for queue in world.queues:
        for body in bodies:
            assert bury(world, world.as_received(f"{queue}-dead", body))

    letters = dead(world, "?limit=100")
    shown = {(one["queue"], one["body"]) for one in letters}
    assert shown == {(queue, body[:500].replace("\ud800", "?")) for queue in world.queues for body in bodies}
    assert not any("instanceId" in one or "deliveryId" in one for one in letters)
    status, answer = redrive(world, letters[0]["id"])
    assert (status, answer["error"]["code"]) == (409, "NOT_REDRIVABLE")


def test_a_message_that_cannot_be_read_goes_the_way_of_the_dead(world: World) -> None:
    send(world, "monitor", "none of ours")

    deliver_all(world)

    (letter,) = dead(world)
    assert (letter["error"], letter["body"]) == ("UnreadableMessage", "none of ours")


def test_a_function_that_dies_says_nothing_and_the_letter_says_so(world: World) -> None:
    bury(world, world.as_received("monitor-dead", StepMessage("inst_gone", "t", "c").as_json()))

    (letter,) = dead(world)
    assert "without saying why" in letter["reason"]["message"]
    assert letter["attempts"] == 4
    assert "error" not in letter


def test_only_the_last_attempt_notes_why_and_is_not_waited_for(world: World) -> None:
    def failures() -> list[Any]:
        return [unmarshal(one) for one in world.items() if one["sk"]["S"] == "failure"]

    for attempt in (1, 3):
        world.handle("create", world.as_received("create", "none of ours", attempt))
    assert failures() == []

    world.handle("create", world.as_received("create", "none of ours", 4, messageId="last"))

    (note,) = failures()
    assert (note["pk"], note["error"], note["attempts"]) == ("failure#last", "UnreadableMessage", 4)
    assert note["expiresAt"] == pytest.approx(world.now().timestamp() + DAY, abs=2)


def test_the_same_letter_twice_is_one_record_and_counted_once(world: World) -> None:
    letter = world.as_received("monitor-dead", "x")

    bury(world, letter)
    bury(world, letter)

    assert len(dead(world)) == 1
    _, stats = world.call("GET", "/api/jobs/stats")
    assert stats["jobs"]["monitor"]["failed"] == 1


def test_a_step_that_dies_again_and_again_in_monitor_is_one_record(world: World) -> None:
    instance_id = world.create()
    deliver_all(world)
    message = StepMessage(instance_id, world.record(instance_id).token, "c").as_json()

    died = []
    for _ in range(3):
        world.advance(60)
        bury(world, world.as_received("monitor-dead", message))
        (letter,) = dead(world)
        died.append(letter["diedAt"])

    assert died == sorted(set(died)), "the last one is shown"
    _, stats = world.call("GET", "/api/jobs/stats")
    assert stats["jobs"]["monitor"]["failed"] == 3, "and every one of them is counted"
    assert stats["queues"]["monitor"]["dead"] == 1
    status, refused = redrive(world, letter["id"])
    assert (status, refused["error"]["code"]) == (409, "NOT_REDRIVABLE")
    world.settle()


def test_a_letter_that_was_redriven_stays_so_when_another_of_its_step_comes(world: World) -> None:
    letters, step = world.wiring.dead_letters, StepMessage("inst_1", "t", "c").as_json()
    first, second = (read_letter(name, "monitor", step, unsaid(4, world.now())) for name in ("m1", "m2"))
    assert letters.add(first)
    world.wiring.table.transact([letters.redriven(first, world.now())])

    assert not letters.add(second)
    assert ["redrivenAt" in one for one in dead(world)] == [True]


def test_whoever_died_between_keeping_the_letter_and_failing_the_instance_is_finished_for(
    world: World,
) -> None:
    instance_id = world.create()
    message = StepMessage(instance_id, world.record(instance_id).token, "c")
    letter = world.as_received("create-dead", message.as_json())
    world.wire.before = _refuse_transactions
    assert not bury(world, letter)
    world.wire.before = None
    assert world.record(instance_id).status is Status.CREATING

    assert bury(world, letter)

    assert world.record(instance_id).status is Status.FAILED
    assert len(dead(world)) == 1


def test_dead_letters_are_listed_newest_first_in_pages(world: World) -> None:
    for number in range(5):
        bury(world, world.as_received("monitor-dead", f"letter {number}"))
        world.advance(1)

    _, first = world.call("GET", "/api/jobs/dead?limit=2")
    _, second = world.call("GET", f"/api/jobs/dead?limit=2&cursor={first['nextCursor']}")
    _, third = world.call("GET", f"/api/jobs/dead?limit=2&cursor={second['nextCursor']}")

    bodies = [one["body"] for page in (first, second, third) for one in page["deadLetters"]]
    assert bodies == [f"letter {number}" for number in (4, 3, 2, 1, 0)]
    assert "nextCursor" not in third
    assert world.call("GET", "/api/jobs/dead?cursor=made-up")[1]["error"]["code"] == "INVALID_CURSOR"
    assert world.call("GET", "/api/jobs/dead?limit=0")[0] == 400


def _refuse_transactions(made: Made) -> None:
    if made.name.startswith("TransactWriteItems"):
        error = {"Error": {"Code": "ThrottlingException", "Message": "not now"}}
        raise ClientError(error, "TransactWriteItems")  # type: ignore[arg-type]
