"""GET /api/jobs/stats: what waits, what was done, what failed; and that counting costs nobody a job."""

import json
from datetime import datetime, timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError

from functions.dead_letters.handler import handler as handle_dead_letters
from functions.shared.domain.ids import timestamp
from functions.shared.domain.instance.status import Status
from functions.shared.domain.messages import StepMessage
from ops import keys
from tests.integration.conftest import Build
from tests.integration.harness import CONSUMERS, Context, Harness
from tests.integration.wire import Made

QUEUES = ["create", "monitor", "startup", "webhook"]
COUNTS = ["pending", "inProgress", "done", "refused", "gaveUp", "retried", "dead"]


def stats(harness: Harness, query: str = "") -> Any:
    status, answer = harness.call("GET", f"/api/jobs/stats{query}")
    assert status == 200, answer
    return answer


def test_an_idle_service_has_nothing_to_tell(harness: Harness) -> None:
    shown = stats(harness)

    nothing = {"depth": 0, "inFlight": 0, "delayed": 0, "dead": 0, "oldestAgeSeconds": 0}
    none = dict.fromkeys(COUNTS, 0)
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
    assert jobs["monitor"] == {**dict.fromkeys(COUNTS, 0), "done": 3, "retried": 2}
    assert jobs["create"] == dict.fromkeys(COUNTS, 0)


def test_a_message_that_failed_for_the_last_time_is_one_failed_job(harness: Harness) -> None:
    dead_letter = harness.as_received("webhook-dead", "none of ours")

    for _ in range(2):
        handle_dead_letters({"Records": [dead_letter]}, Context())

    assert stats(harness)["jobs"]["webhook"]["dead"] == 1


def test_a_job_whose_counting_fails_is_done_all_the_same(harness: Harness) -> None:
    instance_id = harness.create()
    harness.wire.before = _refuse_counting

    harness.settle()

    harness.wire.before = None
    assert harness.record(instance_id).status is Status.RUNNING
    assert stats(harness)["jobs"]["create"]["done"] == 0


def test_a_job_with_little_time_left_is_not_counted(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Context, "get_remaining_time_in_millis", lambda _: 20_000)
    before = len(_counting(harness))

    harness.handle("monitor", harness.as_received("monitor", StepMessage("inst_unknown", "t", "c").as_json()))

    assert len(_counting(harness)) == before


def outcomes(harness: Harness, job: str, query: str = "") -> dict[str, int]:
    """Those that there were."""
    counted = stats(harness, query)["jobs"][job]
    return {name: counted[name] for name in COUNTS[2:] if counted[name]}


def test_a_purchase_that_is_refused_for_good_is_refused_and_not_done(harness: Harness) -> None:
    harness.simulator.settings(balanceEnough=False)
    harness.create()

    harness.settle()

    assert outcomes(harness, "create") == {"refused": 1}


def test_what_is_out_of_time_was_given_up(build: Build) -> None:
    harness = build(PURCHASE_MAX_WAIT="100", BOOT_MAX_WAIT="60")
    harness.simulator.settings(bootSeconds=600)
    harness.create()
    harness.settle()
    harness.simulator.fault("status", path="/gpu/instance/create", status=400, reason="INSUFFICIENT_RESOURCE")
    harness.create()
    harness.settle()

    assert outcomes(harness, "monitor")["gaveUp"] == 1
    assert outcomes(harness, "create")["gaveUp"] == 1
    assert "refused" not in outcomes(harness, "create")


@pytest.mark.parametrize(
    ("answer", "counted"),
    [
        ({"status": 204}, {"done": 2}),
        ({"status": 410}, {"refused": 2}),
        ({"status": 500}, {"retried": 1, "done": 1}),  # the second event waits for the first
    ],
)
def test_attempts_of_webhooks_are_counted_by_what_the_receiver_said(
    harness: Harness, answer: dict[str, int], counted: dict[str, int]
) -> None:
    box = f"counted-{answer['status']}"
    harness.simulator.answer(box, times=100, **answer)
    harness.create(webhookUrl=harness.simulator.inbox_url(box))
    while harness.deliver():
        pass

    assert outcomes(harness, "webhook") == counted
    harness.settle()


