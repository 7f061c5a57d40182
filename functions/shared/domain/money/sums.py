"""What a day has cost, by everything that costs are grouped by."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal

from functions.shared.domain.instance.fleet import FleetEntry, FleetSummary
from functions.shared.domain.money.ledger import Span, amount

ALL = "all"
UNTAGGED = ""
DIMENSIONS = ("instance", "product", "region", "key")


@dataclass(frozen=True)
class Cost:
    """A part of what a day has cost, and what it is counted under."""

    usd: Decimal
    instance_id: str
    product: str = ""
    region: str = ""
    key: str = ""
    tags: tuple[tuple[str, str], ...] = ()
    estimated: bool = False
    number: int | None = None  # of the entry that it was booked by; None: it is not booked yet


@dataclass(frozen=True)
class Sum:
    usd: Decimal = Decimal()
    estimated: bool = False

    def __add__(self, other: "Sum") -> "Sum":
        return Sum(self.usd + other.usd, self.estimated or other.estimated)


@dataclass
class DaySums:
    """By dimension and group. `tag:<name>` is a dimension for each tag of the day; what has no such tag is
    the rest of the whole, and in none of its groups."""

    groups: defaultdict[str, dict[str, Sum]] = field(default_factory=lambda: defaultdict(dict))

    def add(self, cost: Cost) -> None:
        labels = {
            ALL: ALL,
            "instance": cost.instance_id,
            "product": cost.product,
            "region": cost.region,
            "key": cost.key,
            **{f"tag:{name}": value for name, value in cost.tags},
        }
        for dimension, group in labels.items():
            known = self.groups[dimension].get(group, Sum())
            self.groups[dimension][group] = known + Sum(cost.usd, cost.estimated)


def whole_day(day: date) -> Span:
    begin = datetime.combine(day, time(), UTC)
    return Span(begin, begin + timedelta(days=1))


def sum_day(day: date, booked: Iterable[Cost], fleet: Mapping[str, FleetEntry], now: datetime) -> DaySums:
    """What is booked, and what is not yet, by the fleet as it was read. The fleet is read first: an entry
    that its record did not count then is that record's to tell, so that nothing counts twice."""
    sums = DaySums()
    for cost in booked:
        known = fleet.get(cost.instance_id)
        if known is None or cost.number is None or cost.number < known.read().booked:
            sums.add(cost)
    for entry in fleet.values():
        for cost in open_costs(entry.id, entry.read(), day, now):
            sums.add(cost)
    return sums


def open_costs(instance_id: str, known: FleetSummary, day: date, now: datetime) -> Iterator[Cost]:
    """What its open intervals have cost on that day, as far as that is not booked."""
    for one in known.open:
        if one.begin >= now:
            continue
        part = Span(one.begin, now).within(whole_day(day))
        if part.begin < part.end:
            usd = amount(one.usd_per_hour, part)
            yield Cost(usd, instance_id, known.product, one.region, known.key, known.tags, one.unsure)


def has_days_to_book(known: FleetSummary, midnight: datetime) -> bool:
    """An interval of it began on a day that is over, and is not booked there yet."""
    return any(one.begin < midnight for one in known.open)
