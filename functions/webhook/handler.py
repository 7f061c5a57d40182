"""Consumer of the webhook queue: each message is one attempt at one delivery."""

from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from functions.shared.consume import consume
from functions.shared.domain.messages import DeliveryMessage
from functions.shared.metrics import metered
from functions.shared.wiring import wiring
from functions.webhook.deliver import Deliver


@metered
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    wired = wiring()
    deliver = Deliver(
        wired.deliveries,
        wired.receivers,
        wired.queues,
        wired.outbound,
        wired.webhook_masters,
        wired.clock,
        wired.webhook_waits,
        wired.settings.webhook_timeout,
    )

    def attempt(body: str) -> None:
        deliver(DeliveryMessage.from_json(body))

    return consume(event, context, wired, "webhook", attempt)
