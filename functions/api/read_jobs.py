"""How the work behind the API goes: queues, dead letters, jobs done and failed."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from functions.shared.adapters.counts import Counts
from functions.shared.adapters.dead_letters import DeadLetters
from functions.shared.adapters.depths import Depth, Depths
from functions.shared.adapters.waiting import Waiting
from functions.shared.domain.dead_letter import WEBHOOK

_LOOKED_AT = 300  # of those that are due first
_COUNTED = ("completed", "retried", "failed")


@dataclass(frozen=True)
class QueueState:
    depth: Depth
    dead: int
    oldest_age: timedelta


@dataclass(frozen=True)
class ReadJobs:
    depths: Depths
    letters: DeadLetters
    counts: Counts
    waiting: Waiting
    clock: Callable[[], datetime]
    resend: timedelta  # by so much a sweep puts off what it has hinted at

    def queues(self) -> dict[str, QueueState]:
        ages = self._ages()
        return {
            queue: QueueState(
                self.depths.of(queue),
                self.depths.unburied(queue) + self.letters.count(queue),
                ages.get(queue, timedelta()),
            )
            for queue in self.depths.queues
        }

    def jobs(self) -> dict[str, dict[str, int]]:
        return {queue: self._counted(queue, _COUNTED) for queue in self.depths.queues}

    def sweeps(self) -> dict[str, int]:
        return self._counted("sweep", ("braked", "incomplete"))

    def _counted(self, job: str, names: tuple[str, ...]) -> dict[str, int]:
        counted = self.counts.of(job)
        return {name: counted.get(name, 0) for name in names}

    def _ages(self) -> dict[str, timedelta]:
        """How long the longest overdue step or attempt has been waiting, by the queue that brings it."""
        now = self.clock()
        ages: dict[str, timedelta] = {}
        for queue, due_at in self._waiting(now):
            ages[queue] = max(now - due_at, ages.get(queue, timedelta()))
        return ages

    def _waiting(self, now: datetime) -> list[tuple[str, datetime]]:
        until = now + self.resend
        instances = self.waiting.instances(until, _LOOKED_AT)
        deliveries = self.waiting.deliveries(until, _LOOKED_AT)
        return [
            *((record.queue, record.next_check_at) for record in instances if record.next_check_at),
            *((WEBHOOK, delivery.next_at) for delivery in deliveries if delivery.next_at),
        ]
