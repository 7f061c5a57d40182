"""Consumer of the monitor queue: asks how machines are, and starts, restarts, stops and deletes them."""

from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from functions.shared.domain.instance.record import Queue
from functions.shared.engine.consumer import consume_steps
from functions.shared.engine.looks import TakeLook
from functions.shared.engine.step import StepCalls
from functions.shared.platform.observability import metered
from functions.shared.platform.wiring import prepare, wiring

prepare("monitor")


@metered
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    run = wiring("monitor").invocation(context)
    handlers, take_look = run.compose(StepCalls).handlers(), run.compose(TakeLook)
    return consume_steps(event, context, run, Queue.MONITOR, handlers, take_look)
