"""Sums of each day's costs: written whole by the sweep, read by days and groups.

The sums of one day and dimension are items of some hundred groups each, in the order of the groups. The first
says where the others begin, so that a page of groups takes at most two reads for each day.
"""

import json
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal
from hashlib import sha256
from typing import Any

from functions.shared.domain.money.sums import ALL, UNTAGGED, Cost, DaySums, Sum
from functions.shared.stores.ledger import ENTRY, LATE_DAYS, day_key, expires
from functions.shared.stores.table import ConditionFailed, Item, Table, Write, millis, moment

_GROUPS = 400  # in one item
_SUM = "sum#"
_TAG = "tag:"
# Sweeps may overlap: what a later one has summed stays.
_EARLIER = "attribute_not_exists(pk) OR asOf <= :asOf"


@dataclass(frozen=True)
class GroupSums:
    """Of one day: groups in their order, and whether there are more behind them."""

    groups: dict[str, Sum]
    more: bool = False
    usd: Decimal | None = None  # all groups of the day together; None: what is in none is a group of them

    def with_untagged(self, whole: Sum) -> "GroupSums":
        """The rest of the day is the group without a name. It is not stored, or each tag of the day would be
        written anew whenever anything else costs something."""
        rest = Decimal() if self.usd is None else whole.usd - self.usd
        if rest <= 0:
            return self
        known = self.groups.get(UNTAGGED, Sum())
        return replace(self, groups={**self.groups, UNTAGGED: known + Sum(rest, whole.estimated)})


class CostSums:
    def __init__(self, table: Table) -> None:
        self._table = table

    def booked(self, day: date) -> Iterator[Cost]:
        """Everything that fell on the day, under what it counted as then."""
        found = self._table.query_each(
            "pk = :pk AND begins_with(sk, :sk)", {":pk": day_key(day), ":sk": ENTRY}
        )
        return map(_read_cost, found)

    def late_days(self) -> dict[date, datetime]:
        """Days that were over for long when something was booked there, and when that was."""
        found: dict[date, datetime] = {}
        for item in self._table.query_all("pk = :pk", {":pk": LATE_DAYS}):
            day = date.fromisoformat(item["sk"].partition("#")[0])
            at = moment(item["bookedAt"])
            found[day] = max(at, found.get(day, at))
        return found

    def summed_at(self, day: date) -> datetime | None:
        item = self._table.get(day_key(day), _sum_key(ALL, 0))
        return moment(item["asOf"]) if item else None

    def write(self, day: date, sums: DaySums, as_of: datetime, *, stamp: bool = True) -> None:
        """Only what has changed; and, to `stamp` them, the sum of all, which says how new they are: so it
        comes last, and whoever dies before that has left the rest to the next sweep."""
        stored, dimensions = dict[str, bytes](), set[str]()
        keys = {":pk": day_key(day), ":sk": _SUM}
        for item in self._table.query_each("pk = :pk AND begins_with(sk, :sk)", keys):
            # Not the sums themselves: of 100,000 instances they are tens of megabytes.
            stored[item["sk"]] = _fingerprint(item)
            dimensions.add(item["dimension"])
        gone = dimensions - {ALL, *sums.groups}
        for dimension in (*gone, *(one for one in sums.groups if one != ALL), ALL):
            groups = sums.groups.get(dimension, {})
            for item in reversed(_items(day, dimension, groups, as_of)):  # the first one last: it leads
                same = stored.get(item["sk"]) == _fingerprint(item)
                if not same or (stamp and dimension == ALL):
                    self._put(item)

    def _put(self, item: Item) -> None:
        try:
            self._table.put(Write(item, _EARLIER, {":asOf": item["asOf"]}))
        except ConditionFailed:
            return

    def totals(self, days: Sequence[date]) -> tuple[dict[date, Sum], datetime | None]:
        """Of everything, and when the newest of them was summed."""
        found = self._table.get_all((day_key(day), _sum_key(ALL, 0)) for day in days)
        items = {_day(item): item for item in found}
        newest = max((item["asOf"] for item in items.values()), default=None)
        sums = {day: _read_groups(item).get(ALL, Sum()) for day, item in items.items()}
        return sums, moment(newest) if newest is not None else None

    def group(self, days: Sequence[date], dimension: str, group: str) -> dict[date, Sum]:
        """Of one group, on the days on which it has any."""
        first = {
            _day(item): item
            for item in self._table.get_all((day_key(day), _sum_key(dimension, 0)) for day in days)
        }
        numbers = {
            day: number
            for day, item in first.items()
            if (number := bisect_right(item.get("begins", []), group) - 1) >= 0
        }
        others = ((day_key(day), _sum_key(dimension, number)) for day, number in numbers.items() if number)
        found = {
            **{day: first[day] for day in numbers},
            **{_day(one): one for one in self._table.get_all(others)},
        }
        sums = {day: _read_groups(item).get(group) for day, item in found.items()}
        return {day: one for day, one in sums.items() if one is not None}

    def page(
        self, days: Sequence[date], dimension: str, after: str | None, limit: int
    ) -> dict[date, GroupSums]:
        """Of each day the groups behind `after`, at least as many as the limit where there are so many."""
        first = {
            _day(item): item
            for item in self._table.get_all((day_key(day), _sum_key(dimension, 0)) for day in days)
        }
        wanted = {
            day: numbers
            for day, item in first.items()
            if (numbers := _numbers(item.get("begins", []), after, limit))
        }
        keys = ((day_key(day), _sum_key(dimension, number)) for day in wanted for number in wanted[day])
        others: dict[date, list[Item]] = {day: [] for day in wanted}
        for item in self._table.get_all(keys):
            others[_day(item)].append(item)
        return {day: _behind(first[day], others[day], after, limit) for day in wanted}


