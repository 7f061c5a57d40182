"""Consumer of the dead-letter queue: a message becomes a record, and an instance that waits for it fails."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from aws_lambda_powertools.utilities.typing import LambdaContext

from functions.shared.domain.instance.decide import decide
from functions.shared.domain.instance.decision import Policy, leave_to_its_step
from functions.shared.domain.instance.observations import DeadLettered
from functions.shared.domain.instance.record import Queue
from functions.shared.domain.messages import UNKNOWN_QUEUE, DeadLetter, read_dead_letter, unknown_failure
from functions.shared.platform.observability import DEAD_LETTERS, correlated, logger, measure, metered
from functions.shared.platform.wiring import prepare, wiring

if TYPE_CHECKING:
    from functions.shared.engine.step import StepRunner
    from functions.shared.stores.instances import Instances
    from functions.shared.stores.jobs import DeadLetters, JobCounts


@dataclass(frozen=True)
class StoreDeadLetter:
    dead_letters: DeadLetters
    instances: Instances
    steps: StepRunner
    job_counts: JobCounts
    policy: Policy
    clock: Callable[[], datetime]
    queue_urls: Mapping[str, str]
    max_retry_attempts: int

    def __call__(self, record: SQSRecord) -> None:
        """The same message may come twice: SQS repeats it if this failed half-way."""
        dead_letter = self._read(record)
        failure = dead_letter.failure
        about = {"instance_id": dead_letter.instance_id, "delivery_id": dead_letter.delivery_id}
        with correlated(dead_letter.correlation_id, **{name: id_ for name, id_ in about.items() if id_}):
            if self.dead_letters.add(dead_letter):
                self.job_counts.add(dead_letter.queue, dead=1)
                measure(DEAD_LETTERS, by=dead_letter.queue)
                logger.error(
                    "dead letter", queue=dead_letter.queue, id=dead_letter.id, reason=failure.fault.message
                )
            if dead_letter.stops:
                self._fail(dead_letter, dead_letter.stops)

    def _read(self, record: SQSRecord) -> DeadLetter:
        """Given up by a function, which said whose it is and noted why it failed; or by SQS, which says only
        where it was. What failed before that is not why the last one died."""
        message_id = _attribute(record, "messageId")
        noted = self.dead_letters.noted(message_id) if message_id else None
        return read_dead_letter(
            message_id or record.message_id,
            _attribute(record, "queue") or self._queue_of(record.attributes.dead_letter_queue_source_arn),
            record.body,
            noted or unknown_failure(self.max_retry_attempts, self.clock()),
        )

    def _queue_of(self, arn: str | None) -> str:
        """An ARN and an address end in the same name."""
        name = (arn or "").rpartition(":")[2]
        urls = self.queue_urls.items()
        return next((queue for queue, url in urls if url.rpartition("/")[2] == name), UNKNOWN_QUEUE)

    def _fail(self, dead_letter: DeadLetter, queue: Queue) -> None:
        record = self.instances.get(dead_letter.instance_id or "")
        if record is None or record.token != dead_letter.token:
            return  # the step that it was for has been taken
        decision = decide(record, DeadLettered(queue, dead_letter.failure.fault), self.clock(), self.policy)
        if decision.events:
            self.steps.store(leave_to_its_step(record, decision))


def _attribute(record: SQSRecord, name: str) -> str | None:
    given = record.message_attributes[name]
    return given.string_value if given else None


prepare("dead_letters")


@metered
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    store = wiring("dead_letters").invocation(context).compose(StoreDeadLetter)

    def take(record: SQSRecord) -> None:  # Powertools passes it by this name
        store(record)

    processor = BatchProcessor(EventType.SQS, raise_on_entire_batch_failure=False)
    return process_partial_response(  # type: ignore[return-value]  # its stubs promise less than it returns
        event=event, record_handler=take, processor=processor, context=context
    )
