"""What the last sweep found, in one item: for the status, and for when Novita last showed a machine."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from functions.shared.domain.errors import Fault
from functions.shared.domain.instance.comparison import ComparisonReport
from functions.shared.domain.instance.record import Instance
from functions.shared.domain.instance.status import Status
from functions.shared.platform.observability import logger
from functions.shared.stores.table import (
    TABLE_FAILED,
    UNREADABLE,
    ConditionFailed,
    Item,
    Table,
    Write,
    millis,
    moment,
)

_KEY = ("sweep#last", "sweep")
_MOST_ABSENT = 300  # so that the item stays small; a list that lacks more of them is hardly ours
_HELD = timedelta(seconds=5)  # by a process, for those who only want to show it
# Sweeps may overlap: what a later one has found stays.
_EARLIER = "attribute_not_exists(pk) OR sweptAt <= :sweptAt"


@dataclass(frozen=True)
class SweepFindings:
    swept_at: datetime
    complete: bool
    machines: int
    missing: int
    stuck: int
    deletions_held: int
    fault: Fault | None = None  # why Novita's list could not be read
    compared_at: datetime | None = None  # the last time that it could
    orphans: int | None = None  # as of then
    listed_at: datetime | None = None  # that list showed all machines of ours but these
    # Machines of ours that the list lacked, and when one last had them; 0 where none ever did.
    absent: Mapping[str, int] = field(default_factory=dict)

    def shown_at(self, machine_id: str) -> datetime | None:
        """When a complete list last showed it."""
        if machine_id not in self.absent:
            return self.listed_at
        return moment(self.absent[machine_id]) if self.absent[machine_id] else None

    def shown(self, record: Instance) -> Instance:
        """The record to be shown, with the last time that Novita showed its machine to anybody here. One that
        is newer than the list was seen later than that, when it was bought or imported."""
        machine_id, known = record.live_machine_id, record.machine.seen_at
        at = self.shown_at(machine_id) if machine_id and record.status is not Status.TERMINATED else None
        if at is None or known is None or at <= known:
            return record
        return replace(record, machine=replace(record.machine, seen_at=at))


class LastSweep:
    def __init__(self, table: Table, clock: Callable[[], datetime]) -> None:
        self._table = table
        self._clock = clock
        self._held: tuple[datetime, SweepFindings | None] | None = None

    def read(self) -> SweepFindings | None:
        """None before the first sweep, or where another version has left what this one cannot read."""
        item = self._table.get(*_KEY)
        try:
            found = _read(item) if item else None
        except UNREADABLE:
            logger.exception("item not read", key=_KEY[0])
            found = None
        self._held = (self._clock(), found)
        return found

    def orphans(self) -> int:
        """As of the last list that could be read: that Novita tells nothing does not prove them gone."""
        found = self._lately()
        return (found.orphans or 0) if found else 0

    def last_shown(self, record: Instance, fresh_for: float) -> Instance:
        """The record to be shown; the table is only asked where what is known of the machine is old."""
        seen_at = record.machine.seen_at
        if not record.live_machine_id or seen_at is None:
            return record
        if (self._clock() - seen_at).total_seconds() < fresh_for:
            return record
        found = self._lately()
        return found.shown(record) if found else record

    def note(self, report: ComparisonReport, began: datetime) -> None:
        """Never worth a failure of the sweep itself."""
        try:
            self._put(_after(self.read(), report, began))
        except ConditionFailed:
            return  # another sweep has begun later and was quicker
        except TABLE_FAILED as error:
            logger.warning("findings of the sweep not stored", error=type(error).__name__)

    def _put(self, found: SweepFindings) -> None:
        item = _item(found)
        self._table.put(Write(item, _EARLIER, {":sweptAt": item["sweptAt"]}))
        self._held = (self._clock(), found)

    def _lately(self) -> SweepFindings | None:
        if self._held and self._clock() - self._held[0] < _HELD:
            return self._held[1]
        try:
            return self.read()
        except TABLE_FAILED as error:
            logger.warning("findings of the sweep not read", error=type(error).__name__)
            return None


def _after(before: SweepFindings | None, report: ComparisonReport, began: datetime) -> SweepFindings:
    found = SweepFindings(
        swept_at=began,
        complete=report.complete,
        machines=report.known,
        missing=report.missing,
        stuck=report.stuck,
        deletions_held=report.deletions_held,
        fault=report.fault,
    )
    if before:
        found = replace(
            found,
            compared_at=before.compared_at,
            orphans=before.orphans,
            listed_at=before.listed_at,
            absent=before.absent,
        )
    if report.fault:
        return found
    found = replace(found, compared_at=began)
    if report.orphans is not None:
        found = replace(found, orphans=report.orphans)
    if report.listed_at is None or len(report.absent) > _MOST_ABSENT:
        return found
    return _listed(found, report, report.listed_at)


def _listed(found: SweepFindings, report: ComparisonReport, listed_at: datetime) -> SweepFindings:
    """What the list lacks now was shown when it was last listed, however long that is ago."""
    shown = {machine_id: found.shown_at(machine_id) for machine_id in report.absent}
    absent = {machine_id: millis(at) if at else 0 for machine_id, at in shown.items()}
    return replace(found, listed_at=listed_at, absent=absent)


def _item(found: SweepFindings) -> Item:
    fault = found.fault and {"code": found.fault.code, "message": found.fault.message}
    return {
        "pk": _KEY[0],
        "sk": _KEY[1],
        "kind": "sweep",
        "sweptAt": millis(found.swept_at),
        "complete": found.complete,
        "machines": found.machines,
        "missing": found.missing,
        "stuck": found.stuck,
        "deletionsHeld": found.deletions_held,
        "fault": fault,
        "comparedAt": found.compared_at and millis(found.compared_at),
        "orphans": found.orphans,
        "listedAt": found.listed_at and millis(found.listed_at),
        "absent": dict(found.absent),
    }


def _read(item: Item) -> SweepFindings:
    return SweepFindings(
        swept_at=moment(item["sweptAt"]),
        complete=item["complete"],
        machines=item["machines"],
        missing=item["missing"],
        stuck=item["stuck"],
        deletions_held=item["deletionsHeld"],
        fault=Fault(**item["fault"]) if "fault" in item else None,
        compared_at=_time(item.get("comparedAt")),
        orphans=item.get("orphans"),
        listed_at=_time(item.get("listedAt")),
        absent=item["absent"],
    )


def _time(at: Any) -> datetime | None:
    return moment(at) if at is not None else None
