"""GET /api/jobs/stats: what waits, what was done, what failed; and that counting costs nobody a job."""

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

from functions.dead_letters.handler import handler as handle_dead_letters
from functions.shared.domain.instance.status import Status
from functions.shared.domain.messages import StepMessage
from tests.integration.harness import CONSUMERS, Context, Harness
from tests.integration.wire import Made

QUEUES = ["create", "monitor", "startup", "webhook"]


def stats(harness: Harness) -> Any:
    status, answer = harness.call("GET", "/api/jobs/stats")
    assert status == 200, answer
    return answer


def test_an_idle_service_has_nothing_to_tell(harness: Harness) -> None:
    shown = stats(harness)

    nothing = {"depth": 0, "inFlight": 0, "delayed": 0, "dead": 0, "oldestAgeSeconds": 0}
    none = {"completed": 0, "retried": 0, "failed": 0}
    assert shown["queues"] == dict.fromkeys(QUEUES, nothing)
    assert shown["jobs"] == dict.fromkeys(QUEUES, none)
    assert shown["sweeps"] == {"incomplete": 0}


def test_depth_in_flight_and_delayed_are_the_queues_own(harness: Harness) -> None:
    for queue, url in harness.queues.items():
        for _ in range(3):
            harness.sqs.send_message(QueueUrl=url, MessageBody="x")
        harness.sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=1)
        harness.sqs.send_message(QueueUrl=url, MessageBody=queue, DelaySeconds=600)

    for shown in stats(harness)["queues"].values():
        assert (shown["depth"], shown["inFlight"], shown["delayed"]) == (2, 1, 1)


def test_dead_counts_what_is_stored_by_its_queue_but_not_what_was_redriven(harness: Harness) -> None:
    instance_id = harness.create()
    harness.give_up("create", "x")
    harness.give_up("webhook", "x")
    harness.handle_dead_letters()
    message = StepMessage(instance_id, harness.record(instance_id).token, "c")
    harness.give_up("create", message.as_json())
    assert _dead(harness) == {"create": 1, "monitor": 0, "startup": 0, "webhook": 1}
    assert stats(harness)["deadLettersNotStored"] == 1
    harness.handle_dead_letters()
    assert stats(harness)["deadLettersNotStored"] == 0
    assert _dead(harness) == {"create": 2, "monitor": 0, "startup": 0, "webhook": 1}
    assert harness.record(instance_id).status is Status.FAILED

    (dead_letter,) = [one for one in _dead_letters(harness) if "instanceId" in one]
    assert harness.call("POST", f"/api/jobs/dead/{dead_letter['id']}/redrive")[0] == 202

    assert _dead(harness) == {"create": 1, "monitor": 0, "startup": 0, "webhook": 1}
    harness.settle()


def test_the_oldest_age_is_that_of_the_longest_overdue_step_of_the_queue(harness: Harness) -> None:
    harness.create(webhookUrl=harness.simulator.inbox_url("late"))
    harness.announce()
    harness.advance(100)
    harness.create(name="later")
    harness.advance(20)

    ages = {name: queue["oldestAgeSeconds"] for name, queue in stats(harness)["queues"].items()}
    assert ages == {"create": 120, "monitor": 0, "startup": 0, "webhook": 120}
    # A sweep queues it again and moves its due time: nothing has been done all the same.
    harness.sweep()
    ages = {name: queue["oldestAgeSeconds"] for name, queue in stats(harness)["queues"].items()}
    assert (ages["create"], ages["webhook"]) == (120, 120)

    harness.settle()
    ages = {name: queue["oldestAgeSeconds"] for name, queue in stats(harness)["queues"].items()}
    assert ages["create"] == ages["monitor"] == 0


def test_jobs_are_counted_by_type_in_one_write_for_each_batch(harness: Harness) -> None:
    stale = StepMessage("inst_unknown", "t", "c").as_json()
    good = [harness.as_received("monitor", stale) for _ in range(3)]
    bad = [harness.as_received("monitor", "none of ours") for _ in range(2)]
    before = len(_counting(harness))

    with harness.wire.handling("monitor"):
        answer = CONSUMERS["monitor"]({"Records": [*good, *bad]}, Context())

    assert len(answer["batchItemFailures"]) == 2
    assert len(_counting(harness)) - before == 1
    jobs = stats(harness)["jobs"]
    assert jobs["monitor"] == {"completed": 3, "retried": 2, "failed": 0}
    assert jobs["create"] == {"completed": 0, "retried": 0, "failed": 0}


def test_a_message_that_failed_for_the_last_time_is_one_failed_job(harness: Harness) -> None:
    dead_letter = harness.as_received("webhook-dead", "none of ours")

    for _ in range(2):
        handle_dead_letters({"Records": [dead_letter]}, Context())

    assert stats(harness)["jobs"]["webhook"]["failed"] == 1


def test_a_job_whose_counting_fails_is_done_all_the_same(harness: Harness) -> None:
    instance_id = harness.create()
    harness.wire.before = _refuse_counting

    harness.settle()

    harness.wire.before = None
    assert harness.record(instance_id).status is Status.RUNNING
    assert stats(harness)["jobs"]["create"]["completed"] == 0


def test_a_job_with_little_time_left_is_not_counted(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Context, "get_remaining_time_in_millis", lambda _: 20_000)
    before = len(_counting(harness))

    harness.handle("monitor", harness.as_received("monitor", StepMessage("inst_unknown", "t", "c").as_json()))

    assert len(_counting(harness)) == before


def _counting(harness: Harness) -> list[Made]:
    return [made for made in harness.wire.calls if made.name == "UpdateItem count/count"]


def _refuse_counting(made: Made) -> None:
    if made.name == "UpdateItem count/count":
        answer: Any = {"Error": {"Code": "ProvisionedThroughputExceededException", "Message": "not now"}}
        raise ClientError(answer, "UpdateItem")


def _dead(harness: Harness) -> dict[str, int]:
    return {name: queue["dead"] for name, queue in stats(harness)["queues"].items()}


def _dead_letters(harness: Harness) -> list[dict[str, Any]]:
    dead_letters: list[dict[str, Any]] = harness.call("GET", "/api/jobs/dead")[1]["deadLetters"]
    assert json.dumps(dead_letters)
    return dead_letters
