"""GET /api/jobs/stats: what waits, what was done, what failed; and that counting costs nobody a job."""

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

from functions.bury.handler import handler as bury
from functions.shared.domain.messages import StepMessage
from functions.shared.domain.status import Status
from tests.integration.wire import Made
from tests.integration.world import CONSUMERS, Context, World

QUEUES = ["create", "monitor", "startup", "webhook"]


def stats(world: World) -> Any:
    status, answer = world.call("GET", "/api/jobs/stats")
    assert status == 200, answer
    return answer


def test_an_idle_service_has_nothing_to_tell(world: World) -> None:
    shown = stats(world)

    nothing = {"depth": 0, "inFlight": 0, "delayed": 0, "dead": 0, "oldestAgeSeconds": 0}
    none = {"completed": 0, "retried": 0, "failed": 0}
    assert shown["queues"] == dict.fromkeys(QUEUES, nothing)
    assert shown["jobs"] == dict.fromkeys(QUEUES, none)
    assert shown["sweeps"] == {"braked": 0, "incomplete": 0}


def test_depth_in_flight_and_delayed_are_the_queues_own(world: World) -> None:
    for queue, url in world.queues.items():
        for _ in range(3):
            world.sqs.send_message(QueueUrl=url, MessageBody="x")
        world.sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=1)
        world.sqs.send_message(QueueUrl=url, MessageBody=queue, DelaySeconds=600)

    for shown in stats(world)["queues"].values():
        assert (shown["depth"], shown["inFlight"], shown["delayed"]) == (2, 1, 1)


def test_dead_counts_what_is_buried_and_what_is_not_yet_but_not_what_was_redriven(world: World) -> None:
    instance_id = world.create()
    world.sqs.send_message(QueueUrl=world.dead_queues["create"], MessageBody="x")
    world.sqs.send_message(QueueUrl=world.dead_queues["webhook"], MessageBody="x")
    world.bury()
    message = StepMessage(instance_id, world.record(instance_id).token, "c")
    world.sqs.send_message(QueueUrl=world.dead_queues["create"], MessageBody=message.as_json())
    assert _dead(world) == {"create": 2, "monitor": 0, "startup": 0, "webhook": 1}
    world.bury()
    assert _dead(world) == {"create": 2, "monitor": 0, "startup": 0, "webhook": 1}
    assert world.record(instance_id).status is Status.FAILED

    (letter,) = [one for one in _letters(world) if "instanceId" in one]
    assert world.call("POST", f"/api/jobs/dead/{letter['id']}/redrive")[0] == 202

    assert _dead(world) == {"create": 1, "monitor": 0, "startup": 0, "webhook": 1}
    world.settle()


def test_the_oldest_age_is_that_of_the_longest_overdue_step_of_the_queue(world: World) -> None:
    world.create(webhookUrl=world.simulator.inbox_url("late"))
    world.announce()
    world.advance(100)
    world.create(name="later")
    world.advance(20)

    ages = {name: queue["oldestAgeSeconds"] for name, queue in stats(world)["queues"].items()}
    assert ages == {"create": 120, "monitor": 0, "startup": 0, "webhook": 120}
    # A sweep hints at it, and puts off its next hint: nothing has been done all the same.
    world.sweep()
    ages = {name: queue["oldestAgeSeconds"] for name, queue in stats(world)["queues"].items()}
    assert (ages["create"], ages["webhook"]) == (120, 120)

    world.settle()
    ages = {name: queue["oldestAgeSeconds"] for name, queue in stats(world)["queues"].items()}
    assert ages["create"] == ages["monitor"] == 0


def test_jobs_are_counted_by_type_in_one_write_for_each_batch(world: World) -> None:
    stale = StepMessage("inst_unknown", "t", "c").as_json()
    good = [world.as_received("monitor", stale) for _ in range(3)]
    bad = [world.as_received("monitor", "none of ours") for _ in range(2)]
    before = len(_counting(world))

    with world.wire.handling("monitor"):
        answer = CONSUMERS["monitor"]({"Records": [*good, *bad]}, Context())

    assert len(answer["batchItemFailures"]) == 2
    assert len(_counting(world)) - before == 1
    jobs = stats(world)["jobs"]
    assert jobs["monitor"] == {"completed": 3, "retried": 2, "failed": 0}
    assert jobs["create"] == {"completed": 0, "retried": 0, "failed": 0}


def test_a_message_that_failed_for_the_last_time_is_one_failed_job(world: World) -> None:
    letter = world.as_received("webhook-dead", "none of ours")

    for _ in range(2):
        bury({"Records": [letter]}, Context())

    assert stats(world)["jobs"]["webhook"]["failed"] == 1


def test_a_job_whose_counting_fails_is_done_all_the_same(world: World) -> None:
    instance_id = world.create()
    world.wire.before = _refuse_counting

    world.settle()

    world.wire.before = None
    assert world.record(instance_id).status is Status.RUNNING
    assert stats(world)["jobs"]["create"]["completed"] == 0


def test_a_job_with_little_time_left_is_not_counted(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Context, "get_remaining_time_in_millis", lambda _: 20_000)
    before = len(_counting(world))

    world.handle("monitor", world.as_received("monitor", StepMessage("inst_unknown", "t", "c").as_json()))

    assert len(_counting(world)) == before


def _counting(world: World) -> list[Made]:
    return [made for made in world.wire.calls if made.name == "UpdateItem count/count"]


def _refuse_counting(made: Made) -> None:
    if made.name == "UpdateItem count/count":
        answer: Any = {"Error": {"Code": "ProvisionedThroughputExceededException", "Message": "not now"}}
        raise ClientError(answer, "UpdateItem")


def _dead(world: World) -> dict[str, int]:
    return {name: queue["dead"] for name, queue in stats(world)["queues"].items()}


def _letters(world: World) -> list[dict[str, Any]]:
    letters: list[dict[str, Any]] = world.call("GET", "/api/jobs/dead")[1]["deadLetters"]
    assert json.dumps(letters)
    return letters
