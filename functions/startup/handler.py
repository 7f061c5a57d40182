"""Consumer of the startup queue: starts machines again and asks the application inside whether it answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from functions.shared.domain.instance.decision import Decision
from functions.shared.domain.instance.health import HealthCheck
from functions.shared.domain.instance.observations import CheckHealth, HealthChecked, Observation
from functions.shared.domain.instance.record import Queue
from functions.shared.engine.consumer import consume_steps
from functions.shared.platform.observability import logger, metered
from functions.shared.platform.wiring import wiring

if TYPE_CHECKING:
    from functions.shared.outbound.probes import Probes
    from functions.shared.platform.invocation import TimeBudget


@dataclass(frozen=True)
class CheckApplication:
    probes: Probes
    clock: Callable[[], datetime]
    budget: TimeBudget

    def __call__(self, decision: Decision, _: CheckHealth) -> tuple[Decision, Observation]:
        """A check that would outlive the function ends with what is known, and a later message goes on."""
        record = decision.record
        began = self.clock()
        check = record.health_check or HealthCheck()
        until_deadline = (
            (record.deadline_at - began).total_seconds()
            if record.deadline_at
            else check.max_wait_time_ms / 1000
        )
        # The last one is asked at the deadline, and has the time of one answer.
        wanted = max(until_deadline, check.timeout_ms / 1000)
        within = max(1.0, min(wanted, self.budget.to_save_after()))
        report = self.probes.check(record.machine.endpoints, check, within)
        logger.info("application asked", overall=report.overall, endpoints=len(report.results))
        return decision, HealthChecked(report, began)


@metered
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    run = wiring("startup").invocation(context)
    return consume_steps(event, context, run, Queue.STARTUP, {CheckHealth: run.compose(CheckApplication)})
