"""The sweep, every minute: whatever is overdue is set going again."""

from datetime import timedelta
from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from functions.reconcile.sweep import Sweep
from functions.shared.log import logger
from functions.shared.wiring import wiring


def handler(_: dict[str, Any], context: LambdaContext) -> dict[str, int | bool]:
    wired = wiring()
    wired.time_left = lambda: context.get_remaining_time_in_millis() / 1000
    swept = Sweep(
        wired.due,
        wired.queues,
        wired.advance,
        wired.clock,
        timedelta(seconds=wired.settings.sweep_grace_seconds),
        timedelta(seconds=wired.settings.resend_seconds),
    )()
    compared = wired.compare()
    logger.info("compared", extra=compared.counts())
    return {**swept, **compared.counts()}
