"""Consuming a queue: each message on its own; one that fails comes back after a growing wait."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from aws_lambda_powertools.utilities.typing import LambdaContext
from botocore.exceptions import ClientError

from functions.shared.domain.errors import Fault, OstlerError
from functions.shared.domain.instance.record import Queue
from functions.shared.domain.messages import JobOutcome, LookMessage, StepMessage, correlation_of
from functions.shared.domain.resilience import retry_wait
from functions.shared.platform.observability import correlated, logger

if TYPE_CHECKING:
    from functions.shared.engine.step import CallHandlers
    from functions.shared.platform.invocation import Invocation
    from functions.shared.platform.wiring import Wiring


class _Processor(BatchProcessor):
    def __init__(self, wiring: Wiring, queue: str) -> None:
        super().__init__(event_type=EventType.SQS, raise_on_entire_batch_failure=False)
        self._wiring = wiring
        self._queue = queue
        self.given_up = 0

    def failure_handler(self, record: SQSRecord, exception: Any) -> Any:
        """Failing, unlike waiting, is counted: after the last retry it is a dead letter, and done here."""
        with correlated(correlation_of(record.body)):
            if self._ends(record, exception):
                self.given_up += 1
                return "fail", str(exception[1]), record
        return super().failure_handler(record, exception)

    def _ends(self, record: SQSRecord, exception: Any) -> bool:
        """By failures, not by deliveries, of which SQS also counts those that were throttled. Where failures
        cannot be counted, or nobody lives to count them, the queue's own maximum ends it."""
        wired, settings, error = self._wiring, self._wiring.settings, exception[1]
        failures = wired.dead_letters.count_failure(
            record.message_id, type(error).__name__, failure_fault(error), wired.clock()
        )
        attempt = failures or int(record.attributes.approximate_receive_count)
        logger.error("message failed", exc_info=exception, attempt=attempt)
        last = failures is not None and failures > settings.max_retry_attempts
        if last and wired.queues.give_up(self._queue, record.message_id, record.body):
            return True
        wait = retry_wait(attempt, base=settings.retry_base_seconds, cap=settings.retry_cap_seconds)
        wired.queues.put_back(self._queue, record.receipt_handle, wait)
        return False


def failure_fault(error: BaseException) -> Fault:
    """Without what another party may have put into the text of its errors."""
    name = type(error).__name__
    if isinstance(error, OstlerError):
        return Fault(error.code, error.message)
    if isinstance(error, ClientError):
        code = error.response.get("Error", {}).get("Code", "an error")
        return Fault("INTERNAL_ERROR", f"AWS answered {code} to {error.operation_name}")
    return Fault("INTERNAL_ERROR", f"{name}; the log has the rest")


def consume(
    event: dict[str, Any],
    context: LambdaContext,
    run: Invocation,
    queue: str,
    step: Callable[[str], JobOutcome | None],
) -> dict[str, Any]:
    outcomes: Counter[str] = Counter()

    def take(record: SQSRecord) -> None:  # Powertools passes it by this name
        if outcome := step(record.body):
            outcomes[outcome] += 1

    processor = _Processor(run.wiring, queue)
    response: dict[str, Any] = process_partial_response(  # type: ignore[assignment]  # stubs that promise less
        event=event, record_handler=take, processor=processor, context=context
    )
    # One that was given up is counted as dead where it is stored.
    outcomes[JobOutcome.RETRIED] += len(response["batchItemFailures"]) + processor.given_up
    run.job_counts.add(queue, **outcomes)
    return response


def consume_steps(
    event: dict[str, Any],
    context: LambdaContext,
    run: Invocation,
    queue: Queue,
    handlers: CallHandlers,
    take_look: Callable[[LookMessage], None] | None = None,
) -> dict[str, Any]:
    """Steps of instances, with the calls that this function can make; another makes the others. A look
    between two steps is no job that is counted: that would be a write."""

    def step(body: str) -> JobOutcome | None:
        if take_look and (look := LookMessage.from_json(body)):
            take_look(look)
            return None
        return run.wiring.steps.take(StepMessage.from_json(body), queue, handlers)

    return consume(event, context, run, queue, step)
