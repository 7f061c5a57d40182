"""How the work behind the API goes: queues, dead letters, jobs done and failed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from functions.shared.domain.messages import WEBHOOK_QUEUE, JobOutcome
from functions.shared.stores.deliveries import read_delivery
from functions.shared.stores.instances import read_event, read_record
from functions.shared.stores.table import readable

if TYPE_CHECKING:
    from functions.shared.platform.aws import QueueDepth, QueueDepths
    from functions.shared.stores.jobs import DeadLetters, JobCounts
    from functions.shared.stores.table import Due

_LOOKED_AT = 300  # of those that are due first


@dataclass(frozen=True)
class QueueState:
    depth: QueueDepth
    dead: int
    oldest_age: timedelta


@dataclass(frozen=True)
class ReadJobs:
    queue_depths: QueueDepths
    dead_letters: DeadLetters
    job_counts: JobCounts
    due: Due
    clock: Callable[[], datetime]
    resend_seconds: float  # a sweep moves the due time of what it queued again by this

    def queues(self) -> dict[str, QueueState]:
        ages = self._ages()
        return {
            queue: QueueState(
                self.queue_depths.of(queue),
                self.dead_letters.count(queue),
                ages.get(queue, timedelta()),
            )
            for queue in self.queue_depths.queues
        }

    def dead_letters_not_stored(self) -> int:
        return self.queue_depths.dead_letters_not_stored()

    def since(self, hours: int) -> datetime:
        """Counted are whole hours: from the beginning of the first one."""
        return (self.clock() - timedelta(hours=hours)).replace(minute=0, second=0, microsecond=0)

    def jobs(self, since: datetime) -> dict[str, dict[str, int]]:
        """What became of them, by type."""
        counts = {queue: self.job_counts.of(queue, since) for queue in self.queue_depths.queues}
        return {queue: {one: counted[one] for one in JobOutcome} for queue, counted in counts.items()}

    def incomplete_sweeps(self, since: datetime) -> int:
        return self.job_counts.of("sweep", since)["incomplete"]

    def _ages(self) -> dict[str, timedelta]:
        """How long the longest overdue step or attempt has been waiting, by the queue that brings it."""
        now = self.clock()
        ages: dict[str, timedelta] = {}
        for queue, due_at in self._waiting(now):
            ages[queue] = max(now - due_at, ages.get(queue, timedelta()))
        return ages

    def _waiting(self, now: datetime) -> list[tuple[str, datetime]]:
        until = now + timedelta(seconds=self.resend_seconds)
        instances = readable(read_record, self.due.whole("instance", until, _LOOKED_AT))
        deliveries = readable(read_delivery, self.due.whole("delivery", until, _LOOKED_AT))
        events = (item for item in self.due.whole("event", until, _LOOKED_AT) if "event" in item)
        return [
            *((WEBHOOK_QUEUE, event.at) for event in readable(read_event, events) if event.webhook_url),
            *((record.queue, record.next_check_at) for record in instances if record.next_check_at),
            *((WEBHOOK_QUEUE, delivery.next_at) for delivery in deliveries if delivery.next_at),
        ]
