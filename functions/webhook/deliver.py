"""One attempt to deliver a webhook: claim, sign, send, judge the answer, log it."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from functions.shared.adapters.deliveries import Deliveries, Delivery, lease
from functions.shared.adapters.outbound import Outbound
from functions.shared.adapters.queues import Queues
from functions.shared.domain.delivery import Again, Delivered, Ended, judge_answer
from functions.shared.domain.messages import DeliveryMessage
from functions.shared.domain.outbound import Answer, OutboundFailed
from functions.shared.domain.signature import signed_headers
from functions.shared.log import correlated, logger

_CAP_BYTES = 65_536
_SHOWN_CHARACTERS = 200
_LONGEST_DELAY = 900.0


@dataclass(frozen=True)
class Deliver:
    deliveries: Deliveries
    queues: Queues
    outbound: Outbound
    masters: Callable[[], Sequence[bytes]]
    clock: Callable[[], datetime]
    waits: Sequence[float]
    timeout_seconds: float

    def __call__(self, message: DeliveryMessage) -> None:
        with correlated(message.correlation_id, delivery_id=message.delivery_id):
            until = self.clock() + lease(self.timeout_seconds)
            delivery = self.deliveries.claim(message.delivery_id, message.attempt, until)
            if delivery is None:
                logger.info("attempt already made", attempt=message.attempt)
                return
            self._attempt(delivery)

    def _attempt(self, delivery: Delivery) -> None:
        began = self.clock()
        answer, failure = self._sent(delivery, began)
        now = self.clock()
        verdict = judge_answer(
            answer.status if answer else None,
            answer.headers if answer else {},
            now=now,
            attempt=delivery.attempt,
            waits=self.waits,
            random=random.random,
        )
        again_at = verdict.at if isinstance(verdict, Again) else None
        state = _state(verdict)
        result = _logged(delivery.attempt, began, now, answer, failure)
        self.deliveries.finish(delivery, result, state=state, again_at=again_at)
        logger.info("webhook attempt", attempt=delivery.attempt, state=state, status=result.get("status"))
        if again_at and (wait := (again_at - now).total_seconds()) <= _LONGEST_DELAY:
            following = DeliveryMessage(delivery.id, delivery.attempt + 1, delivery.correlation_id)
            self.queues.send("webhook", following, wait)

    def _sent(self, delivery: Delivery, now: datetime) -> tuple[Answer | None, OutboundFailed | None]:
        body = delivery.body.encode()
        headers = {
            "content-type": "application/json",
            "x-correlation-id": delivery.correlation_id,
            **signed_headers(self.masters(), delivery.url, delivery.event_id, int(now.timestamp()), body),
        }
        try:
            return self.outbound.request(
                "POST",
                delivery.url,
                headers=headers,
                body=body,
                timeout_total=self.timeout_seconds,
                cap_bytes=_CAP_BYTES,
            ), None
        except OutboundFailed as failure:
            return None, failure


def _state(verdict: object) -> str:
    if isinstance(verdict, Delivered):
        return "delivered"
    if isinstance(verdict, Again):
        return "pending"
    return "ended" if isinstance(verdict, Ended) else "exhausted"


def _logged(
    attempt: int, began: datetime, ended: datetime, answer: Answer | None, failure: OutboundFailed | None
) -> dict[str, Any]:
    result: dict[str, Any] = {
        "attempt": attempt,
        "at": began.isoformat(),
        "tookMs": int((ended - began).total_seconds() * 1000),
    }
    if answer:
        shown = answer.body_prefix[:_SHOWN_CHARACTERS].decode("utf-8", "replace")
        return result | {"status": answer.status, "answer": shown}
    return result | ({"error": failure.category} if failure else {})
