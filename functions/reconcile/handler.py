"""The sweep, every minute: what is overdue goes on, and Novita's list is compared with the records."""

from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from functions.shared.log import logger
from functions.shared.wiring import wiring


def handler(_: dict[str, Any], context: LambdaContext) -> dict[str, int | bool]:
    wired = wiring()
    wired.time_left = lambda: context.get_remaining_time_in_millis() / 1000
    swept = wired.sweep()
    compared = wired.compare().counts()
    logger.info("compared", extra=compared)
    wired.counts.add("sweep", braked=int(compared["braked"]), incomplete=int(not compared["complete"]))
    return {**swept, **compared}
