"""Redriving dead letters: what failed goes on with a new message, once, or is told why not."""

import json
from typing import Any

import pytest

from functions.shared.domain.instance.status import Status
from functions.shared.domain.messages import StepMessage
from functions.shared.stores.table import ConditionFailed
from ops import keys
from tests.integration.conftest import Build
from tests.integration.dead_letters import (
    dead,
    dead_items,
    deliver_all,
    failed_create,
    handle_dead_letters,
    redrive,
)
from tests.integration.harness import Harness


@pytest.fixture
def harness(build: Build) -> Harness:
    """One whose failed messages come back at once, as nobody waits for real seconds here."""
    return build(RETRY_BASE_SECONDS="0")


def test_redriven_it_is_bought_after_all_with_a_new_token(harness: Harness) -> None:
    instance_id, dead_letter = failed_create(harness)
    old = [item["token"] for item in dead_items(harness)]

    status, answer = redrive(harness, dead_letter["id"])

    assert (status, answer["instanceId"]) == (202, instance_id)
    record = harness.record(instance_id)
    assert record.status is Status.CREATING
    assert record.error is None
    assert record.deadline_at
    assert (record.deadline_at - harness.now()).total_seconds() == 3600
    assert record.token not in old
    sent = [json.loads(one["body"]) for one in harness.receive("create")]
    assert [one["token"] for one in sent] == [record.token]
    harness.wire.has_messages.add("create")
    harness.settle()
    assert harness.record(instance_id).status is Status.RUNNING
    assert len(harness.simulator.live()) == 1
    assert harness.history(instance_id) == [
        "instance.creating",
        "instance.failed",
        "instance.creating",
        "instance.starting",
        "instance.running",
    ]


def test_a_letter_is_redriven_once(harness: Harness) -> None:
    _, dead_letter = failed_create(harness)

    first, _ = redrive(harness, dead_letter["id"])
    second, refused = redrive(harness, dead_letter["id"])

    assert (first, second) == (202, 409)
    assert refused["error"]["code"] == "NOT_REDRIVABLE"
    assert "already" in refused["error"]["message"]
    assert "redrivenAt" in dead(harness)[0]
    harness.settle()


def test_the_same_idempotency_key_gets_the_same_answer(harness: Harness) -> None:
    _, dead_letter = failed_create(harness)

    answers = [redrive(harness, dead_letter["id"], **{"idempotency-key": "k"}) for _ in range(2)]

    assert answers[0] == answers[1]
    assert answers[0][0] == 202
    harness.settle()
    assert len(harness.simulator.live()) == 1


def test_two_redrives_at_the_same_moment_are_one(harness: Harness) -> None:
    instance_id, dead_letter = failed_create(harness)
    other: list[int] = []

    def meanwhile(made: Any) -> None:
        if made.name.startswith("TransactWriteItems") and not other:
            other.append(0)
            other[0] = harness.elsewhere(lambda: redrive(harness, dead_letter["id"]))[0]

    harness.wire.before = meanwhile
    status, answer = redrive(harness, dead_letter["id"])
    harness.wire.before = None

    assert (other, status) == ([202], 409), answer
    harness.settle()
    assert harness.record(instance_id).status is Status.RUNNING
    assert len(harness.simulator.live()) == 1


def test_the_write_that_redrives_succeeds_once(harness: Harness) -> None:
    _, shown = failed_create(harness)
    dead_letters, table = harness.wiring.dead_letters, harness.wiring.table
    dead_letter = dead_letters.get(shown["id"])
    assert dead_letter

    table.put(dead_letters.redriven(dead_letter, harness.now()))

    with pytest.raises(ConditionFailed):
        table.put(dead_letters.redriven(dead_letter, harness.now()))


def test_what_would_lead_to_nothing_is_refused_with_the_reason(harness: Harness) -> None:
    instance_id, dead_letter = failed_create(harness)

    def refusal(letter_id: str) -> str:
        status, answer = redrive(harness, letter_id)
        assert (status, answer["error"]["code"]) == (409, "NOT_REDRIVABLE"), answer
        return str(answer["error"]["message"])

    running = harness.create()
    harness.settle()
    gone = harness.as_received("create-dead", StepMessage("inst_unknown", "t", "c").as_json())
    live = harness.as_received("create-dead", StepMessage(running, "t", "c").as_json())
    handle_dead_letters(harness, gone)
    handle_dead_letters(harness, live)
    assert "not known" in refusal(f"dead_{gone['messageId']}")
    assert "is running, not failed" in refusal(f"dead_{live['messageId']}")
    harness.call("DELETE", f"/api/instances/{instance_id}")
    harness.settle()
    assert "is terminated, not failed" in refusal(dead_letter["id"])
    assert redrive(harness, "dead_unknown")[1]["error"]["code"] == "DEAD_LETTER_NOT_FOUND"


def test_a_webhook_that_died_is_sent_when_redriven(harness: Harness) -> None:
    harness.environment["WEBHOOK_SECRET_ID"] = "nowhere-webhook"
    harness.restart()
    instance_id = harness.create(webhookUrl=harness.simulator.inbox_url("dead"))
    deliver_all(harness)
    harness.environment["WEBHOOK_SECRET_ID"] = f"{harness.table_name}-webhook"
    harness.restart()
    dead_letters = [one for one in dead(harness) if one["queue"] == "webhook"]
    assert dead_letters
    assert harness.simulator.inbox("dead") == []
    before = len(harness.simulator.inbox("dead"))

    status, answer = redrive(harness, dead_letters[-1]["id"])
    deliver_all(harness)

    assert (status, answer["deliveryId"]) == (202, dead_letters[-1]["deliveryId"])
    assert len(harness.simulator.inbox("dead")) > before
    again = harness.as_received(
        "webhook-dead",
        json.dumps({"delivery_id": answer["deliveryId"], "attempt": 1, "correlation_id": ""}),
    )
    handle_dead_letters(harness, again)
    status, refused = redrive(harness, f"dead_{again['messageId']}")
    assert status == 409
    assert "delivered" in refused["error"]["message"]
    harness.settle()
    assert harness.record(instance_id).status is Status.RUNNING


def test_nobody_without_admin_redrives(harness: Harness) -> None:
    key = keys.new_key()
    harness.add_key(key, "read", "write")

    status, answer = redrive(harness, "dead_any", authorization=f"Bearer {key}")

    assert (status, answer["error"]["code"]) == (403, "FORBIDDEN")