def test_what_waits_and_what_is_in_progress_is_counted_by_type(harness: Harness) -> None:
    url = harness.queues["startup"]
    for _ in range(3):
        harness.sqs.send_message(QueueUrl=url, MessageBody="x")
    harness.sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=1)
    harness.sqs.send_message(QueueUrl=url, MessageBody="x", DelaySeconds=600)

    shown = stats(harness)["jobs"]["startup"]

    assert (shown["pending"], shown["inProgress"]) == (3, 1)


def test_a_window_of_some_hours_can_be_asked_for(harness: Harness) -> None:
    harness.create()
    harness.settle()
    early = outcomes(harness, "create")
    harness.advance(5 * 3600)
    harness.create()
    harness.settle()

    assert early == {"done": 1}
    assert outcomes(harness, "create") == {"done": 2}
    assert outcomes(harness, "create", "?windowHours=3") == {"done": 1}
    since = datetime.fromisoformat(stats(harness, "?windowHours=3")["since"])
    assert timedelta(hours=3) <= harness.now() - since < timedelta(hours=4)
    harness.advance(30 * 3600)
    assert outcomes(harness, "create") == {}
    assert outcomes(harness, "create", "?windowHours=168") == {"done": 2}


@pytest.mark.parametrize("hours", ["0", "169", "x"])
def test_a_window_out_of_bounds_is_refused(harness: Harness, hours: str) -> None:
    status, answer = harness.call("GET", f"/api/jobs/stats?windowHours={hours}")

    assert (status, answer["error"]["validationErrors"][0]["code"]) == (400, "INVALID_WINDOW_HOURS")


# Dead letters


def _bury(harness: Harness, many: int) -> None:
    for _ in range(many):
        harness.advance(1)
        harness.give_up("webhook", "x")
        harness.handle_dead_letters()


def test_dead_letters_since_a_time_are_paged_and_end_there(harness: Harness) -> None:
    _bury(harness, 3)
    harness.advance(100)
    since = timestamp(harness.now())
    _bury(harness, 3)

    ids, path = [], f"/api/jobs/dead?limit=2&since={since}"
    answer = harness.call("GET", path)[1]
    ids += [one["id"] for one in answer["deadLetters"]]
    second = harness.call("GET", f"{path}&cursor={answer['nextCursor']}")[1]
    ids += [one["id"] for one in second["deadLetters"]]

    everything = [one["id"] for one in harness.call("GET", "/api/jobs/dead")[1]["deadLetters"]]
    assert ids == everything[:3]
    assert "nextCursor" not in second


@pytest.mark.parametrize("since", ["yesterday", "1794960000", "2026-11-18T04:00:00"])
def test_a_time_that_is_none_is_refused(harness: Harness, since: str) -> None:
    status, answer = harness.call("GET", f"/api/jobs/dead?since={since}")

    assert (status, answer["error"]["validationErrors"][0]["code"]) == (400, "INVALID_SINCE")


def test_old_dead_letters_are_removed_and_younger_ones_stay(harness: Harness) -> None:
    _bury(harness, 3)
    harness.advance(5 * 3600)
    _bury(harness, 2)

    status, answer = harness.call("POST", "/api/jobs/dead/cleanup", {"olderThanHours": 4})

    assert (status, answer) == (200, {"removed": 3, "complete": True})
    assert len(_dead_letters(harness)) == 2
    assert _dead(harness)["webhook"] == 2
    assert harness.call("POST", "/api/jobs/dead/cleanup", {})[0] == 400


def test_removing_them_needs_an_admin(harness: Harness) -> None:
    writer = keys.new_key()
    harness.add_key(writer, "write")

    status, _ = harness.call(
        "POST",
        "/api/jobs/dead/cleanup",
        {"olderThanHours": 1},
        headers={"authorization": f"Bearer {writer}"},
    )

    assert status == 403


def _counting(harness: Harness) -> list[Made]:
    return [made for made in harness.wire.calls if made.name == "UpdateItem count/hour"]


def _refuse_counting(made: Made) -> None:
    if made.name == "UpdateItem count/hour":
        answer: Any = {"Error": {"Code": "ProvisionedThroughputExceededException", "Message": "not now"}}
        raise ClientError(answer, "UpdateItem")


def _dead(harness: Harness) -> dict[str, int]:
    return {name: queue["dead"] for name, queue in stats(harness)["queues"].items()}


def _dead_letters(harness: Harness) -> list[dict[str, Any]]:
    dead_letters: list[dict[str, Any]] = harness.call("GET", "/api/jobs/dead")[1]["deadLetters"]
    assert json.dumps(dead_letters)
    return dead_letters
