"""Messages that fail for the last time: kept with their reason, and fatal where they must be."""

import pytest
from botocore.exceptions import ClientError

from functions.shared.domain.instance.status import Status
from functions.shared.domain.messages import (
    MORE_DELIVERIES,
    StepMessage,
    read_dead_letter,
    unknown_failure,
)
from functions.shared.stores.table import unmarshal
from tests.integration.conftest import Build
from tests.integration.dead_letters import (
    break_purchases,
    dead,
    dead_items,
    deliver_all,
    failed_create,
    handle_dead_letters,
    mend_purchases,
    redrive,
    send,
)
from tests.integration.harness import Harness
from tests.integration.wire import Killed, Made

DAY = 86_400


@pytest.fixture
def harness(build: Build) -> Harness:
    """One whose failed messages come back at once, as nobody waits for real seconds here."""
    return build(RETRY_BASE_SECONDS="0")


def test_a_purchase_that_fails_four_times_is_a_dead_letter_with_its_reason(harness: Harness) -> None:
    instance_id, dead_letter = failed_create(harness)

    assert (dead_letter["queue"], dead_letter["instanceId"], dead_letter["attempts"]) == (
        "create",
        instance_id,
        4,
    )
    assert dead_letter["error"] == "ClientError"
    assert dead_letter["reason"] == {
        "code": "INTERNAL_ERROR",
        "message": "AWS answered ResourceNotFoundException to Query",
    }
    assert dead_letter["correlationId"] == harness.record(instance_id).correlation_id
    (item,) = dead_items(harness)
    assert item["expiresAt"] == pytest.approx(harness.now().timestamp() + 14 * DAY, abs=2)


def test_a_dead_letter_with_the_current_token_fails_the_instance(harness: Harness) -> None:
    instance_id, _ = failed_create(harness)

    record = harness.record(instance_id)
    assert record.status is Status.FAILED
    assert record.at_rest
    assert record.error
    assert record.error.message == "AWS answered ResourceNotFoundException to Query"
    assert harness.history(instance_id) == ["instance.creating", "instance.failed"]


def test_a_dead_letter_with_an_old_token_is_only_kept(harness: Harness) -> None:
    instance_id = harness.create()

    handle_dead_letters(
        harness,
        harness.as_received("create-dead", StepMessage(instance_id, "of-a-step-before", "c").as_json()),
    )

    assert [one["instanceId"] for one in dead(harness)] == [instance_id]
    assert harness.record(instance_id).status is Status.CREATING
    harness.settle()
    assert harness.record(instance_id).status is Status.RUNNING


def test_in_monitor_the_deadline_decides(harness: Harness) -> None:
    instance_id = harness.create()
    deliver_all(harness)
    record = harness.record(instance_id)
    assert (record.status, record.queue) == (Status.STARTING, "monitor")
    message = StepMessage(instance_id, record.token, "c")

    handle_dead_letters(harness, harness.as_received("monitor-dead", message.as_json()))

    assert [one["queue"] for one in dead(harness)] == ["monitor"]
    assert harness.record(instance_id) == record
    harness.settle()
    assert harness.record(instance_id).status is Status.RUNNING


def test_a_start_whose_message_dies_goes_on_by_its_deadline(harness: Harness) -> None:
    instance_id = harness.create()
    harness.settle()
    harness.call("POST", f"/api/instances/{instance_id}/stop")
    harness.settle()
    harness.call("POST", f"/api/instances/{instance_id}/start")
    record = harness.record(instance_id)
    assert record.queue == "monitor"

    handle_dead_letters(
        harness, harness.as_received("monitor-dead", StepMessage(instance_id, record.token, "c").as_json())
    )

    assert harness.record(instance_id) == record
    harness.settle()
    assert harness.record(instance_id).status is Status.READY


def test_a_check_after_a_start_that_dies_fails_and_the_machine_is_stopped(harness: Harness) -> None:
    instance_id = harness.create()
    harness.settle()
    harness.simulator.app(status=502)
    harness.call("POST", f"/api/instances/{instance_id}/restart")
    while harness.record(instance_id).status is not Status.HEALTH_CHECKING:
        harness.run(5)
    record = harness.record(instance_id)
    assert record.queue == "startup"

    handle_dead_letters(
        harness, harness.as_received("startup-dead", StepMessage(instance_id, record.token, "c").as_json())
    )
    harness.settle()

    record = harness.record(instance_id)
    assert record.status is Status.FAILED
    assert harness.history(instance_id)[-2:] == ["instance.failed", "startup.failed"]
    assert [one["status"] for one in harness.simulator.live()] == ["exited"]


