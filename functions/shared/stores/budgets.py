"""Budgets as they were set, what is spent of them, and which of their thresholds were told."""

import json
import zlib
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal

from functions.shared.domain.errors import NotFound
from functions.shared.domain.ids import timestamp
from functions.shared.domain.instance.record import Instance
from functions.shared.domain.money.budgets import Budget, BudgetAction, Period, read_budget
from functions.shared.domain.money.caps import committed
from functions.shared.domain.money.sums import Sum
from functions.shared.platform.observability import logger
from functions.shared.stores.cost_sums import CostSums
from functions.shared.stores.table import (
    NEW,
    RETENTION,
    ConditionFailed,
    Item,
    Table,
    Write,
    millis,
    moment,
    readable,
)

_SET = "budget#set"  # all of them, as an admin set them: only `api` may write there
_JUDGED = ("budgets", "judged")
_TOLD_KEPT = timedelta(days=400)


class Budgets:
    def __init__(
        self, table: Table, cost_sums: CostSums, clock: Callable[[], datetime], new_id: Callable[[], str]
    ) -> None:
        self._table = table
        self._cost_sums = cost_sums
        self._clock = clock
        self._new_id = new_id

    def all(self) -> list[Budget]:
        """In the order of their names. One that cannot be read must not hide the others."""
        found = self._table.query_all("pk = :pk", {":pk": _SET})
        return list(readable(_read, found))

    def get(self, name: str) -> Budget:
        item = self._table.get(_SET, name)
        if item is None:
            raise NotFound("BUDGET_NOT_FOUND", "There is no budget of that name")
        return _read(item)

    def put(self, budget: Budget, actor: str) -> None:
        item = {
            "pk": _SET,
            "sk": budget.name,
            "kind": "budget",
            "budget": budget.as_json(),
            "actor": actor,
            "setAt": millis(self._clock()),
        }
        self._table.put(Write(item))
        self._table.delete(*_JUDGED)  # the next sweep looks at it

    def delete(self, name: str) -> None:
        self.get(name)
        self._table.delete(_SET, name)
        self._table.delete(*_JUDGED)

    def spent(self, budget: Budget, period: Period) -> Decimal:
        """By the daily sums; open intervals are in them."""
        today = self._clock().date()
        days = [day for day in period.days if day <= today]
        return sum(self._cost_sums.group(days, *budget.summed_as).values(), Sum()).usd

    def require_room(self, record: Instance) -> None:
        """SpendingRefused where a budget does not allow what it is about to begin."""
        now = self._clock()
        for budget in self.all():
            if budget.action is not BudgetAction.NOTIFY and budget.covers(record.actor, record.spec.tags):
                budget.require_room(self.spent(budget, budget.period_at(now)), committed(record).hourly, now)

    def is_judged(self, as_of: datetime | None) -> bool:
        """Whether a sweep has looked at all of them by sums that are as new."""
        item = self._table.get(*_JUDGED)
        return item is not None and as_of is not None and item["asOf"] >= millis(as_of)

    def judged(self, as_of: datetime) -> None:
        item = {"pk": _JUDGED[0], "sk": _JUDGED[1], "kind": "judged", "asOf": millis(as_of)}
        self._table.put(Write(item))

    def tell(self, budget: Budget, period: Period, spent: Decimal) -> bool:
        """Each threshold once in a period, whoever sees it first; under another limit, or of another scope,
        it is another one. Whether there was one to tell."""
        news = False
        for threshold in budget.reached(spent):
            told, event = self._told(budget, period, threshold, spent)
            if self._table.get(told["pk"], told["sk"]):
                continue
            try:
                self._table.transact([Write(told, NEW), Write(event, NEW)])
            except ConditionFailed:
                continue  # by another sweep
            logger.warning("budget threshold reached", budget=budget.name, threshold=threshold)
            news = True
        return news

    def _told(self, budget: Budget, period: Period, threshold: int, spent: Decimal) -> tuple[Item, Item]:
        now, limit = self._clock(), budget.limit.normalize()  # 100 and 100.00 are the same one
        scope = f"{zlib.crc32(json.dumps(budget.scope, sort_keys=True).encode()):08x}"
        which = f"{period.begin.isoformat()}#{budget.period}#{scope}#{limit:f}#{threshold:04d}"
        pk = f"budgets#{budget.name}"
        told = {
            "pk": pk,
            "sk": f"told#{which}",
            "kind": "told",
            "expiresAt": int((now + _TOLD_KEPT).timestamp()),
        }
        data = budget.as_json() | {
            "threshold": threshold,
            "spentUsd": f"{spent:.4f}",
            "periodStart": timestamp(period.begins_at),
        }
        event = {
            "pk": pk,
            "sk": f"event#{which}",
            "kind": "event",
            "id": self._new_id(),
            "type": "budget.threshold",
            "timestamp": timestamp(now),
            "data": data,
            "due": "event",
            "dueAt": millis(now),
            "expiresAt": int((now + RETENTION).timestamp()),
        }
        return told, event


def _read(item: Item) -> Budget:
    """One that was stored before it had a time was set long ago."""
    budget = read_budget(item["budget"])
    return replace(budget, set_at=moment(item["setAt"])) if "setAt" in item else budget
