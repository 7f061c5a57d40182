"""Redriving a dead letter: a new message with a new token, never the old one, and once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from functions.shared.domain.delivery.webhooks import DeliveryState
from functions.shared.domain.errors import Conflict, NotFound
from functions.shared.domain.instance.commands import begin_again
from functions.shared.domain.instance.decision import Decision, Policy
from functions.shared.domain.messages import DeadLetter, DeliveryMessage
from functions.shared.platform.observability import correlation_id, logger
from functions.shared.stores.idempotency import ApiResult, IdempotencyKeys, IdempotentRequest

if TYPE_CHECKING:
    from functions.shared.engine.step import StepRunner
    from functions.shared.platform.aws import Queues
    from functions.shared.stores.deliveries import Deliveries
    from functions.shared.stores.instances import Instances
    from functions.shared.stores.jobs import DeadLetters
    from functions.shared.stores.machines import PurchaseSwitch
    from functions.shared.stores.table import Write


@dataclass(frozen=True)
class RedriveDeadLetter:
    dead_letters: DeadLetters
    instances: Instances
    deliveries: Deliveries
    idempotency: IdempotencyKeys
    purchase_switch: PurchaseSwitch
    steps: StepRunner
    queues: Queues
    policy: Policy
    clock: Callable[[], datetime]

    def __call__(self, dead_letter_id: str, *, actor: str, request: IdempotentRequest | None) -> ApiResult:
        return self.idempotency.once(
            request, lambda: self._redrive(self._find(dead_letter_id), actor, request), about=dead_letter_id
        )

    def _find(self, dead_letter_id: str) -> DeadLetter:
        dead_letter = self.dead_letters.get(dead_letter_id)
        if dead_letter is None:
            raise NotFound("DEAD_LETTER_NOT_FOUND", "There is no dead letter of that id, or it is too old")
        if dead_letter.redriven_at is not None:
            raise Conflict("NOT_REDRIVABLE", f"{dead_letter_id} has been redriven already")
        return dead_letter

    def _redrive(self, dead_letter: DeadLetter, actor: str, request: IdempotentRequest | None) -> ApiResult:
        now = self.clock()
        if dead_letter.instance_id:
            result = _accepted(dead_letter, "A machine is being bought")
            self._buy_again(
                dead_letter.instance_id, actor, self._writes_with(dead_letter, request, result, now), now
            )
        elif dead_letter.delivery_id:
            result = _accepted(dead_letter, "The webhook is being sent")
            self._deliver_now(
                dead_letter.delivery_id, self._writes_with(dead_letter, request, result, now), now
            )
        else:
            raise Conflict("NOT_REDRIVABLE", "Its body names neither an instance nor a delivery")
        logger.info("dead letter redriven", id=dead_letter.id)
        return result

    def _writes_with(
        self, dead_letter: DeadLetter, request: IdempotentRequest | None, result: ApiResult, now: datetime
    ) -> list[Write]:
        """Stored in the same transaction: that it was redriven, and the result."""
        redriven = self.dead_letters.redriven(dead_letter, now)
        return [redriven, self.idempotency.write(request, result)] if request else [redriven]

    def _buy_again(self, instance_id: str, actor: str, also: list[Write], now: datetime) -> None:
        record = self.instances.get(instance_id)
        if record is None:
            raise Conflict("NOT_REDRIVABLE", f"{instance_id} is not known here")
        self.purchase_switch.require_on()
        before = Decision(record, now, self.policy, now, actor)
        self.steps.save(begin_again(before.change(correlation_id=correlation_id())), also)

    def _deliver_now(self, delivery_id: str, also: list[Write], now: datetime) -> None:
        delivery = self.deliveries.get(delivery_id)
        if delivery is None:
            raise Conflict("NOT_REDRIVABLE", f"{delivery_id} is not known any more")
        if delivery.state is not DeliveryState.PENDING:
            raise Conflict("NOT_REDRIVABLE", f"{delivery_id} is {delivery.state}; replay it to send it again")
        self.deliveries.replay(delivery, now, also)
        message = DeliveryMessage(delivery.id, delivery.attempt + 1, delivery.correlation_id)
        self.queues.send("webhook", message)


def _accepted(dead_letter: DeadLetter, what: str) -> ApiResult:
    about: dict[str, Any] = {"instanceId": dead_letter.instance_id, "deliveryId": dead_letter.delivery_id}
    named = {name: id_ for name, id_ in about.items() if id_}
    return ApiResult(202, {"id": dead_letter.id, **named, "message": f"Accepted. {what}"})