def test_a_machine_that_never_was_ready_is_deleted_when_its_check_dies(harness: Harness) -> None:
    harness.simulator.app(status=502)
    instance_id = harness.create(healthCheck={})
    for _ in range(20):
        if harness.record(instance_id).status is Status.HEALTH_CHECKING:
            break
        harness.run(5)
    record = harness.record(instance_id)
    assert record.queue == "startup"

    handle_dead_letters(
        harness, harness.as_received("startup-dead", StepMessage(instance_id, record.token, "c").as_json())
    )
    harness.settle()

    assert harness.record(instance_id).status is Status.FAILED
    assert harness.simulator.live() == []


def test_a_body_that_is_none_of_ours_is_kept_too(harness: Harness) -> None:
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

    for queue in harness.queues:
        for body in bodies:
            assert handle_dead_letters(harness, harness.as_received(f"{queue}-dead", body))

    dead_letters = dead(harness, "?limit=100")
    shown = {(one["queue"], one["body"]) for one in dead_letters}
    assert shown == {
        (queue, body[:500].replace("\ud800", "?")) for queue in harness.queues for body in bodies
    }
    assert not any("instanceId" in one or "deliveryId" in one for one in dead_letters)
    status, answer = redrive(harness, dead_letters[0]["id"])
    assert (status, answer["error"]["code"]) == (409, "NOT_REDRIVABLE")


def test_a_message_that_cannot_be_read_goes_the_way_of_the_dead(harness: Harness) -> None:
    send(harness, "monitor", "none of ours")

    deliver_all(harness)

    (dead_letter,) = dead(harness)
    assert (dead_letter["error"], dead_letter["body"]) == ("UnreadableMessage", "none of ours")


def test_a_function_that_dies_says_nothing_and_the_letter_says_so(harness: Harness) -> None:
    handle_dead_letters(
        harness, harness.as_received("monitor-dead", StepMessage("inst_gone", "t", "c").as_json())
    )

    (dead_letter,) = dead(harness)
    assert "without saying why" in dead_letter["reason"]["message"]
    assert dead_letter["attempts"] == 4 + MORE_DELIVERIES
    assert "error" not in dead_letter


def test_failures_of_a_message_are_counted_with_why_and_the_last_one_ends_it(harness: Harness) -> None:
    def fail() -> bool:
        return harness.handle("create", harness.as_received("create", "none of ours", messageId="it"))

    assert [fail() for _ in range(3)] == [False, False, False]
    assert not harness.handle_dead_letters()
    assert fail(), "given up, so that the queue is done with it"

    (note,) = [unmarshal(one) for one in harness.items() if one["sk"]["S"] == "failure"]
    assert (note["pk"], note["error"], note["attempts"]) == ("failure#it", "UnreadableMessage", 4)
    assert note["expiresAt"] == pytest.approx(harness.now().timestamp() + DAY, abs=2)
    assert harness.handle_dead_letters() == 1
    (dead_letter,) = dead(harness)
    assert (dead_letter["id"], dead_letter["queue"], dead_letter["attempts"]) == ("dead_it", "create", 4)
    _, stats = harness.call("GET", "/api/jobs/stats")
    counted = {name: number for name, number in stats["jobs"]["create"].items() if number}
    assert counted == {"retried": 4, "dead": 1}


def test_deliveries_that_never_reached_the_function_are_no_failures(harness: Harness) -> None:
    """Throttled before it began, which SQS counts all the same."""
    instance_id = harness.create()
    for _ in range(MORE_DELIVERIES):
        assert harness.receive("create", VisibilityTimeout=0)
    break_purchases(harness)
    for _ in range(3):
        (record,) = harness.receive("create")
        assert not harness.handle("create", record)
    mend_purchases(harness)

    harness.settle()

    assert dead(harness) == []
    assert harness.record(instance_id).status is Status.RUNNING


def test_a_message_that_kills_its_function_is_ended_by_the_queue(harness: Harness) -> None:
    instance_id = harness.create()
    harness.wire.before = _die_in_create

    deliver_all(harness)

    harness.wire.before = None
    (dead_letter,) = dead(harness)
    assert (dead_letter["queue"], dead_letter["instanceId"]) == ("create", instance_id)
    assert dead_letter["attempts"] == 4 + MORE_DELIVERIES
    assert "without saying why" in dead_letter["reason"]["message"]


def test_where_failures_cannot_be_counted_the_queue_ends_it(harness: Harness) -> None:
    def refuse(made: Made) -> None:
        if "failure/failure" in made.name:
            raise ClientError({"Error": {"Code": "ThrottlingException"}}, "UpdateItem")

    harness.wire.before = refuse
    send(harness, "startup", "none of ours")
    deliver_all(harness)
    harness.wire.before = None

    (dead_letter,) = dead(harness)
    assert (dead_letter["queue"], dead_letter["body"]) == ("startup", "none of ours")


