"""Novita's own bill, read once a day for each machine and held against what we count."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING

from functions.reconcile.turns import is_turn
from functions.shared.domain.errors import CallerError, NovitaForNow, NovitaRefused
from functions.shared.domain.instance.fleet import Fleet
from functions.shared.domain.instance.record import Instance
from functions.shared.domain.instance.status import Status
from functions.shared.domain.money.bills import Bill, BillsRead, counted, settled_days
from functions.shared.domain.money.ledger import Line, Span
from functions.shared.platform.observability import BILLS_DIFFER, correlated, logger, measure
from functions.shared.stores.bills import read_bills
from functions.shared.stores.table import TABLE_FAILED, UNREADABLE

if TYPE_CHECKING:
    from functions.shared.novita.client import Novita
    from functions.shared.platform.invocation import TimeBudget
    from functions.shared.stores.bills import Bills
    from functions.shared.stores.instances import Instances
    from functions.shared.stores.ledger import LedgerLines
    from functions.shared.stores.table import Due

_DAY = timedelta(days=1)
_ASK_AGAIN = timedelta(hours=1)  # after it could not be read
_IDLE = 10  # sweeps from one look to the next, while there is no machine: what has ended has time
_SHARE = 20  # of the calls in a minute, one in so many


@dataclass(frozen=True)
class ReadBills:
    due: Due
    bills: Bills
    instances: Instances
    ledger_lines: LedgerLines
    novita: Novita
    clock: Callable[[], datetime]
    budget: TimeBudget
    novita_rate_limit: int

    def __call__(self, fleet: Fleet) -> None:
        """Never worth a failure of the sweep itself: what was not read is due again."""
        if not fleet and not is_turn(self.clock(), _IDLE):
            return
        try:
            self._read_due()
        except TABLE_FAILED as error:
            logger.warning("bills not read", error=type(error).__name__)

    def _read_due(self) -> None:
        """The calls are what is counted: an instance may have had many machines."""
        now, left = self.clock(), max(1, self.novita_rate_limit // _SHARE)
        for overdue in self.due.overdue("bill", now, left):
            if left <= 0 or not self.budget.may_repair():
                return
            claimed = self.due.claim(overdue, now + _ASK_AGAIN)
            if claimed is None:
                continue
            try:
                record = self.instances.get(claimed["instanceId"])
            except UNREADABLE:
                logger.exception("item not read", key=claimed["pk"])
                continue
            if record is not None:
                with correlated(record.correlation_id, instance_id=record.id):
                    left -= self._read(record, read_bills(claimed), now, left)

    def _read(self, record: Instance, known: BillsRead, now: datetime, most: int) -> int:
        """How many calls it took. What is left over, or could not be read, is asked for later: of the others
        it is known that they were."""
        lines = [*self.ledger_lines.of(record.id), *record.ledger.open_lines(now)]
        lacking = list(_machines(record, lines, known, now))
        tried = lacking[:most]
        read = list(self._ask(tried))
        if tried and not read:
            return len(tried)
        found = [bill for one in read if (bill := _bill(lines, *one))]
        for bill in found:
            if bill.differs:
                self._tell(record, bill, now)
        known = known.add(found, {machine_id: span.end for machine_id, span, _ in read})
        next_at = self._next_at(record, now) if tried == lacking else now
        self.bills.keep(record.id, known, now, next_at if len(read) == len(tried) else now + _ASK_AGAIN)
        return len(tried)

    def _ask(self, machines: Iterable[tuple[str, Span]]) -> Iterator[tuple[str, Span, Decimal | None]]:
        """Without those that could not be read: one must not hide the others."""
        for machine_id, span in machines:
            try:
                within = self.budget.to_repair_after()
                yield machine_id, span, self.novita.bill(machine_id, span.begin, span.end, within=within)
            except (NovitaForNow, NovitaRefused, CallerError) as error:
                logger.info("bill not read", novita_id=machine_id, code=error.code)

    def _tell(self, record: Instance, bill: Bill, now: datetime) -> None:
        logger.warning("bill differs", novita_id=bill.machine_id, billed=str(bill.usd), ours=str(bill.ours))
        self.bills.tell(record.id, bill, now)
        measure(BILLS_DIFFER)

    def _next_at(self, record: Instance, now: datetime) -> datetime | None:
        """None after the last: its last day is settled."""
        ended = record.status is Status.TERMINATED and not record.cleanup.tasks
        return None if ended and now - record.updated_at > 2 * _DAY else now + _DAY


def _machines(
    record: Instance, lines: list[Line], known: BillsRead, now: datetime
) -> Iterator[tuple[str, Span]]:
    """Those whose bill is lacking, the newest first."""
    ended = dict(record.ledger.ended)
    for machine_id in dict.fromkeys(line.machine_id for line in reversed(lines)):
        ended_at = ended.get(machine_id)
        released_at = ended_at if machine_id in record.cleanup.released else None
        span = settled_days(lines, machine_id, now, imported=record.imported, released_at=released_at)
        if span and known.lacks(machine_id, span, ended_at, now):
            yield machine_id, span


def _bill(lines: list[Line], machine_id: str, span: Span, usd: Decimal | None) -> Bill | None:
    """None: it is not made yet."""
    if usd is None:
        return None
    return Bill(machine_id, span.begin, span.end, usd, counted(lines, machine_id, span))
