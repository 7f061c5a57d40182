"""The sweep: messages may be lost, records are not, so what is overdue gets a new message."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from functions.shared.domain.messages import DeliveryMessage
from functions.shared.platform.observability import OLDEST_OVERDUE, OVERDUE, logger, measure
from functions.shared.stores.deliveries import read_delivery
from functions.shared.stores.instances import read_record
from functions.shared.stores.table import TABLE_FAILED

if TYPE_CHECKING:
    from functions.shared.engine.step import StepRunner
    from functions.shared.platform.aws import Queues
    from functions.shared.platform.invocation import TimeBudget
    from functions.shared.stores.caps import Caps
    from functions.shared.stores.table import Due, Item

_AT_ONCE, _MOST = 500, 5000
_MINUTE, _CAPS_EVERY = 60, 5  # a read of what is not there costs money, too
# A limit that is far away has no message: it is no fault that a sweep finds it when it is due, and soon.
_FOUND_WITHIN = timedelta(minutes=2)


@dataclass(frozen=True)
class Sweep:
    due: Due
    queues: Queues
    steps: StepRunner
    caps: Caps
    clock: Callable[[], datetime]
    budget: TimeBudget
    sweep_grace_seconds: float  # how long a message may take before its step counts as overdue
    resend_seconds: float  # how long a message may take before the next is sent

    @property
    def grace(self) -> timedelta:
        return timedelta(seconds=self.sweep_grace_seconds)

    @property
    def resend(self) -> timedelta:
        return timedelta(seconds=self.resend_seconds)

    def __call__(self) -> dict[str, int]:
        now = self.clock()
        sent, late = self._instances(now)
        counts = {"instances": sent, "deliveries": self._deliveries(now), "events": self._events(now)}
        if int(now.timestamp()) // _MINUTE % _CAPS_EVERY == 0:
            self._caps(now)
        logger.info("swept", extra=counts)
        for kind, number in {**counts, "instances": late}.items():
            if number:
                measure(OVERDUE, number, by=kind)
        return counts

    def overdue(self) -> dict[str, int]:
        """What a sweep would find, and nothing of it is done."""
        now = self.clock()
        late = {
            "instances": ("instance", now - self.grace),
            "deliveries": ("delivery", now - self.grace),
            "events": ("event", now - self.resend),
        }
        return {name: len(self.due.overdue(kind, until, _AT_ONCE)) for name, (kind, until) in late.items()}

    def _instances(self, now: datetime) -> tuple[int, int]:
        """How many were queued, and how many of them were late. With the current token, so that a step under
        way is never taken twice."""
        late: list[timedelta] = []

        def enqueue(claimed: Item) -> None:
            record = read_record(claimed)
            self.steps.enqueue(record, now)
            lateness = now - (record.next_check_at or now)
            if not record.at_rest or lateness >= _FOUND_WITHIN:
                late.append(lateness)

        sent = _each(self._claimed("instance", now - self.grace, now + self.resend), enqueue)
        if late:
            measure(OLDEST_OVERDUE, max(late).total_seconds())
        return sent, len(late)

    def _deliveries(self, now: datetime) -> int:
        """SQS delays by 15 minutes at most: what is due later is queued here, shortly before its time."""

        def enqueue(claimed: Item) -> None:
            delivery = read_delivery(claimed)
            message = DeliveryMessage(delivery.id, delivery.attempt + 1, delivery.correlation_id)
            wait = (delivery.next_at or now) - now
            self.queues.send("webhook", message, wait.total_seconds())

        return _each(self._claimed("delivery", now - self.grace, now + self.resend), enqueue)

    def _events(self, now: datetime) -> int:
        """An event that was not announced is touched, so that the stream brings it once more."""
        return sum(1 for _ in self._claimed("event", now - self.resend, now))

    def _caps(self, now: datetime) -> None:
        """Counters of caps whose check is due; there are none where no cap is set."""
        names: list[str] = []
        _each(self._claimed("cap", now, now + self.resend), lambda one: names.append(one["cap"]))
        try:
            self.caps.check(names)
        except TABLE_FAILED as error:  # they are due again
            logger.warning("caps not checked", error=type(error).__name__)

    def _claimed(self, kind: str, until: datetime, due_again: datetime) -> Iterator[Item]:
        """Each for one sweep alone, however many run; what there is no time for is the next one's."""
        for overdue in self._overdue(kind, until):
            if not self.budget.may_sweep():
                return
            try:
                claimed = self.due.claim(overdue, due_again)
            except (ClientError, BotoCoreError) as error:  # a table that is throttled is not asked for more
                logger.warning("overdue item not claimed", key=overdue["pk"], error=type(error).__name__)
                return
            if claimed is not None:
                yield claimed

    def _overdue(self, kind: str, until: datetime) -> Iterator[Item]:
        """Longest overdue first, as many as half of the time allows: what else a sweep does needs some, too.
        What was claimed is due later, and so is not found again."""
        time = self.budget.at_most(self.budget.left() / 2, self.clock)
        for _ in range(_MOST // _AT_ONCE):
            found = self.due.overdue(kind, until, _AT_ONCE)
            for overdue in found:
                if time.left() <= 0:
                    return
                yield overdue
            if len(found) < _AT_ONCE:
                return


def _each(claimed: Iterator[Item], enqueue: Callable[[Item], None]) -> int:
    """How many were queued. One that cannot be read, as after a roll-back, must not hold up the others."""
    sent = 0
    for item in claimed:
        try:
            enqueue(item)
        except Exception:  # noqa: BLE001  # whatever it is, a later sweep meets it again
            logger.exception("overdue item not queued", key=item["pk"])
        else:
            sent += 1
    return sent
