"""Consumer of the startup queue: starts and restarts machines and checks the application inside."""

from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from functions.shared.consume import consume_steps
from functions.shared.domain.instance import Queue
from functions.shared.domain.observation import Probe
from functions.shared.metrics import metered
from functions.shared.wiring import wiring
from functions.startup.bring_up import BringUp


@metered
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    wired = wiring()
    bring_up = BringUp(wired.probes, wired.clock, wired.remaining)
    return consume_steps(event, context, wired, Queue.STARTUP, {**wired.calls.means(), Probe: bring_up.probe})
