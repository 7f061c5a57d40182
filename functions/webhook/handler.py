"""Consumer of the webhook queue: one attempt at one delivery, from its slot at the receiver to its result."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from functions.shared.domain.delivery.targets import BadTarget, HttpResponse, OutboundFailed
from functions.shared.domain.delivery.webhooks import (
    QUEUE_HOLDS,
    Attempt,
    AttemptEnd,
    Delivery,
    DeliveryState,
    ReceiverBusy,
    after_attempt,
    origin_of,
    signed_headers,
)
from functions.shared.domain.messages import DeliveryMessage, JobOutcome
from functions.shared.domain.resilience import hold_wait
from functions.shared.engine.consumer import consume
from functions.shared.platform.observability import WEBHOOK_ATTEMPTS, correlated, logger, measure, metered
from functions.shared.platform.wiring import prepare, wiring

if TYPE_CHECKING:
    from functions.shared.outbound.http import OutboundHttp
    from functions.shared.platform.aws import Queues
    from functions.shared.stores.deliveries import Deliveries, ReceiverSlots

_CAP_BYTES = 65_536
_SHOWN_CHARACTERS = 200
_LONGER_THAN_THE_FUNCTION = timedelta(seconds=45)
_OUTCOMES = {
    DeliveryState.DELIVERED: JobOutcome.DONE,
    DeliveryState.PENDING: JobOutcome.RETRIED,
    DeliveryState.ENDED: JobOutcome.REFUSED,
    DeliveryState.EXHAUSTED: JobOutcome.GAVE_UP,
}


@dataclass(frozen=True)
class Deliver:
    deliveries: Deliveries
    receiver_slots: ReceiverSlots
    queues: Queues
    outbound: OutboundHttp
    webhook_masters: Callable[[], Sequence[bytes]]
    clock: Callable[[], datetime]
    webhook_waits: Sequence[float]
    webhook_timeout: float  # seconds

    def __call__(self, message: DeliveryMessage) -> JobOutcome:
        with correlated(message.correlation_id, delivery_id=message.delivery_id):
            delivery = self.deliveries.get(message.delivery_id)
            if delivery is None or not delivery.awaits(message.attempt, self.clock()):
                logger.info("message out of date", attempt=message.attempt, known=delivery is not None)
                return JobOutcome.DONE
            if delivery.of_round > len(self.webhook_waits):
                if self.deliveries.give_up(delivery):
                    measure(WEBHOOK_ATTEMPTS, by=DeliveryState.EXHAUSTED)
                logger.info("webhook given up", attempt=delivery.attempt)
                return JobOutcome.GAVE_UP
            if self._waits_for_earlier(delivery):
                return JobOutcome.DONE
            return self._in_turn(delivery)

    def _waits_for_earlier(self, delivery: Delivery) -> bool:
        """Events of one instance leave in order, as far as the receiver takes them."""
        now = self.clock()
        earlier = self.deliveries.before(delivery) if delivery.attempt == 0 else None
        if earlier is None or not delivery.waits_for(earlier, now):
            return False
        self._hold(delivery, now, "earlier event first")
        return True

    def _in_turn(self, delivery: Delivery) -> JobOutcome:
        masters = self.webhook_masters()  # before the claim: a secret that cannot be read costs no attempt
        now = self.clock()
        until = now + timedelta(seconds=self.webhook_timeout) + _LONGER_THAN_THE_FUNCTION
        slot = self.receiver_slots.take(_receiver(delivery.url), now, until)
        if isinstance(slot, ReceiverBusy):
            self._hold(delivery, now, "receiver busy", slow=slot.slow)
            return JobOutcome.DONE
        begun = self.deliveries.begin(delivery, now, until)
        outcome, ended = self._attempt(begun, masters) if begun else (JobOutcome.DONE, None)
        self.receiver_slots.release(slot, self.clock(), ended)  # without this it is free at `until`
        self.deliveries.uncover(delivery)
        return outcome

    def _hold(self, delivery: Delivery, now: datetime, why: str, *, slow: bool = False) -> None:
        """Waiting is not failing: the receiver, or all that hang, have enough under way, or an earlier event
        goes first. It is no attempt."""
        until = now + hold_wait(delivery.held, self.webhook_timeout, random.random, slow=slow)
        if self.deliveries.hold(delivery, until):
            logger.info(why, attempt=delivery.attempt + 1, held=delivery.held, slow=slow)
            self._queue(delivery, until, now)
            self.deliveries.uncover(delivery)

    def _attempt(self, delivery: Delivery, masters: Sequence[bytes]) -> tuple[JobOutcome, AttemptEnd]:
        """What came of it, and what it tells of the receiver."""
        began = self.clock()
        answer, failure = self._sent(delivery, masters, began)
        now = self.clock()
        state, again_at = after_attempt(
            answer.status if answer else None,
            answer.headers if answer else {},
            now=now,
            attempt=delivery.of_round,
            waits=self.webhook_waits,
            random=random.random,
        )
        result = _logged(delivery.attempt, began, now, answer, failure)
        logger.info(
            "webhook attempt", attempt=result.number, state=state, status=result.status, error=result.error
        )
        if self.deliveries.finish(delivery, result, state=state, again_at=again_at, now=now):
            measure(WEBHOOK_ATTEMPTS, by=state)
            if again_at:
                self._queue(delivery, again_at, now)
        ended_by = answer or failure
        timed_out = ended_by is not None and ended_by.timed_out
        return _OUTCOMES[state], AttemptEnd(timed_out, now - began)

    def _queue(self, delivery: Delivery, at: datetime, now: datetime) -> None:
        """What the queue cannot hold so long is queued by the sweep, shortly before it is due."""
        if at - now <= QUEUE_HOLDS:
            following = DeliveryMessage(delivery.id, delivery.attempt + 1, delivery.correlation_id)
            self.queues.send("webhook", following, (at - now).total_seconds())

    def _sent(
        self, delivery: Delivery, masters: Sequence[bytes], now: datetime
    ) -> tuple[HttpResponse | None, OutboundFailed | None]:
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
                timeout_total=self.webhook_timeout,
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


def _logged(
    number: int, began: datetime, ended: datetime, answer: HttpResponse | None, failure: OutboundFailed | None
) -> Attempt:
    took_ms = int((ended - began).total_seconds() * 1000)
    if answer is None:
        return Attempt(number, began, took_ms, error=failure.category if failure else "no_answer")
    shown = answer.body_prefix[:_SHOWN_CHARACTERS].decode("utf-8", "replace")
    return Attempt(number, began, took_ms, status=answer.status, answer=shown)


prepare("webhook")


@metered
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    run = wiring("webhook").invocation(context)
    deliver = run.compose(Deliver)

    def attempt(body: str) -> JobOutcome:
        return deliver(DeliveryMessage.from_json(body))

    return consume(event, context, run, "webhook", attempt)
