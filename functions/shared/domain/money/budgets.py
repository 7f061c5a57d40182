"""Budgets: what may be spent in a day or a month, by whom, and what follows when it is."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Any

from functions.shared.domain.errors import SpendingRefused
from functions.shared.domain.ids import timestamp
from functions.shared.domain.money.ledger import Tags
from functions.shared.domain.money.sums import ALL

_MICROS = 1_000_000
_STILL_JUDGED = timedelta(days=1)  # a period that is over: so long are its days summed anew


class BudgetAction(StrEnum):
    NOTIFY = "notify"
    REFUSE = "refuse"  # creates, starts and recoveries
    STOP = "stop"  # what runs, too


@dataclass(frozen=True)
class Period:
    """Days, in UTC: the first one, and the first that is not part of it."""

    begin: date
    end: date

    @property
    def days(self) -> list[date]:
        return [self.begin + timedelta(days=number) for number in range((self.end - self.begin).days)]

    @property
    def ends_at(self) -> datetime:
        return datetime.combine(self.end, time(), UTC)

    @property
    def begins_at(self) -> datetime:
        return datetime.combine(self.begin, time(), UTC)


@dataclass(frozen=True)
class Budget:
    name: str
    limit: Decimal  # USD
    period: str  # month or day
    action: BudgetAction = BudgetAction.NOTIFY
    thresholds: tuple[int, ...] = (50, 80, 100)  # percent
    owner: str | None = None  # only what the key of this id has made
    tag: tuple[str, str] | None = None  # only what has this tag
    set_at: datetime | None = None  # as it is now; None: long ago

    def period_at(self, now: datetime) -> Period:
        today = now.astimezone(UTC).date()
        if self.period == "day":
            return Period(today, today + timedelta(days=1))
        first = today.replace(day=1)
        return Period(first, (first + timedelta(days=32)).replace(day=1))

    def judged_periods(self, now: datetime) -> list[Period]:
        """The present one; for a day also the one before: its last minutes are summed when it is over, and
        some of its costs are booked late."""
        present, before = self.period_at(now), self.period_at(now - _STILL_JUDGED)
        over = before != present and (self.set_at is None or self.set_at < before.ends_at)
        return [before, present] if over else [present]

    @property
    def summed_as(self) -> tuple[str, str]:
        """The dimension of the daily sums, and the group in it."""
        if self.owner is not None:
            return "key", self.owner
        return (f"tag:{self.tag[0]}", self.tag[1]) if self.tag else (ALL, ALL)

    @property
    def scope(self) -> str | dict[str, Any]:
        if self.owner is not None:
            return {"key": self.owner}
        return {"tag": {"name": self.tag[0], "value": self.tag[1]}} if self.tag else "all"

    def covers(self, key: str, tags: Tags) -> bool:
        """What that key has made, with those tags."""
        if self.owner is not None:
            return key == self.owner
        return self.tag is None or self.tag in tags

    def reached(self, spent: Decimal) -> list[int]:
        return [one for one in self.thresholds if spent * 100 >= self.limit * one]

    def passed(self, spent: Decimal) -> bool:
        return spent >= self.limit

    def require_room(self, spent: Decimal, first_hour: int, now: datetime) -> None:
        """`first_hour`: of the newcomer, in millionths of a dollar."""
        needed = Decimal(first_hour) / _MICROS
        if self.action is BudgetAction.NOTIFY or spent + needed <= self.limit:
            return
        details: dict[str, Any] = {
            "budget": self.name,
            "limitUsd": f"{self.limit:.4f}",
            "spentUsd": f"{spent:.4f}",
            "neededUsd": f"{needed:.4f}",
            "periodEnd": timestamp(self.period_at(now).ends_at),
        }
        why = (
            f"${details['spentUsd']} of the ${details['limitUsd']} of the budget {self.name} are spent, and "
            f"the first hour needs ${details['neededUsd']}"
        )
        raise SpendingRefused("BUDGET_EXCEEDED", why, details=details)

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "limitUsd": f"{self.limit:f}",
            "period": self.period,
            "scope": self.scope,
            "thresholds": list(self.thresholds),
            "action": self.action.value,
        }


def read_budget(stored: Mapping[str, Any]) -> Budget:
    scope = stored["scope"]
    narrow: Mapping[str, Any] = {} if scope == "all" else scope
    tag = narrow.get("tag")
    return Budget(
        stored["name"],
        Decimal(stored["limitUsd"]),
        stored["period"],
        BudgetAction(stored["action"]),
        tuple(stored["thresholds"]),
        narrow.get("key"),
        (tag["name"], tag["value"]) if tag else None,
    )
