"""What tests of dead letters need: messages that fail for the last time, and what became of them."""

from typing import Any

from botocore.exceptions import ClientError

from functions.dead_letters.handler import handler
from functions.shared.stores.table import unmarshal
from tests.integration.harness import Context, Harness
from tests.integration.wire import Made


def break_purchases(harness: Harness) -> None:
    """Purchases cannot be read: that is a failure, not a wait."""

    def fail(made: Made) -> None:
        if made.handler == "create" and made.name.startswith("Query "):
            said: Any = {"Error": {"Code": "ResourceNotFoundException"}}
            raise ClientError(said, "Query")

    harness.wire.before = fail


def mend_purchases(harness: Harness) -> None:
    harness.wire.before = None


def send(harness: Harness, queue: str, body: str) -> None:
    harness.sqs.send_message(QueueUrl=harness.queues[queue], MessageBody=body)
    harness.wire.has_messages.add(queue)


def deliver_all(harness: Harness) -> None:
    while harness.deliver():
        pass


def dead(harness: Harness, query: str = "") -> list[dict[str, Any]]:
    status, answer = harness.call("GET", f"/api/jobs/dead{query}")
    assert status == 200, answer
    letters: list[dict[str, Any]] = answer["deadLetters"]
    return letters


def redrive(harness: Harness, letter_id: str, **headers: str) -> tuple[int, Any]:
    return harness.call("POST", f"/api/jobs/dead/{letter_id}/redrive", headers=headers)


def dead_items(harness: Harness) -> list[dict[str, Any]]:
    return [unmarshal(item) for item in harness.items() if item["sk"]["S"] == "dead"]


def failed_create(harness: Harness) -> tuple[str, dict[str, Any]]:
    """An instance whose purchase failed for the last time, and its dead letter."""
    instance_id = harness.create()
    break_purchases(harness)
    deliver_all(harness)
    mend_purchases(harness)
    (dead_letter,) = dead(harness)
    return instance_id, dead_letter


def handle_dead_letters(harness: Harness, record: dict[str, Any]) -> bool:
    """Whether the function took it."""
    with harness.wire.handling("dead_letters"):
        return not handler({"Records": [record]}, Context())["batchItemFailures"]
