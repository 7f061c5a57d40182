"""Consumer of the table's stream: each new event is told to everybody who wants to know."""

from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from functions.announce.publish import Publish
from functions.shared.metrics import metered
from functions.shared.wiring import wiring


@metered
def handler(event: dict[str, Any], _: LambdaContext) -> None:
    wired = wiring()
    publish = Publish(wired.table, wired.topic, wired.deliveries, wired.queues, wired.clock)
    for record in event.get("Records", []):
        if image := record.get("dynamodb", {}).get("NewImage"):
            publish(image)
