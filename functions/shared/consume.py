"""Consuming a queue: each record on its own, a failed one back after a growing wait."""

from collections.abc import Callable
from typing import Any

from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from aws_lambda_powertools.utilities.typing import LambdaContext

from functions.shared.advance import Means
from functions.shared.domain.backoff import retry_wait
from functions.shared.domain.instance import Queue
from functions.shared.domain.messages import StepMessage
from functions.shared.log import logger
from functions.shared.wiring import Wiring


class _Processor(BatchProcessor):
    def __init__(self, wiring: Wiring, queue: str) -> None:
        super().__init__(event_type=EventType.SQS, raise_on_entire_batch_failure=False)
        self._wiring = wiring
        self._queue = queue

    def failure_handler(self, record: SQSRecord, exception: Any) -> Any:
        """Failing, unlike waiting, is counted: after the last retry SQS makes it a dead letter."""
        logger.error("record failed", exc_info=exception, attempt=record.attributes.approximate_receive_count)
        wait = retry_wait(
            int(record.attributes.approximate_receive_count),
            base=self._wiring.settings.retry_base_seconds,
            cap=self._wiring.settings.retry_cap_seconds,
        )
        self._wiring.queues.put_back(self._queue, record.receipt_handle, wait)
        return super().failure_handler(record, exception)


def consume(
    event: dict[str, Any], context: LambdaContext, wiring: Wiring, queue: str, step: Callable[[str], None]
) -> dict[str, Any]:
    wiring.time_left = lambda: context.get_remaining_time_in_millis() / 1000

    def take(record: SQSRecord) -> None:  # Powertools passes it by this name
        step(record.body)

    return process_partial_response(  # type: ignore[return-value]
        event=event, record_handler=take, processor=_Processor(wiring, queue), context=context
    )


def consume_steps(
    event: dict[str, Any], context: LambdaContext, wiring: Wiring, queue: Queue, means: Means
) -> dict[str, Any]:
    def step(body: str) -> None:
        wiring.advance.take(StepMessage.from_json(body), queue, means)

    return consume(event, context, wiring, queue, step)
