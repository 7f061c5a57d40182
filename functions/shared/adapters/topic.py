"""The topic that every event is published to."""

from typing import TYPE_CHECKING

from functions.shared.domain.announcement import Announcement

if TYPE_CHECKING:
    from mypy_boto3_sns import SNSClient


class Topic:
    def __init__(self, client: "SNSClient", arn: str) -> None:
        self._client = client
        self._arn = arn

    def publish(self, told: Announcement) -> None:
        self._client.publish(
            TopicArn=self._arn,
            Message=told.body,
            MessageAttributes={
                name: {"DataType": "String", "StringValue": value} for name, value in told.attributes.items()
            },
        )
