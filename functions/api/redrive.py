"""Redriving a dead letter: a new message with a new token, never the old one, and once."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from functions.shared.adapters.answers import Answer, Answers, Question
from functions.shared.adapters.dead_letters import DeadLetters
from functions.shared.adapters.deliveries import Deliveries
from functions.shared.adapters.instances import Instances
from functions.shared.adapters.queues import Queues
from functions.shared.adapters.table import Write
from functions.shared.advance import Advance
from functions.shared.domain.commands import begin_again
from functions.shared.domain.dead_letter import DeadLetter
from functions.shared.domain.decision import Decision, Policy
from functions.shared.domain.delivery import State
from functions.shared.domain.errors import Conflict, NotFound
from functions.shared.domain.messages import DeliveryMessage
from functions.shared.log import correlation_id, logger


@dataclass(frozen=True)
class Redrive:
    letters: DeadLetters
    instances: Instances
    deliveries: Deliveries
    answers: Answers
    advance: Advance
    queues: Queues
    policy: Policy
    clock: Callable[[], datetime]

    def __call__(self, letter_id: str, *, actor: str, asked: Question | None) -> Answer:
        return self.answers.once(
            asked, lambda: self._go_on(self._open(letter_id), actor, asked), about=letter_id
        )

    def _open(self, letter_id: str) -> DeadLetter:
        letter = self.letters.get(letter_id)
        if letter is None:
            raise NotFound("DEAD_LETTER_NOT_FOUND", "There is no dead letter of that id, or it is too old")
        if letter.redriven_at is not None:
            raise Conflict("NOT_REDRIVABLE", f"{letter_id} has been redriven already")
        return letter

    def _go_on(self, letter: DeadLetter, actor: str, asked: Question | None) -> Answer:
        now = self.clock()
        if letter.instance_id:
            given = _accepted(letter, "A machine is being bought")
            self._buy_again(letter.instance_id, actor, self._with_it(letter, asked, given, now), now)
        elif letter.delivery_id:
            given = _accepted(letter, "The webhook is being sent")
            self._deliver_now(letter.delivery_id, self._with_it(letter, asked, given, now), now)
        else:
            raise Conflict("NOT_REDRIVABLE", "Its body names neither an instance nor a delivery")
        logger.info("dead letter redriven", id=letter.id)
        return given

    def _with_it(
        self, letter: DeadLetter, asked: Question | None, given: Answer, now: datetime
    ) -> list[Write]:
        """What is stored in the same transaction: that it was redriven, and the answer."""
        redriven = self.letters.redriven(letter, now)
        return [redriven, self.answers.write(asked, given)] if asked else [redriven]

    def _buy_again(self, instance_id: str, actor: str, also: list[Write], now: datetime) -> None:
        record = self.instances.get(instance_id)
        if record is None:
            raise Conflict("NOT_REDRIVABLE", f"{instance_id} is not known here")
        before = Decision(record, now, self.policy, now, actor)
        self.advance.save(begin_again(before.having(correlation_id=correlation_id())), also)

    def _deliver_now(self, delivery_id: str, also: list[Write], now: datetime) -> None:
        delivery = self.deliveries.get(delivery_id)
        if delivery is None:
            raise Conflict("NOT_REDRIVABLE", f"{delivery_id} is not known any more")
        if delivery.state is not State.PENDING:
            raise Conflict("NOT_REDRIVABLE", f"{delivery_id} is {delivery.state}; replay it to send it again")
        self.deliveries.replay(delivery, now, also)
        message = DeliveryMessage(delivery.id, delivery.attempt + 1, delivery.correlation_id)
        self.queues.send("webhook", message)


def _accepted(letter: DeadLetter, what: str) -> Answer:
    about: dict[str, Any] = {"instanceId": letter.instance_id, "deliveryId": letter.delivery_id}
    named = {name: id_ for name, id_ in about.items() if id_}
    return Answer(202, {"id": letter.id, **named, "message": f"Accepted. {what}"})
