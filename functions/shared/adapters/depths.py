"""How full the queues are. SQS's numbers are approximate, and it has none for the oldest message's age."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient


@dataclass(frozen=True)
class Depth:
    waiting: int
    in_flight: int
    delayed: int


class Depths:
    def __init__(self, client: "SQSClient", urls: Mapping[str, str], dead_urls: Mapping[str, str]) -> None:
        self._client = client
        self._urls = urls
        self._dead_urls = dead_urls

    @property
    def queues(self) -> tuple[str, ...]:
        return tuple(self._urls)

    def of(self, queue: str) -> Depth:
        return self._read(self._urls[queue])

    def unburied(self, queue: str) -> int:
        """Dead letters on their way to being records."""
        depth = self._read(self._dead_urls[queue])
        return depth.waiting + depth.in_flight

    def _read(self, url: str) -> Depth:
        found = self._client.get_queue_attributes(
            QueueUrl=url,
            AttributeNames=[
                "ApproximateNumberOfMessages",
                "ApproximateNumberOfMessagesNotVisible",
                "ApproximateNumberOfMessagesDelayed",
            ],
        )["Attributes"]
        return Depth(
            int(found["ApproximateNumberOfMessages"]),
            int(found["ApproximateNumberOfMessagesNotVisible"]),
            int(found["ApproximateNumberOfMessagesDelayed"]),
        )
