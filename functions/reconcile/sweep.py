"""Level-triggered repair: messages may be lost, records are not, so what is overdue gets a new hint."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from functions.shared.adapters.deliveries import read_delivery
from functions.shared.adapters.due import Due
from functions.shared.adapters.items import read_record
from functions.shared.adapters.queues import Queues
from functions.shared.advance import Advance
from functions.shared.domain.messages import DeliveryMessage
from functions.shared.log import logger

_AT_ONCE = 500


@dataclass(frozen=True)
class Sweep:
    due: Due
    queues: Queues
    advance: Advance
    clock: Callable[[], datetime]
    grace: timedelta  # how long a message may take before its step counts as overdue
    resend: timedelta  # how long a hint is given before the next

    def __call__(self) -> dict[str, int]:
        now = self.clock()
        counts = {
            "instances": self._instances(now),
            "deliveries": self._deliveries(now),
            "events": self._events(now),
        }
        logger.info("swept", extra=counts)
        return counts

    def _instances(self, now: datetime) -> int:
        """The current token is sent again, so a step that is under way is never forked."""
        sent = 0
        for overdue in self.due.overdue("instance", now - self.grace, _AT_ONCE):
            claimed = self.due.claim(overdue, now + self.resend)
            if claimed is not None:
                self.advance.nudge(read_record(claimed), now)
                sent += 1
        return sent

    def _deliveries(self, now: datetime) -> int:
        sent = 0
        for overdue in self.due.overdue("delivery", now - self.grace, _AT_ONCE):
            claimed = self.due.claim(overdue, now + self.resend)
            if claimed is not None:
                delivery = read_delivery(claimed)
                message = DeliveryMessage(delivery.id, delivery.attempt + 1, delivery.correlation_id)
                self.queues.send("webhook", message)
                sent += 1
        return sent

    def _events(self, now: datetime) -> int:
        """An event that was not announced is touched, so that the stream brings it once more."""
        overdue = self.due.overdue("event", now - self.resend, _AT_ONCE)
        return sum(self.due.claim(one, now) is not None for one in overdue)
