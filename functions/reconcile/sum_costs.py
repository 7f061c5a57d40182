"""What the days have cost, from their entries and from what is open: summed anew every few minutes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING

from functions.shared.domain.instance.decision import Decision, Policy
from functions.shared.domain.instance.fleet import Fleet
from functions.shared.domain.money.ledger import midnight
from functions.shared.domain.money.sums import has_days_to_book, sum_day
from functions.shared.platform.observability import logger
from functions.shared.stores.table import TABLE_FAILED

if TYPE_CHECKING:
    from functions.shared.engine.step import StepRunner
    from functions.shared.platform.invocation import TimeBudget
    from functions.shared.stores.cost_sums import CostSums
    from functions.shared.stores.instances import Instances

_SUMMED_FOR = timedelta(minutes=4)  # with a sweep a minute, none is older than five
_NEXT_SWEEP = timedelta(seconds=90)
_DAY = timedelta(days=1)


@dataclass(frozen=True)
class SumCosts:
    cost_sums: CostSums
    instances: Instances
    steps: StepRunner
    policy: Policy
    clock: Callable[[], datetime]
    budget: TimeBudget
    sweep_at_once: int

    def __call__(self, fleet: Fleet) -> bool:
        """Whether today's sums are new. Never worth a failure of the sweep itself: the next one sums anew."""
        summed = False
        try:
            summed = self._sum(fleet)
            self._book_days(fleet)
        except TABLE_FAILED as error:
            logger.warning("costs not summed", error=type(error).__name__)
        return summed

    def _book_days(self, fleet: Fleet) -> None:
        """Days that are over, of what is at rest; what is on the move books them with its next step."""
        now = self.clock()
        open_since = midnight(now)
        unbooked = (one.id for one in fleet if has_days_to_book(one.read(), open_since))
        for record in self.instances.each_whole(unbooked):
            if not self.budget.may_repair():  # the next sweep goes on; what is open counts without it
                return
            if record.at_rest:
                self.steps.store(Decision(record, now, self.policy, now))

    def _sum(self, fleet: Fleet) -> bool:
        now = self.clock()
        known = {one.id: one for one in fleet}
        days = self._days(now, large=len(fleet) > self.sweep_at_once)
        for day in days:
            if not self.budget.may_repair():
                return False
            sums = sum_day(day, self.cost_sums.booked(day), known, self.clock())
            self.cost_sums.write(day, sums, now, stamp=day != now.date() - _DAY)
        return now.date() in days

    def _days(self, now: datetime, *, large: bool) -> list[date]:
        """Today's last: it says that all is done. Of a large fleet the day before is left to the next sweep:
        both together take too long."""
        today = now.date()
        summed_at = self.cost_sums.summed_at(today)
        if summed_at is None or now - summed_at >= _SUMMED_FOR:
            return [*self._late_days(today), *([] if large else [today - _DAY]), today]
        return [today - _DAY] if large and now - summed_at < _NEXT_SWEEP else []

    def _late_days(self, today: date) -> list[date]:
        """Where something was booked when they had been over for long."""
        late = self.cost_sums.late_days()
        return [
            day
            for day, booked_at in late.items()
            if day < today - _DAY and (self.cost_sums.summed_at(day) or booked_at) <= booked_at + _SUMMED_FOR
        ]
