"""Sending hints. A queue that refuses is no error: the record is due, and the sweep sends another."""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from functions.shared.domain.messages import DeliveryMessage, StepMessage
from functions.shared.log import logger

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

_LONGEST_DELAY = 900  # SQS's own limit


class Queues:
    def __init__(self, client: "SQSClient", urls: Mapping[str, str]) -> None:
        self._client = client
        self._urls = urls

    def send(self, queue: str, message: StepMessage | DeliveryMessage, delay_seconds: float = 0) -> bool:
        delay = max(0, min(_LONGEST_DELAY, math.ceil(delay_seconds)))
        try:
            self._client.send_message(
                QueueUrl=self._urls[queue], MessageBody=message.as_json(), DelaySeconds=delay
            )
        except (ClientError, BotoCoreError) as error:
            logger.warning("message not queued", queue=queue, error=type(error).__name__)
            return False
        return True

    def put_back(self, queue: str, receipt_handle: str, wait_seconds: float) -> None:
        """Let a failed message come back after the wait; if SQS will not, its own time-out does it."""
        try:
            self._client.change_message_visibility(
                QueueUrl=self._urls[queue],
                ReceiptHandle=receipt_handle,
                VisibilityTimeout=max(0, min(43_200, round(wait_seconds))),
            )
        except (ClientError, BotoCoreError) as error:
            logger.warning("visibility not changed", queue=queue, error=type(error).__name__)
