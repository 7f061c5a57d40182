"""Looks between the steps of those that wait: soon to see a machine come up, and nothing written until then.

Whoever takes a step of an instance that boots plans looks until its next step, where nobody else has: one
conditional write for all that wait, and a message for each look. A look sends no other look, so that messages
which are doubled, late or lost make one look more or less and never a second chain. What it learns is told to
the instance by a message with its current token, as a sweep does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from functions.shared.domain.errors import NovitaForNow, NovitaRefused
from functions.shared.domain.instance.record import Instance
from functions.shared.domain.instance.sightings import is_news
from functions.shared.domain.messages import LookMessage
from functions.shared.engine.shared_polling import ListSnapshot, may_be_up, pages
from functions.shared.platform.observability import correlated, logger

if TYPE_CHECKING:
    from functions.shared.engine.shared_polling import SharedPolling
    from functions.shared.novita.client import Novita
    from functions.shared.platform.invocation import TimeBudget

# A look that comes later than that, as after a backlog, is left to those that follow.
_LATE = timedelta(seconds=5)
_JITTER = timedelta(seconds=1)  # messages are delayed by whole seconds
# A get shows what is, a list what was a moment ago: so many times the calls are worth it.
_GETS_FOR_A_PAGE = 3
_LONGEST_CALL = 5.0  # seconds; another look follows


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
        return [record for record in found if record and may_be_up(record, now)]

    def _ask_for(self, record: Instance, turns: int) -> None:
        """What it shows is told and not used: only a step decides, and it asks for itself."""
        if record.machine.id is None or self._is_recent(record.machine.seen_at, turns):
            return
        machine = self.novita.get(record.machine.id, within=self._within())
        if is_news(record, machine):
            self.shared_polling.tell(record)

    def _read_list(self, known: ListSnapshot | None) -> None:
        polling = self.shared_polling
        if not self._is_recent(known.began if known else None, pages(known)):
            polling.read_for_changes(known, self._within())

    def _is_recent(self, asked: datetime | None, turns: int) -> bool:
        """A step has just asked: that was the look of this moment."""
        apart = timedelta(seconds=self.shared_polling.pace.apart * turns) - _JITTER
        return asked is not None and self.clock() - asked < apart

    def _within(self) -> float:
        return min(_LONGEST_CALL, self.budget.to_call())
