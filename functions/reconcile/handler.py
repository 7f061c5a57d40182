"""The sweep, every minute: what is overdue goes on, and Novita's list is compared with the records."""

from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from functions.reconcile.gauges import Gauges
from functions.shared.domain.dead_letter import UNKNOWN
from functions.shared.log import logger
from functions.shared.metrics import SWEEP_DURATION, SWEEPS, measure, metered
from functions.shared.wiring import wiring


@metered
def handler(_: dict[str, Any], context: LambdaContext) -> dict[str, int | bool]:
    wired = wiring()
    wired.time_left = lambda: context.get_remaining_time_in_millis() / 1000
    began = wired.clock()
    swept = wired.sweep()
    outcome = wired.compare()
    compared = outcome.counts()
    logger.info("compared", extra=compared)
    wired.counts.add("sweep", braked=int(compared["braked"]), incomplete=int(not compared["complete"]))
    measure(SWEEPS)
    measure(SWEEP_DURATION, 1000 * (wired.clock() - began).total_seconds())
    Gauges(wired.circuits, wired.dead_letters, (*wired.queue_urls, UNKNOWN), wired.clock).read(outcome)
    return {**swept, **compared}
