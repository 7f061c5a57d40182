"""Sending a webhook again: the same event under the same id, in a new round of attempts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from functions.shared.domain.delivery.webhooks import Delivery
from functions.shared.domain.errors import NotFound
from functions.shared.domain.ids import timestamp
from functions.shared.domain.messages import DeliveryMessage
from functions.shared.platform.observability import logger
from functions.shared.stores.idempotency import ApiResult, IdempotencyKeys, IdempotentRequest
from functions.shared.stores.table import ConditionFailed

if TYPE_CHECKING:
    from functions.shared.platform.aws import Queues
    from functions.shared.stores.deliveries import Deliveries

_TRIES = 5  # against an attempt that ends this very moment


@dataclass(frozen=True)
class ReplayDelivery:
    deliveries: Deliveries
    idempotency: IdempotencyKeys
    queues: Queues
    clock: Callable[[], datetime]

    def __call__(self, delivery_id: str, request: IdempotentRequest | None) -> ApiResult:
        if request and (before := self.idempotency.find(request)):
            return before
        first = delivery = self._stored(delivery_id)
        for _ in range(_TRIES):
            now = self.clock()
            if delivery.made_before != first.made_before or delivery.under_way(now):
                break  # somebody else's replay or an attempt of this moment: it is being sent
            result = ApiResult(202, _accepted(delivery, now))
            try:
                self.deliveries.replay(
                    delivery, now, [self.idempotency.write(request, result)] if request else []
                )
            except ConditionFailed:
                if request and (before := self.idempotency.find(request)):
                    return before
                delivery = self._stored(delivery_id)
                continue
            logger.info("webhook replayed", delivery_id=delivery_id, was=delivery.state)
            message = DeliveryMessage(delivery.id, delivery.attempt + 1, delivery.correlation_id)
            self.queues.send("webhook", message)
            return result
        return ApiResult(202, _accepted(delivery, self.clock()))

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
        "nextAttemptAt": timestamp(now),
        "message": "Accepted; it is being sent again",
    }
