"""Consumer of the monitor queue: asks how machines are, and stops and deletes them."""

from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from functions.shared.consume import consume_steps
from functions.shared.domain.instance import Queue
from functions.shared.metrics import metered
from functions.shared.wiring import wiring


@metered
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    wired = wiring()
    return consume_steps(event, context, wired, Queue.MONITOR, wired.calls.means())
