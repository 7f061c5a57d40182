"""The sweep, every minute: what is overdue goes on, Novita's list is compared, and the state is measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from aws_lambda_powertools.utilities.typing import LambdaContext
from botocore.exceptions import BotoCoreError, ClientError

from functions.reconcile.read_bills import ReadBills
from functions.reconcile.sum_costs import SumCosts
from functions.reconcile.watch_balance import WatchBalance
from functions.reconcile.watch_budgets import WatchBudgets
from functions.shared.domain.instance.comparison import ComparisonReport
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
    Metric,
    are_measured,
    logger,
    measure,
    metered,
)
from functions.shared.platform.wiring import prepare, wiring

if TYPE_CHECKING:
    from functions.shared.platform.aws import QueueDepths
    from functions.shared.stores.circuits import Circuits
    from functions.shared.stores.jobs import DeadLetters
    from functions.shared.stores.last_sweep import LastSweep


@dataclass(frozen=True)
class Gauges:
    circuits: Circuits
    dead_letters: DeadLetters
    last_sweep: LastSweep
    queue_depths: QueueDepths
    queue_urls: Mapping[str, str]
    clock: Callable[[], datetime]

    def read(self, outcome: ComparisonReport) -> None:
        """Never worth a failure. A number of 0 is not written: a metric costs money by the hour in which it
        is, and its absence says the same. But for the one whose alarm is about there being none: where data
        is missing CloudWatch looks further back, and would raise it ten minutes later."""
        if not are_measured():
            return
        measure(COMPARED, int(outcome.fault is None))
        _tell(MACHINES, outcome.known)
        _tell(MISSING, outcome.missing)
        _tell(STUCK, outcome.stuck)
        _tell(DELETIONS_HELD, outcome.deletions_held)
        try:
            _tell(ORPHANS, self.last_sweep.orphans())
            for circuit in self.circuits.states():
                _tell(CIRCUITS_OPEN, circuit.refuses(self.clock()), by=circuit.name)
            _tell(DEAD_LETTERS_KEPT, sum(map(self.dead_letters.count, (*self.queue_urls, UNKNOWN_QUEUE))))
            _tell(DEAD_LETTERS_NOT_STORED, self.queue_depths.dead_letters_not_stored())
        except (ClientError, BotoCoreError) as error:
            logger.warning("not all gauges read", error=type(error).__name__)


def _tell(metric: Metric, number: int, by: str = "") -> None:
    if number:
        measure(metric, number, by)


prepare("reconcile")


@metered
def handler(_: dict[str, Any], context: LambdaContext) -> dict[str, int | bool]:
    run = wiring("reconcile").invocation(context)
    began = run.wiring.clock()
    swept = run.compose(Sweep)()
    report = run.compose(CompareWithNovita)()
    compared = report.counts()
    logger.info("compared", extra=compared)
    run.wiring.last_sweep.note(report, began)
    summed = run.compose(SumCosts)(report.fleet)
    run.compose(WatchBudgets)(report.fleet, summed=summed)
    run.compose(ReadBills)(report.fleet)
    run.compose(WatchBalance)(report.fleet)
    run.job_counts.add("sweep", incomplete=int(not report.complete))
    measure(SWEEPS)
    measure(SWEEP_DURATION, 1000 * (run.wiring.clock() - began).total_seconds())
    run.compose(Gauges).read(report)
    return {**swept, **compared}
