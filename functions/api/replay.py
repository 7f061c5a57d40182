"""Sending a webhook again: the same event under the same id, in a new round of attempts."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from functions.api.responses import stamp
from functions.shared.adapters.answers import Answer, Answers, Question
from functions.shared.adapters.deliveries import Deliveries
from functions.shared.adapters.queues import Queues
from functions.shared.adapters.table import ConditionFailed
from functions.shared.domain.delivery import Delivery
from functions.shared.domain.errors import NotFound
from functions.shared.domain.messages import DeliveryMessage
from functions.shared.log import logger

_TRIES = 5  # against an attempt that ends this very moment


@dataclass(frozen=True)
class Replay:
    deliveries: Deliveries
    answers: Answers
    queues: Queues
    clock: Callable[[], datetime]

    def __call__(self, delivery_id: str, asked: Question | None) -> Answer:
        if asked and (before := self.answers.find(asked)):
            return before
        first = delivery = self._stored(delivery_id)
        for _ in range(_TRIES):
            now = self.clock()
            if delivery.made_before != first.made_before or delivery.under_way(now):
                break  # somebody else's replay or an attempt of this moment: it is being sent
            given = Answer(202, _accepted(delivery, now))
            try:
                self.deliveries.replay(delivery, now, [self.answers.write(asked, given)] if asked else [])
            except ConditionFailed:
                if asked and (before := self.answers.find(asked)):
                    return before
                delivery = self._stored(delivery_id)
                continue
            logger.info("webhook replayed", delivery_id=delivery_id, was=delivery.state)
            message = DeliveryMessage(delivery.id, delivery.attempt + 1, delivery.correlation_id)
            self.queues.send("webhook", message)
            return given
        return Answer(202, _accepted(delivery, self.clock()))

    def _stored(self, delivery_id: str) -> Delivery:
        delivery = self.deliveries.get(delivery_id)
        if delivery is None:
            raise NotFound("DELIVERY_NOT_FOUND", "There is no delivery of that id, or it is too old")
        return delivery


def _accepted(delivery: Delivery, now: datetime) -> dict[str, Any]:
    return {
        "deliveryId": delivery.id,
        "eventId": delivery.event_id,
        "state": "pending",
        "nextAttemptAt": stamp(now),
        "message": "Accepted; it is being sent again",
    }
