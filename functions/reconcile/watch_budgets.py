"""Budgets against what is spent: thresholds are told, and what runs beyond one is stopped, with notice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING

from functions.shared.domain.instance.decide import decide
from functions.shared.domain.instance.decision import Policy, leave_to_its_step
from functions.shared.domain.instance.fleet import Fleet, FleetSummary
from functions.shared.domain.instance.observations import BudgetsJudged
from functions.shared.domain.instance.progress import left_to_its_step
from functions.shared.domain.money.budgets import Budget, BudgetAction
from functions.shared.domain.money.ledger import Tags
from functions.shared.platform.observability import BUDGETS_PASSED, correlated, logger, measure
from functions.shared.stores.table import TABLE_FAILED

if TYPE_CHECKING:
    from functions.shared.engine.step import StepRunner
    from functions.shared.platform.invocation import TimeBudget
    from functions.shared.stores.budgets import Budgets
    from functions.shared.stores.cost_sums import CostSums
    from functions.shared.stores.instances import Instances


@dataclass(frozen=True)
class WatchBudgets:
    budgets: Budgets
    cost_sums: CostSums
    instances: Instances
    steps: StepRunner
    policy: Policy
    clock: Callable[[], datetime]
    budget: TimeBudget

    def __call__(self, fleet: Fleet, *, summed: bool) -> None:
        """Never worth a failure of the sweep itself: the next one looks again. While nothing costs anything,
        only where this sweep has `summed` anew: what is booked last is in those sums."""
        try:
            if fleet or summed:
                self._watch(fleet)
        except TABLE_FAILED as error:
            logger.warning("budgets not judged", error=type(error).__name__)

    def _watch(self, fleet: Fleet) -> None:
        """Whenever the sums are new, which is every few minutes, or a budget is."""
        now = self.clock()
        known = self.budgets.all()
        if not known:
            self._judge(fleet, [], now)  # of those that were taken away
            return
        as_of = self.cost_sums.summed_at(now.date())
        if as_of is None or self.budgets.is_judged(as_of):
            return
        passed = [budget for budget in known if self._is_passed(budget, now)]
        if passed:
            measure(BUDGETS_PASSED, len(passed))
        if self._judge(fleet, [one for one in passed if one.action is BudgetAction.STOP], now):
            self.budgets.judged(as_of)

    def _is_passed(self, budget: Budget, now: datetime) -> bool:
        """In the present period, which comes last; what was reached before it is told as well."""
        spent = Decimal()
        for period in budget.judged_periods(now):
            spent = self.budgets.spent(budget, period)
            news = self.budgets.tell(budget, period, spent)
            if news and period.ends_at <= now and budget.passed(spent):
                measure(BUDGETS_PASSED)
        return budget.passed(spent)

    def _judge(self, fleet: Fleet, stopping: list[Budget], now: datetime) -> bool:
        """Whether all were looked at; what has a step of its own under way is looked at next time."""
        ends = {budget: budget.period_at(now).ends_at for budget in stopping}

        def over(key: str, tags: Tags) -> list[datetime]:
            return [ends[budget] for budget in stopping if budget.covers(key, tags)]

        def differs(known: FleetSummary) -> bool:
            return bool(over(known.key, known.tags)) != known.budget_stop

        for record in self.instances.each_whole(one.id for one in fleet if differs(one.read())):
            if not self.budget.may_repair():
                return False
            if left_to_its_step(record, now):
                continue
            judged = BudgetsJudged(max(over(record.actor, record.spec.tags), default=None))
            decision = leave_to_its_step(record, decide(record, judged, self.clock(), self.policy))
            if decision.record.clock != record.clock:
                with correlated(record.correlation_id, instance_id=record.id):
                    self.steps.store(decision)
        return True
