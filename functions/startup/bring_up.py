"""Asking the application inside a machine whether it answers."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from functions.shared.adapters.probes import Probes
from functions.shared.domain.decision import Decision
from functions.shared.domain.health import HealthCheck
from functions.shared.domain.observation import Observation, Probe, Probed
from functions.shared.log import logger

_SPARE_SECONDS = 10.0  # left to store what was learned


@dataclass(frozen=True)
class BringUp:
    probes: Probes
    clock: Callable[[], datetime]
    time_left: Callable[[], float]

    def probe(self, decision: Decision, _: Probe) -> tuple[Decision, Observation]:
        """A check that would outlive the function ends with what is known, and a later message goes on."""
        record = decision.record
        began = self.clock()
        check = record.health_check or record.spec.health_check or HealthCheck()
        until_deadline = (
            (record.deadline_at - began).total_seconds()
            if record.deadline_at
            else check.max_wait_time_ms / 1000
        )
        # The last one is asked at the deadline, and has the time of one answer.
        wanted = max(until_deadline, check.timeout_ms / 1000)
        within = max(1.0, min(wanted, self.time_left() - _SPARE_SECONDS))
        report = self.probes.check(record.endpoints, check, within)
        logger.info("application asked", overall=report.overall, endpoints=len(report.results))
        return decision, Probed(report, began)
