"""Consumer of the startup queue: one short round of asking the application inside whether it answers."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from functions.shared.domain.errors import StaleInstance
from functions.shared.domain.instance.decision import Decision
from functions.shared.domain.instance.health import ROUND_SECONDS, HealthCheck, HealthReport
from functions.shared.domain.instance.observations import CheckHealth, HealthChecked, Observation, RoundHeld
from functions.shared.domain.instance.outcomes import begin_round
from functions.shared.domain.instance.record import Instance, Queue
from functions.shared.domain.resilience import hold_wait
from functions.shared.engine.consumer import consume_steps
from functions.shared.platform.observability import logger, metered
from functions.shared.platform.wiring import prepare, wiring

if TYPE_CHECKING:
    from functions.shared.outbound.probes import Probes
    from functions.shared.platform.invocation import TimeBudget
    from functions.shared.stores.instances import Instances
    from functions.shared.stores.jobs import SlowSlots


@dataclass(frozen=True)
class CheckApplication:
    instances: Instances
    slow_applications: SlowSlots
    probes: Probes
    clock: Callable[[], datetime]
    budget: TimeBudget
    chance: Callable[[], float] = random.random

    def __call__(self, decision: Decision, _: CheckHealth) -> tuple[Decision, Observation]:
        """One round, unless somebody else is making one, or enough slow applications are being asked."""
        rounds, now = decision.record.rounds, self.clock()
        if rounds.under_way(now):
            raise StaleInstance(decision.record.id)
        until = now + self.budget.lifetime()
        slot = self.slow_applications.take(now, until) if rounds.slow else None
        if rounds.slow and slot is None:
            logger.info("slow application held", held=rounds.held)
            wait = hold_wait(rounds.held, ROUND_SECONDS, self.chance, slow=True)
            return decision, RoundHeld(wait.total_seconds())
        try:
            decision = self._begun(decision, until)
        except StaleInstance:
            if slot:
                self.slow_applications.release(slot)
            raise
        report = self._asked(decision.record)
        if slot:  # without this it is free at `until`
            self.slow_applications.release(slot)
        return decision, HealthChecked(report, now, self.chance())

    def _begun(self, decision: Decision, until: datetime) -> Decision:
        """Stored before anybody is asked: every other message of this step is out of date from here on."""
        stored = self.instances.save(begin_round(decision, until))
        return replace(decision, record=stored, events=(), operations=())

    def _asked(self, record: Instance) -> HealthReport:
        check = record.health_check or HealthCheck()
        within = max(1.0, min(check.round_seconds, self.budget.to_save_after()))
        report = self.probes.check(record.machine.endpoints, check, within)
        logger.info(
            "application asked",
            overall=report.overall,
            endpoints=len(report.results),
            timed_out=report.timed_out,
        )
        return report


prepare("startup")


@metered
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    run = wiring("startup").invocation(context)
    return consume_steps(event, context, run, Queue.STARTUP, {CheckHealth: run.compose(CheckApplication)})
