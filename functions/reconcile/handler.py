"""The sweep, every minute: what is overdue goes on, Novita's list is compared, and the state is measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from aws_lambda_powertools.utilities.typing import LambdaContext
from botocore.exceptions import BotoCoreError, ClientError

from functions.shared.domain.instance.comparison import ComparisonReport, DifferenceKind
from functions.shared.domain.messages import UNKNOWN_QUEUE
from functions.shared.engine.compare import CompareWithNovita
from functions.shared.engine.sweep import Sweep
from functions.shared.platform.observability import (
    CIRCUITS_OPEN,
    COMPARED,
    DEAD_LETTERS_KEPT,
    DEAD_LETTERS_NOT_STORED,
    DELETIONS_HELD,
    MACHINES,
    MISSING,
    ORPHANS,
    STUCK,
    SWEEP_DURATION,
    SWEEPS,
    logger,
    measure,
    metered,
)
from functions.shared.platform.wiring import wiring

if TYPE_CHECKING:
    from functions.shared.platform.aws import QueueDepths
    from functions.shared.stores.circuits import Circuits
    from functions.shared.stores.jobs import DeadLetters


@dataclass(frozen=True)
class Gauges:
    circuits: Circuits
    dead_letters: DeadLetters
    queue_depths: QueueDepths
    queue_urls: Mapping[str, str]
    clock: Callable[[], datetime]

    def read(self, outcome: ComparisonReport) -> None:
        """Never worth a failure. What Novita did not tell is left out: no number is not the number 0."""
        measure(MACHINES, outcome.known)
        if outcome.fault is None:
            measure(COMPARED)
            measure(ORPHANS, sum(1 for _ in outcome.of(DifferenceKind.ORPHAN)))
        troubles = {MISSING: outcome.missing, STUCK: outcome.stuck, DELETIONS_HELD: outcome.deletions_held}
        for metric, number in troubles.items():
            if number:
                measure(metric, number)
        try:
            for circuit in self.circuits.states():
                measure(CIRCUITS_OPEN, circuit.refuses(self.clock()), by=circuit.name)
            measure(DEAD_LETTERS_KEPT, sum(map(self.dead_letters.count, (*self.queue_urls, UNKNOWN_QUEUE))))
            measure(DEAD_LETTERS_NOT_STORED, self.queue_depths.dead_letters_not_stored())
        except (ClientError, BotoCoreError) as error:
            logger.warning("not all gauges read", error=type(error).__name__)


@metered
def handler(_: dict[str, Any], context: LambdaContext) -> dict[str, int | bool]:
    run = wiring("reconcile").invocation(context)
    began = run.wiring.clock()
    swept = run.compose(Sweep)()
    report = run.compose(CompareWithNovita)()
    compared = report.counts()
    logger.info("compared", extra=compared)
    run.wiring.last_sweep.note(report, began)
    run.job_counts.add("sweep", incomplete=int(not report.complete))
    measure(SWEEPS)
    measure(SWEEP_DURATION, 1000 * (run.wiring.clock() - began).total_seconds())
    run.compose(Gauges).read(report)
    return {**swept, **compared}
