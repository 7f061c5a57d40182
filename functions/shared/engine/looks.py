"""Looks between the steps of those that wait: soon to see a machine come up, and nothing written until then.

Whoever takes a step of an instance that boots plans looks until its next step, where nobody else has: one
conditional write for all that wait, and a message for each look. A look sends no other look, so that messages
which are doubled, late or lost make one look more or less and never a second chain. What it learns is told to
the instance by a message with its current token, as a sweep does.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from functions.shared.domain.errors import NovitaForNow, NovitaRefused
from functions.shared.domain.instance.progress import booting, earliest_up
from functions.shared.domain.instance.record import Instance, Queue
from functions.shared.domain.instance.sightings import is_news
from functions.shared.domain.messages import LONGEST_DELAY, LookMessage
from functions.shared.engine.shared_polling import ListSnapshot, pages
from functions.shared.platform.observability import correlated, logger

if TYPE_CHECKING:
    from functions.shared.engine.shared_polling import PollingPace, SharedPolling
    from functions.shared.novita.client import Novita
    from functions.shared.platform.aws import Queues
    from functions.shared.platform.invocation import TimeBudget
    from functions.shared.stores.looks import PlannedLooks

_FEWEST = 3  # looks that are worth a write
# A look that comes later than that, as after a backlog, is left to those that follow.
_LATE = timedelta(seconds=5)
_JITTER = timedelta(seconds=1)  # messages are delayed by whole seconds
# A get shows what is, a list what was a moment ago: so many times the calls are worth it.
_GETS_FOR_A_PAGE = 3
_LONGEST_CALL = 5.0  # seconds; another look follows


@dataclass(frozen=True)
class PlanLooks:
    planned: PlannedLooks
    queues: Queues
    clock: Callable[[], datetime]
    pace: PollingPace

    def __call__(self, record: Instance) -> None:
        """Fill the time until the record's next step."""
        now, due = self.clock(), record.next_check_at
        if not _may_be_up(record, now) or due is None or self.pace.apart >= self.pace.poll_seconds:
            return
        last = math.ceil(min(due, now + LONGEST_DELAY).timestamp() / self.pace.apart) - 1
        until = self.planned.until(self._moment(last - _FEWEST + 1))
        if until is None:
            return
        planned = round(until.timestamp() / self.pace.apart)
        first = max(planned, math.floor(now.timestamp() / self.pace.apart)) + 1
        if last - first + 1 < _FEWEST or not self.planned.extend(self._moment(last)):
            return
        looks = [self._look(record, number) for number in range(first, last + 1)]
        self.queues.send_looks(Queue.MONITOR, looks, now)

    def _look(self, record: Instance, number: int) -> LookMessage:
        return LookMessage(record.id, record.correlation_id, self._moment(number), number)

    def _moment(self, number: int) -> datetime:
        return datetime.fromtimestamp(number * self.pace.apart, UTC)


@dataclass(frozen=True)
class TakeLook:
    shared_polling: SharedPolling
    novita: Novita
    clock: Callable[[], datetime]
    budget: TimeBudget

    def __call__(self, look: LookMessage) -> None:
        if self.clock() - look.at > _LATE:
            return
        with correlated(look.correlation_id):
            try:
                self._look(look.number)
            except (NovitaForNow, NovitaRefused) as error:
                logger.info("not looked", code=error.code)

    def _look(self, number: int) -> None:
        """One call at most on average: a long list is read at every second or third moment, few instances
        are asked for in turns."""
        polling = self.shared_polling
        known = polling.shared_list.newest()
        due = polling.waiting(known)
        if not polling.worth_sharing(known, due):
            waiting = self._waiting([one["pk"] for one in due])
            if not waiting:
                return
            if len(waiting) <= _GETS_FOR_A_PAGE * pages(known):
                self._ask_for(waiting[number % len(waiting)], len(waiting))
                return
        if number % pages(known) == 0:
            self._read_list(known)

    def _waiting(self, ids: list[str]) -> list[Instance]:
        now = self.clock()
        found = map(self.shared_polling.instances.get, sorted(ids))
        return [record for record in found if record and _may_be_up(record, now)]

    def _ask_for(self, record: Instance, turns: int) -> None:
        """What it shows is told and not used: only a step decides, and it asks for itself."""
        if record.machine.id is None or self._is_recent(record.machine.seen_at, turns):
            return
        machine = self.novita.get(record.machine.id, within=self._within())
        if is_news(record, machine):
            self.shared_polling.tell(record)

    def _read_list(self, known: ListSnapshot | None) -> None:
        polling = self.shared_polling
        if not self._is_recent(known and known.began, pages(known)):
            polling.read_for_changes(known, self._within())

    def _is_recent(self, asked: datetime | None, turns: int) -> bool:
        """A step has just asked: that was the look of this moment."""
        apart = timedelta(seconds=self.shared_polling.pace.apart * turns) - _JITTER
        return asked is not None and self.clock() - asked < apart

    def _within(self) -> float:
        return min(_LONGEST_CALL, self.budget.to_call())


def _may_be_up(record: Instance, now: datetime) -> bool:
    earliest = earliest_up(record)
    return booting(record) and (earliest is None or now >= earliest)
