"""What instances cost: one of them by its intervals, all of them by days and groups."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from functions.api.use_cases.read_instances import find_instance
from functions.api.views import usd, usd_per_hour
from functions.shared.domain.errors import FieldError, ValidationFailed
from functions.shared.domain.ids import timestamp
from functions.shared.domain.money.ledger import Line
from functions.shared.domain.money.sums import DIMENSIONS, Sum
from functions.shared.stores.cost_sums import GroupSums
from functions.shared.stores.ledger import KEPT

if TYPE_CHECKING:
    from functions.api.cursors import Cursors
    from functions.shared.stores.bills import Bills
    from functions.shared.stores.cost_sums import CostSums
    from functions.shared.stores.instances import Instances
    from functions.shared.stores.ledger import LedgerLines

_MOST_INTERVALS = 1000  # in one answer, the newest; the total has them all


@dataclass(frozen=True)
class ReadCosts:
    instances: Instances
    ledger_lines: LedgerLines
    bills: Bills
    cost_sums: CostSums
    cursors: Cursors
    clock: Callable[[], datetime]

    def one(self, instance_id: str) -> dict[str, Any]:
        record, now = find_instance(self.instances, instance_id), self.clock()
        ledger = record.ledger
        closed = [_interval(line, line.end) for line in self.ledger_lines.of(instance_id)]
        still_open = [_interval(line, None) for line in ledger.open_lines(now)]
        missing = record.missing and bool(still_open)
        return {
            "instanceId": instance_id,
            "asOf": timestamp(now),
            "totalUsd": usd(ledger.usd(now)),
            "perHourUsd": usd_per_hour(ledger.usd_per_hour),
            "intervals": [*closed, *still_open][-_MOST_INTERVALS:],
            **({"estimated": True} if ledger.unsure or missing else {}),
            **self._billed(instance_id),
        }

    def _billed(self, instance_id: str) -> dict[str, Any]:
        """Novita's own bill, as far as it was read: days that are over, beside what we count for them."""
        bills, read_at = self.bills.of(instance_id)
        if not bills or read_at is None:
            return {}
        view: dict[str, Any] = {
            "totalUsd": usd(sum((one.usd for one in bills), Decimal())),
            "oursUsd": usd(sum((one.ours for one in bills), Decimal())),
            "from": timestamp(min(one.begin for one in bills)),
            "through": timestamp(max(one.end for one in bills)),
            "asOf": timestamp(read_at),
        }
        if any(one.differs for one in bills):
            view["differs"] = True
        return {"billed": view}

    def all(
        self, since: date | None, until: date | None, group_by: str, *, limit: int, cursor: str | None
    ) -> dict[str, Any]:
        today = self.clock().date()
        until = until or max(today, since or today)
        since = since or until.replace(day=1)
        days = _checked(since, until, group_by)
        totals, as_of = self.cost_sums.totals(days)
        whole = sum(totals.values(), Sum())
        listing = f"costs {days[0]} {days[-1]} {group_by}"
        after = self.cursors.read(cursor, listing) if cursor else None  # days are all in one answer
        if group_by == "day":
            groups = [_group(day.isoformat(), {day: totals[day]}) for day in sorted(totals)]
            following = None
        else:
            groups, end = self._page(totals, days, group_by, limit, after)
            following = None if end is None else self.cursors.make(end, listing)
        return {
            "from": since.isoformat(),
            "to": until.isoformat(),
            "groupBy": group_by,
            "asOf": timestamp(as_of or self.clock()),
            "totalUsd": usd(whole.usd),
            "groups": groups,
            **({"estimated": True} if whole.estimated else {}),
            **({"nextCursor": following} if following else {}),
        }

    def _page(
        self, totals: dict[date, Sum], days: list[date], group_by: str, limit: int, after: str | None
    ) -> tuple[list[dict[str, Any]], str | None]:
        """In the order of their names, and the one to go on behind; first what has no such tag, as on days
        when nothing had it."""
        found = self.cost_sums.page(days, group_by, after, limit)
        if after is None and group_by not in DIMENSIONS:
            nothing = GroupSums({}, usd=Decimal())
            found |= {day: found.get(day, nothing).with_untagged(whole) for day, whole in totals.items()}
        names = sorted({name for one in found.values() for name in one.groups})
        shown = names[:limit]
        more = len(names) > len(shown) or any(one.more for one in found.values())
        groups = [
            _group(name, {day: one.groups[name] for day, one in found.items() if name in one.groups})
            for name in shown
        ]
        return groups, shown[-1] if more and shown else None


def _checked(since: date, until: date, group_by: str) -> list[date]:
    problems = []
    if since > until:
        problems.append(FieldError("from", "INVALID_FROM", "Must not be later than `to`"))
    elif until - since >= KEPT:
        problems.append(FieldError("from", "INVALID_FROM", f"At most {KEPT.days} days before `to`"))
    if group_by not in ("day", *DIMENSIONS) and not re.fullmatch("tag:.+", group_by):
        words = ", ".join(("day", *DIMENSIONS))
        problems.append(FieldError("groupBy", "INVALID_GROUP_BY", f"Must be {words} or tag:<name>"))
    if problems:
        raise ValidationFailed(problems)
    return [since + timedelta(days=number) for number in range((until - since).days + 1)]


def _interval(line: Line, end: datetime | None) -> dict[str, Any]:
    view: dict[str, Any] = {
        "novitaInstanceId": line.machine_id,
        "kind": line.kind.value,
        "from": timestamp(line.begin),
        "to": timestamp(end) if end else None,
        "usdPerHour": usd_per_hour(line.usd_per_hour) if line.usd_per_hour is not None else None,
        "amountUsd": usd(line.usd),
        "estimated": line.estimated or None,
        "productId": line.product_id or None,
        "region": line.region or None,
    }
    return {name: value for name, value in view.items() if value is not None}


def _group(name: str, by_day: dict[date, Sum]) -> dict[str, Any]:
    whole = sum(by_day.values(), Sum())
    return {
        "key": name,
        "amountUsd": usd(whole.usd),
        "days": list(_days(by_day.items())),
        **({"estimated": True} if whole.estimated else {}),
    }


def _days(by_day: Iterable[tuple[date, Sum]]) -> Iterable[dict[str, str]]:
    return ({"date": day.isoformat(), "amountUsd": usd(one.usd)} for day, one in sorted(by_day))
