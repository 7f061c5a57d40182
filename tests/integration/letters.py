"""What tests of dead letters need: messages that fail for the last time, and what became of them."""

from typing import Any

from botocore.exceptions import ClientError

from functions.bury.handler import handler
from functions.shared.adapters.table import unmarshal
from tests.integration.wire import Made
from tests.integration.world import Context, World


def break_purchases(world: World) -> None:
    """The books cannot be read: no wait that the service knows, but a failure."""

    def fail(made: Made) -> None:
        if made.handler == "create" and made.name.startswith("Query "):
            said: Any = {"Error": {"Code": "ResourceNotFoundException"}}
            raise ClientError(said, "Query")

    world.wire.before = fail


def mend_purchases(world: World) -> None:
    world.wire.before = None


def send(world: World, queue: str, body: str) -> None:
    world.sqs.send_message(QueueUrl=world.queues[queue], MessageBody=body)
    world.wire.hinted.add(queue)


def deliver_all(world: World) -> None:
    while world.deliver():
        pass


def dead(world: World, query: str = "") -> list[dict[str, Any]]:
    status, answer = world.call("GET", f"/api/jobs/dead{query}")
    assert status == 200, answer
    letters: list[dict[str, Any]] = answer["deadLetters"]
    return letters


def redrive(world: World, letter_id: str, **headers: str) -> tuple[int, Any]:
    return world.call("POST", f"/api/jobs/dead/{letter_id}/redrive", headers=headers)


def dead_items(world: World) -> list[dict[str, Any]]:
    return [unmarshal(item) for item in world.items() if item["sk"]["S"] == "dead"]


def failed_create(world: World) -> tuple[str, dict[str, Any]]:
    """An instance whose purchase failed for the last time, and its dead letter."""
    instance_id = world.create()
    break_purchases(world)
    deliver_all(world)
    mend_purchases(world)
    (letter,) = dead(world)
    return instance_id, letter


def bury(world: World, record: dict[str, Any]) -> bool:
    """Whether the function took it."""
    with world.wire.handling("bury"):
        return not handler({"Records": [record]}, Context())["batchItemFailures"]