def test_a_message_whose_function_died_after_giving_it_up_is_one_dead_letter(harness: Harness) -> None:
    def die_once(made: Made) -> None:
        if made.name == "SendMessage dead":
            harness.wire.after = None
            raise Killed

    harness.wire.after = die_once
    send(harness, "monitor", "none of ours")

    deliver_all(harness)

    assert harness.wire.after is None
    assert [one["queue"] for one in dead(harness)] == ["monitor"]
    _, stats = harness.call("GET", "/api/jobs/stats")
    assert stats["jobs"]["monitor"]["dead"] == 1


def test_a_dead_letter_that_cannot_be_queued_comes_back(harness: Harness) -> None:
    def refuse(made: Made) -> None:
        if made.name == "SendMessage dead":
            harness.wire.before = None
            raise ClientError({"Error": {"Code": "ServiceUnavailable"}}, "SendMessage")

    harness.wire.before = refuse
    send(harness, "monitor", "none of ours")

    deliver_all(harness)

    assert [one["attempts"] for one in dead(harness)] == [5]


def test_the_same_letter_twice_is_one_record_and_counted_once(harness: Harness) -> None:
    dead_letter = harness.as_received("monitor-dead", "x")

    handle_dead_letters(harness, dead_letter)
    handle_dead_letters(harness, dead_letter)

    assert len(dead(harness)) == 1
    _, stats = harness.call("GET", "/api/jobs/stats")
    assert stats["jobs"]["monitor"]["dead"] == 1


def test_a_step_that_dies_again_and_again_in_monitor_is_one_record(harness: Harness) -> None:
    instance_id = harness.create()
    deliver_all(harness)
    message = StepMessage(instance_id, harness.record(instance_id).token, "c").as_json()

    died = []
    for _ in range(3):
        harness.advance(60)
        handle_dead_letters(harness, harness.as_received("monitor-dead", message))
        (dead_letter,) = dead(harness)
        died.append(dead_letter["diedAt"])

    assert died == sorted(set(died)), "the last one is shown"
    _, stats = harness.call("GET", "/api/jobs/stats")
    assert stats["jobs"]["monitor"]["dead"] == 3, "and every one of them is counted"
    assert stats["queues"]["monitor"]["dead"] == 1
    status, refused = redrive(harness, dead_letter["id"])
    assert (status, refused["error"]["code"]) == (409, "NOT_REDRIVABLE")
    harness.settle()


def test_a_letter_that_was_redriven_stays_so_when_another_of_its_step_comes(harness: Harness) -> None:
    dead_letters, step = harness.wiring.dead_letters, StepMessage("inst_1", "t", "c").as_json()
    first, second = (
        read_dead_letter(name, "monitor", step, unknown_failure(3, harness.now())) for name in ("m1", "m2")
    )
    assert dead_letters.add(first)
    harness.wiring.table.transact([dead_letters.redriven(first, harness.now())])

    assert not dead_letters.add(second)
    assert ["redrivenAt" in one for one in dead(harness)] == [True]


def test_whoever_died_between_keeping_the_letter_and_failing_the_instance_is_finished_for(
    harness: Harness,
) -> None:
    instance_id = harness.create()
    message = StepMessage(instance_id, harness.record(instance_id).token, "c")
    dead_letter = harness.as_received("create-dead", message.as_json())
    harness.wire.before = _refuse_transactions
    assert not handle_dead_letters(harness, dead_letter)
    harness.wire.before = None
    assert harness.record(instance_id).status is Status.CREATING

    assert handle_dead_letters(harness, dead_letter)

    assert harness.record(instance_id).status is Status.FAILED
    assert len(dead(harness)) == 1


def test_dead_letters_are_listed_newest_first_in_pages(harness: Harness) -> None:
    for number in range(5):
        handle_dead_letters(harness, harness.as_received("monitor-dead", f"body {number}"))
        harness.advance(1)

    _, first = harness.call("GET", "/api/jobs/dead?limit=2")
    _, second = harness.call("GET", f"/api/jobs/dead?limit=2&cursor={first['nextCursor']}")
    _, third = harness.call("GET", f"/api/jobs/dead?limit=2&cursor={second['nextCursor']}")

    bodies = [one["body"] for page in (first, second, third) for one in page["deadLetters"]]
    assert bodies == [f"body {number}" for number in (4, 3, 2, 1, 0)]
    assert "nextCursor" not in third
    assert harness.call("GET", "/api/jobs/dead?cursor=made-up")[1]["error"]["code"] == "INVALID_CURSOR"
    assert harness.call("GET", "/api/jobs/dead?limit=0")[0] == 400


def _die_in_create(made: Made) -> None:
    if made.handler == "create":
        raise Killed


def _refuse_transactions(made: Made) -> None:
    if made.name.startswith("TransactWriteItems"):
        error = {"Error": {"Code": "ThrottlingException", "Message": "not now"}}
        raise ClientError(error, "TransactWriteItems")  # type: ignore[arg-type]  # a part of a response
