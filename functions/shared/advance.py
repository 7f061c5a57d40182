"""One step of an instance: load, decide, act, save, and tell the next one when."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from functions.shared.adapters.instances import Instances
from functions.shared.adapters.queues import Queues
from functions.shared.adapters.table import Write
from functions.shared.domain.decide import decide
from functions.shared.domain.decision import Decision, Policy
from functions.shared.domain.errors import StaleInstance
from functions.shared.domain.estimate import Booted
from functions.shared.domain.instance import Event, Instance, Queue
from functions.shared.domain.messages import StepMessage
from functions.shared.domain.observation import Observation, Tick
from functions.shared.domain.status import Status
from functions.shared.log import correlated, logger
from functions.shared.metrics import INSTANCES_FAILED, TIME_TO_READY, measure

# How each kind of call is made; the decision comes back too, since buying stores its intent first.
Means = Mapping[type, Callable[[Decision, Any], tuple[Decision, Observation]]]

_MOST_CALLS = 40  # far above what any step needs: a bound on a mistake, not a plan


class Advance:
    def __init__(
        self,
        instances: Instances,
        queues: Queues,
        clock: Callable[[], datetime],
        policy: Policy,
        learn: Callable[[Booted], None] = lambda _: None,
    ) -> None:
        self._instances = instances
        self._queues = queues
        self._clock = clock
        self._policy = policy
        self._learn = learn

    def take(self, message: StepMessage, queue: Queue, means: Means) -> None:
        """Take the step that the message asks for, unless it has been taken."""
        record = self._instances.get(message.instance_id)
        with correlated(
            record.correlation_id if record else message.correlation_id, instance_id=message.instance_id
        ):
            if record is None or record.token != message.token:
                logger.info("message out of date", known=record is not None)
                return
            if record.queue is not queue:  # another function has the means for it
                self.nudge(record, record.next_check_at or self._clock())
                return
            self.step(record, means)

    def step(self, record: Instance, means: Means) -> None:
        step = self._clock()
        decision = decide(record, Tick(), step, self._policy)
        for _ in range(_MOST_CALLS):
            if decision.call is None or type(decision.call) not in means:
                break
            try:
                decision, observation = means[type(decision.call)](decision, decision.call)
            except StaleInstance:
                logger.info("step overtaken")
                return
            after = decide(decision.record, observation, self._clock(), self._policy, step=step)
            decision = combined(decision, after)
        if decision.call is not None:  # for another function to make, or one call too many for this step
            decision = decision.due(self._clock())
        if self.store(decision) is None and record.status is Status.CREATING:
            self._hurry(record.id)

    def _hurry(self, instance_id: str) -> None:
        """What an overtaken purchase came to is in the books, and the winner may not know that it is due.

        Whatever else was overtaken sends nothing: two chains that hurry each other never become one again.
        """
        fresh = self._instances.get(instance_id)
        if fresh is not None and fresh.next_check_at is not None:
            self.nudge(fresh, fresh.next_check_at)

    def store(self, decision: Decision) -> Instance | None:
        """Save, and queue the next step; whoever was overtaken leaves both to the winner."""
        try:
            return self.save(decision)
        except StaleInstance:
            logger.info("step overtaken")
            return None

    def save(self, decision: Decision, also: Sequence[Write] = ()) -> Instance:
        saved = self._instances.save(decision, also)
        for event in decision.events:
            logger.info(event.type, sequence=event.sequence, reason=event.reason)
        _measure(decision.events, saved)
        self.nudge(saved, decision.now)
        if decision.booted:
            self._learn(decision.booted)
        return saved

    def nudge(self, record: Instance, now: datetime) -> None:
        if record.next_check_at is None:
            return
        message = StepMessage(record.id, record.token, record.correlation_id)
        self._queues.send(record.queue, message, (record.next_check_at - now).total_seconds())


def _measure(events: Sequence[Event], record: Instance) -> None:
    for event in events:
        if event.type == "instance.failed" and event.error:
            measure(INSTANCES_FAILED, by=event.error.code)
    ready_at = record.ready_at  # set once, the first time
    if ready_at and any(event.at == ready_at and not event.operation_id for event in events):
        measure(TIME_TO_READY, (ready_at - record.created_at).total_seconds())


def combined(before: Decision, after: Decision) -> Decision:
    """The later decision with what the earlier one had already noted."""
    changed = {operation.id: operation for operation in (*before.operations, *after.operations)}
    return replace(
        after,
        events=(*before.events, *after.events),
        operations=tuple(changed.values()),
        booted=before.booted or after.booted,
    )
