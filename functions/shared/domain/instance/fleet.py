"""What a sweep has to know of each instance that has or may have a machine, without reading its record.

An index carries it as text, which is read where it is needed: a sweep holds 100,000 of them.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from functions.shared.domain.instance.record import Instance
from functions.shared.domain.money.caps import NOTHING, Commitment, committed
from functions.shared.domain.money.ledger import LineKind, Tags


@dataclass(frozen=True, slots=True)
class OpenInterval:
    """In which a machine is billed, from where it is not booked on its days yet."""

    begin: datetime
    usd_per_hour: Decimal | None = None  # None: nobody knows
    region: str = ""
    unsure: bool = False


@dataclass(frozen=True, slots=True)
class FleetSummary:
    machine_id: str | None = None
    missing: bool = False
    stuck: bool = False
    product: str = ""
    key: str = ""  # whose it is
    tags: Tags = ()
    open: tuple[OpenInterval, ...] = ()
    booked: int = 0  # entries of days that are stored
    budget_stop: bool = False  # a budget has set a time to stop it
    commits: Commitment = NOTHING
    capped: bool = False  # it counts for the caps of its key

    @property
    def usd_per_hour(self) -> Decimal:
        return sum((one.usd_per_hour or Decimal() for one in self.open), Decimal())


@dataclass(frozen=True, slots=True)
class FleetEntry:
    id: str
    summary: str

    def read(self) -> FleetSummary:
        return read_summary(self.summary)


Fleet = Sequence[FleetEntry]


def fleet_summary(record: Instance) -> str:
    """Without what is as it mostly is. Money changes with what is booked; looks change nothing here."""
    counted = committed(record)
    facts: dict[str, Any] = {
        "machine": record.live_machine_id,
        "missing": record.missing,
        "stuck": record.stuck,
        "product": record.spec.product_name,
        "key": record.actor,
        "tags": record.spec.tags,
        "open": [_interval_to_json(one) for one in _open(record)],
        "booked": record.ledger.entries,
        "budgetStop": record.clock.budget_stop_at is not None,
        "commits": [counted.instances, counted.hourly] if counted != NOTHING else None,
        "capped": record.capped,
    }
    return json.dumps({name: value for name, value in facts.items() if value}, separators=(",", ":"))


def read_summary(text: str) -> FleetSummary:
    facts = json.loads(text)
    return FleetSummary(
        machine_id=facts.get("machine"),
        missing=facts.get("missing", False),
        stuck=facts.get("stuck", False),
        product=facts.get("product", ""),
        key=facts.get("key", ""),
        tags=tuple((name, value) for name, value in facts.get("tags", ())),
        open=tuple(map(_interval_from_json, facts.get("open", ()))),
        booked=facts.get("booked", 0),
        budget_stop=facts.get("budgetStop", False),
        commits=Commitment(*facts["commits"]) if "commits" in facts else NOTHING,
        capped=facts.get("capped", False),
    )


def _open(record: Instance) -> Iterator[OpenInterval]:
    """One that Novita has not shown to be billed moves with each look, and costs nothing yet; of what is
    missing no look tells more."""
    for meter in record.ledger.meters:
        sure = meter.confirmed or record.missing or meter.kind is LineKind.STORAGE
        if meter.since is not None and sure:
            begin, unsure = meter.booked_until or meter.since, meter.unsure or record.missing
            yield OpenInterval(begin, meter.rate, meter.region, unsure)


def _interval_to_json(one: OpenInterval) -> list[Any]:
    """To the microsecond: what is booked later goes on from there."""
    rate = None if one.usd_per_hour is None else str(one.usd_per_hour)
    return [_micros(one.begin), rate, one.region, int(one.unsure)]


def _interval_from_json(stored: list[Any]) -> OpenInterval:
    micros, rate, region, unsure = stored
    begin = datetime.fromtimestamp(micros // 1_000_000, UTC).replace(microsecond=micros % 1_000_000)
    return OpenInterval(begin, None if rate is None else Decimal(rate), region, bool(unsure))


def _micros(at: datetime) -> int:
    return int(at.replace(microsecond=0).timestamp()) * 1_000_000 + at.microsecond