def _numbers(begins: list[str], after: str | None, limit: int) -> list[int]:
    """The items that have the groups behind `after`."""
    start = max(0, bisect_right(begins, after) - 1) if after is not None else 0
    return list(range(start, min(len(begins), start + 2 + limit // _GROUPS)))


def _behind(first: Item, others: list[Item], after: str | None, limit: int) -> GroupSums:
    groups: dict[str, Sum] = {}
    for item in sorted(others, key=lambda one: str(one["sk"])):
        groups |= _read_groups(item)
    behind = [key for key in groups if after is None or key > after]
    last_begin = first.get("begins", [""])[-1]
    more = len(behind) > limit or (bool(groups) and last_begin > max(groups))
    usd = Decimal(first["usd"]) if "usd" in first else None
    return GroupSums({key: groups[key] for key in behind}, more, usd)


def _items(day: date, dimension: str, groups: dict[str, Sum], as_of: datetime) -> list[Item]:
    ordered = sorted(groups)
    parts = [ordered[start : start + _GROUPS] for start in range(0, len(ordered), _GROUPS)] or [[]]
    items: list[Item] = [
        {
            "pk": day_key(day),
            "sk": _sum_key(dimension, number),
            "kind": "costSum",
            "dimension": dimension,
            "asOf": millis(as_of),
            "groups": [[key, str(groups[key].usd), groups[key].estimated] for key in part],
            "expiresAt": expires(day),
        }
        for number, part in enumerate(parts)
    ]
    items[0]["begins"] = [part[0] for part in parts if part]
    if dimension.startswith(_TAG):
        items[0]["usd"] = str(sum((one.usd for one in groups.values()), Decimal()))
    return items


def _fingerprint(item: Item) -> bytes:
    return sha256(json.dumps([item.get("groups"), item.get("begins")]).encode()).digest()


def _sum_key(dimension: str, number: int) -> str:
    return f"{_SUM}{dimension}#{number:04d}"


def _day(item: Item) -> date:
    return date.fromisoformat(item["pk"].partition("#")[2])


def _read_groups(item: Item) -> dict[str, Sum]:
    return {key: Sum(Decimal(usd), bool(estimated)) for key, usd, estimated in item.get("groups", [])}


def _read_cost(item: Item) -> Cost:
    _, instance_id, number = item["sk"].split("#")
    tags: dict[str, Any] = item.get("tags", {})
    return Cost(
        Decimal(item["usd"]),
        instance_id,
        item.get("product", ""),
        item.get("region", ""),
        item.get("key", ""),
        tuple(tags.items()),
        bool(item.get("estimated")),
        int(number),
    )
