"""Novita's own bill, read once a day for each machine and held against what we count."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from functions.reconcile.turns import is_turn
from functions.shared.domain.errors import CallerError, NovitaForNow, NovitaRefused
from functions.shared.domain.instance.fleet import Fleet
from functions.shared.domain.instance.record import Instance
from functions.shared.domain.instance.status import Status
from functions.shared.domain.money.bills import Bill, counted, settled_days
from functions.shared.domain.money.ledger import Line, Span
from functions.shared.platform.observability import BILLS_DIFFER, correlated, logger, measure
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
                    left -= self._read(record, now)

    def _read(self, record: Instance, now: datetime) -> int:
        """How many calls it took."""
        lines = [*self.ledger_lines.of(record.id), *record.ledger.open_lines(now)]
        asked = list(_machines(record, lines, now))
        found: list[Bill] = []
        for machine_id, span in asked:
            try:
                usd = self.novita.bill(machine_id, span.begin, span.end, within=self.budget.to_repair_after())
            except (NovitaForNow, NovitaRefused, CallerError) as error:
                logger.info("bill not read", novita_id=machine_id, code=error.code)
                return len(asked)
            if usd is not None:  # else it is not made yet
                ours = counted(lines, machine_id, span)
                found.append(Bill(machine_id, span.begin, span.end, usd, ours))
        for bill in self.bills.keep(record.id, found, now, self._next_at(record, now)):
            logger.warning(
                "bill differs", novita_id=bill.machine_id, billed=str(bill.usd), ours=str(bill.ours)
            )
            measure(BILLS_DIFFER)
        return len(asked)

    def _next_at(self, record: Instance, now: datetime) -> datetime | None:
        """None after the last: its last day is settled."""
        ended = record.status is Status.TERMINATED and not record.cleanup.tasks
        return None if ended and now - record.updated_at > 2 * _DAY else now + _DAY


def _machines(record: Instance, lines: list[Line], now: datetime) -> Iterator[tuple[str, Span]]:
    ended = dict(record.ledger.ended)
    for machine_id in dict.fromkeys(line.machine_id for line in lines):
        released_at = ended.get(machine_id) if machine_id in record.cleanup.released else None
        span = settled_days(lines, machine_id, now, imported=record.imported, released_at=released_at)
        if span:
            yield machine_id, span
