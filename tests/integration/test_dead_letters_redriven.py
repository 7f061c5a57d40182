"""Redriving dead letters: what failed goes on with a new message, once, or is told why not."""

import json
from typing import Any

import pytest

from functions.shared.adapters.table import ConditionFailed
from functions.shared.domain.messages import StepMessage
from functions.shared.domain.status import Status
from ops import keys
from tests.integration.conftest import Build
from tests.integration.letters import bury, dead, dead_items, deliver_all, failed_create, redrive
from tests.integration.world import World


@pytest.fixture
def world(build: Build) -> World:
    """One whose failed messages come back at once, as nobody waits for real seconds here."""
    return build(RETRY_BASE_SECONDS="0")


def test_redriven_it_is_bought_after_all_with_a_new_token(world: World) -> None:
    instance_id, letter = failed_create(world)
    old = [item["token"] for item in dead_items(world)]

    status, answer = redrive(world, letter["id"])

    assert (status, answer["instanceId"]) == (202, instance_id)
    record = world.record(instance_id)
    assert record.status is Status.CREATING
    assert record.error is None
    assert record.deadline_at
    assert (record.deadline_at - world.now()).total_seconds() == 3600
    assert record.token not in old
    sent = [json.loads(one["body"]) for one in world.receive("create")]
    assert [one["token"] for one in sent] == [record.token]
    world.wire.hinted.add("create")
    world.settle()
    assert world.record(instance_id).status is Status.RUNNING
    assert len(world.simulator.live()) == 1
    assert world.history(instance_id) == [
        "instance.creating",
        "instance.failed",
        "instance.creating",
        "instance.starting",
        "instance.running",
    ]


def test_a_letter_is_redriven_once(world: World) -> None:
    _, letter = failed_create(world)

    first, _ = redrive(world, letter["id"])
    second, refused = redrive(world, letter["id"])

    assert (first, second) == (202, 409)
    assert refused["error"]["code"] == "NOT_REDRIVABLE"
    assert "already" in refused["error"]["message"]
    assert "redrivenAt" in dead(world)[0]
    world.settle()


def test_the_same_idempotency_key_gets_the_same_answer(world: World) -> None:
    _, letter = failed_create(world)

    answers = [redrive(world, letter["id"], **{"idempotency-key": "k"}) for _ in range(2)]

    assert answers[0] == answers[1]
    assert answers[0][0] == 202
    world.settle()
    assert len(world.simulator.live()) == 1


def test_two_redrives_at_the_same_moment_are_one(world: World) -> None:
    instance_id, letter = failed_create(world)
    other: list[int] = []

    def meanwhile(made: Any) -> None:
        if made.name.startswith("TransactWriteItems") and not other:
            other.append(0)
            other[0] = world.elsewhere(lambda: redrive(world, letter["id"]))[0]

    world.wire.before = meanwhile
    status, answer = redrive(world, letter["id"])
    world.wire.before = None

    assert (other, status) == ([202], 409), answer
    world.settle()
    assert world.record(instance_id).status is Status.RUNNING
    assert len(world.simulator.live()) == 1


def test_the_write_that_redrives_succeeds_once(world: World) -> None:
    _, shown = failed_create(world)
    letters, table = world.wiring.dead_letters, world.wiring.table
    letter = letters.get(shown["id"])
    assert letter

    table.put(letters.redriven(letter, world.now()))

    with pytest.raises(ConditionFailed):
        table.put(letters.redriven(letter, world.now()))


def test_what_would_lead_to_nothing_is_refused_with_the_reason(world: World) -> None:
    instance_id, letter = failed_create(world)

    def refusal(letter_id: str) -> str:
        status, answer = redrive(world, letter_id)
        assert (status, answer["error"]["code"]) == (409, "NOT_REDRIVABLE"), answer
        return str(answer["error"]["message"])

    running = world.create()
    world.settle()
    gone = world.as_received("create-dead", StepMessage("inst_unknown", "t", "c").as_json())
    live = world.as_received("create-dead", StepMessage(running, "t", "c").as_json())
    bury(world, gone)
    bury(world, live)
    assert "not known" in refusal(f"dead_{gone['messageId']}")
    assert "is running, not failed" in refusal(f"dead_{live['messageId']}")
    world.call("DELETE", f"/api/instances/{instance_id}")
    world.settle()
    assert "is terminated, not failed" in refusal(letter["id"])
    assert redrive(world, "dead_unknown")[1]["error"]["code"] == "DEAD_LETTER_NOT_FOUND"


def test_a_webhook_that_died_is_sent_when_redriven(world: World) -> None:
    world.environment["WEBHOOK_SECRET_ID"] = "nowhere-webhook"
    world.restart()
    instance_id = world.create(webhookUrl=world.simulator.inbox_url("dead"))
    deliver_all(world)
    world.environment["WEBHOOK_SECRET_ID"] = f"{world.table_name}-webhook"
    world.restart()
    letters = [one for one in dead(world) if one["queue"] == "webhook"]
    assert letters
    assert world.simulator.inbox("dead") == []
    before = len(world.simulator.inbox("dead"))

    status, answer = redrive(world, letters[-1]["id"])
    deliver_all(world)

    assert (status, answer["deliveryId"]) == (202, letters[-1]["deliveryId"])
    assert len(world.simulator.inbox("dead")) > before
    again = world.as_received(
        "webhook-dead",
        json.dumps({"delivery_id": answer["deliveryId"], "attempt": 1, "correlation_id": ""}),
    )
    bury(world, again)
    status, refused = redrive(world, f"dead_{again['messageId']}")
    assert status == 409
    assert "delivered" in refused["error"]["message"]
    world.settle()
    assert world.record(instance_id).status is Status.RUNNING


def test_nobody_without_admin_redrives(world: World) -> None:
    key = keys.new_key()
    world.add_key(key, "read", "write")

    status, answer = redrive(world, "dead_any", authorization=f"Bearer {key}")

    assert (status, answer["error"]["code"]) == (403, "FORBIDDEN")
