"""Consumer of the dead-letter queues: every message that failed for the last time becomes a record."""

from typing import Any

from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from aws_lambda_powertools.utilities.typing import LambdaContext

from functions.bury.bury import Bury
from functions.shared.metrics import metered
from functions.shared.wiring import wiring


@metered
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    wired = wiring()
    wired.time_left = lambda: context.get_remaining_time_in_millis() / 1000
    bury = Bury(
        wired.dead_letters,
        wired.instances,
        wired.advance,
        wired.counts,
        wired.policy,
        wired.clock,
        wired.dead_queue_urls,
        wired.settings.max_retry_attempts + 1,
    )

    def take(record: SQSRecord) -> None:  # Powertools passes it by this name
        bury(record.message_id, record.event_source_arn, record.body)

    processor = BatchProcessor(EventType.SQS, raise_on_entire_batch_failure=False)
    return process_partial_response(  # type: ignore[return-value]
        event=event, record_handler=take, processor=processor, context=context
    )
