"""One attempt to deliver a webhook: a place at the receiver, claim, sign, send, judge the answer, log it."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from functions.shared.adapters.deliveries import Deliveries
from functions.shared.adapters.outbound import Outbound
from functions.shared.adapters.queues import Queues
from functions.shared.adapters.receivers import Receivers
from functions.shared.domain.delivery import (
    QUEUE_HOLDS,
    Again,
    Attempt,
    Delivered,
    Delivery,
    Ended,
    State,
    Verdict,
    hold_wait,
    judge_answer,
)
from functions.shared.domain.messages import DeliveryMessage
from functions.shared.domain.outbound import Answer, BadTarget, OutboundFailed
from functions.shared.domain.signature import origin_of, signed_headers
from functions.shared.log import correlated, logger
from functions.shared.metrics import WEBHOOK_ATTEMPTS, measure

_CAP_BYTES = 65_536
_SHOWN_CHARACTERS = 200
_LONGER_THAN_THE_FUNCTION = timedelta(seconds=45)


@dataclass(frozen=True)
class Deliver:
    deliveries: Deliveries
    receivers: Receivers
    queues: Queues
    outbound: Outbound
    masters: Callable[[], Sequence[bytes]]
    clock: Callable[[], datetime]
    waits: Sequence[float]
    timeout_seconds: float

    def __call__(self, message: DeliveryMessage) -> None:
        with correlated(message.correlation_id, delivery_id=message.delivery_id):
            delivery = self.deliveries.get(message.delivery_id)
            if delivery is None or not delivery.awaits(message.attempt, self.clock()):
                logger.info("message out of date", attempt=message.attempt, known=delivery is not None)
            elif delivery.of_round > len(self.waits):
                if self.deliveries.give_up(delivery):
                    measure(WEBHOOK_ATTEMPTS, by=State.EXHAUSTED)
                logger.info("webhook given up", attempt=delivery.attempt)
            else:
                self._in_turn(delivery)

    def _in_turn(self, delivery: Delivery) -> None:
        masters = self.masters()  # before the claim: a secret that cannot be read costs no attempt
        now = self.clock()
        until = now + timedelta(seconds=self.timeout_seconds) + _LONGER_THAN_THE_FUNCTION
        place = self.receivers.take(_receiver(delivery.url), now, until)
        if place is None:
            self._hold(delivery, now)
            return
        if begun := self.deliveries.begin(delivery, now, until):
            self._attempt(begun, masters)
        self.receivers.release(place)  # and if it comes to nothing, the place is free at its time

    def _hold(self, delivery: Delivery, now: datetime) -> None:
        """Waiting is not failing: the receiver has enough under way, and this attempt is not counted."""
        until = now + hold_wait(delivery.held, self.timeout_seconds, random.random)
        if self.deliveries.hold(delivery, until):
            logger.info("receiver busy", attempt=delivery.attempt + 1, held=delivery.held)
            self._queue(delivery, until, now)

    def _attempt(self, delivery: Delivery, masters: Sequence[bytes]) -> None:
        began = self.clock()
        answer, failure = self._sent(delivery, masters, began)
        now = self.clock()
        verdict = judge_answer(
            answer.status if answer else None,
            answer.headers if answer else {},
            now=now,
            attempt=delivery.of_round,
            waits=self.waits,
            random=random.random,
        )
        again_at = verdict.at if isinstance(verdict, Again) else None
        result = _logged(delivery.attempt, began, now, answer, failure)
        state = _state(verdict)
        logger.info(
            "webhook attempt", attempt=result.number, state=state, status=result.status, error=result.error
        )
        if not self.deliveries.finish(delivery, result, state=state, again_at=again_at, now=now):
            return
        measure(WEBHOOK_ATTEMPTS, by=state)
        if again_at:
            self._queue(delivery, again_at, now)

    def _queue(self, delivery: Delivery, at: datetime, now: datetime) -> None:
        """What the queue cannot hold so long is queued by the sweep, shortly before it is due."""
        if at - now <= QUEUE_HOLDS:
            following = DeliveryMessage(delivery.id, delivery.attempt + 1, delivery.correlation_id)
            self.queues.send("webhook", following, (at - now).total_seconds())

    def _sent(
        self, delivery: Delivery, masters: Sequence[bytes], now: datetime
    ) -> tuple[Answer | None, OutboundFailed | None]:
        body = delivery.body.encode()
        try:
            signed = signed_headers(masters, delivery.url, delivery.event_id, int(now.timestamp()), body)
            return self.outbound.request(
                "POST",
                delivery.url,
                headers={
                    "content-type": "application/json",
                    "x-correlation-id": delivery.correlation_id,
                    **signed,
                },
                body=body,
                timeout_total=self.timeout_seconds,
                cap_bytes=_CAP_BYTES,
            ), None
        except BadTarget as error:
            return None, OutboundFailed("refused_target", str(error))
        except OutboundFailed as failure:
            return None, failure


def _receiver(url: str) -> str:
    try:
        return origin_of(url)
    except BadTarget:  # nothing will be sent there
        return url


def _state(verdict: Verdict) -> State:
    if isinstance(verdict, Delivered):
        return State.DELIVERED
    if isinstance(verdict, Again):
        return State.PENDING
    return State.ENDED if isinstance(verdict, Ended) else State.EXHAUSTED


def _logged(
    number: int, began: datetime, ended: datetime, answer: Answer | None, failure: OutboundFailed | None
) -> Attempt:
    took_ms = int((ended - began).total_seconds() * 1000)
    if answer is None:
        return Attempt(number, began, took_ms, error=failure.category if failure else "no_answer")
    shown = answer.body_prefix[:_SHOWN_CHARACTERS].decode("utf-8", "replace")
    return Attempt(number, began, took_ms, status=answer.status, answer=shown)
