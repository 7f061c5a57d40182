"""AWS: its clients, and what is there beside the table: queues and how full they are, the topic, secrets."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from threading import Lock
from typing import TYPE_CHECKING, Any

from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from botocore.loaders import Loader
from botocore.session import Session

from functions.shared.domain.delivery.webhooks import Announcement
from functions.shared.domain.messages import LONGEST_DELAY, DeliveryMessage, LookMessage, StepMessage
from functions.shared.platform.observability import logger

if TYPE_CHECKING:
    from mypy_boto3_secretsmanager import SecretsManagerClient
    from mypy_boto3_sns import SNSClient
    from mypy_boto3_sqs import SQSClient

_making = Lock()  # a session makes one client at a time
_SERVICES = ("dynamodb", "secretsmanager", "sns", "sqs")


class _OwnServices(Loader):
    """Before it makes a client, the SDK looks which services there are, in some hundreds of folders."""

    def list_available_services(self, type_name: str) -> list[str]:  # noqa: ARG002  # the SDK's own name
        return list(_SERVICES)


@cache
def _session() -> Session:
    made = Session()
    made.register_component("data_loader", _OwnServices())
    return made


def new_client(service: str) -> Any:
    """Of botocore itself: boto3 has nothing more for these services, and is slow to import."""
    # Attempts stay well inside a function's life; the record is due again if all of them fail. The topic
    # is given less: every event behind waits for it.
    connect, read, attempts = (1, 3, 2) if service == "sns" else (2, 5, 3)
    config = Config(
        connect_timeout=connect,
        read_timeout=read,
        retries={"mode": "standard", "total_max_attempts": attempts},
    )
    with _making:
        return _session().create_client(service, config=config)


_BATCH = 10  # messages in one request, which costs as much as one message


class Queues:
    def __init__(self, client: "SQSClient", url: Callable[[str], str]) -> None:
        self._client = client
        self._url = url

    def send(self, queue: str, message: StepMessage | DeliveryMessage, delay_seconds: float = 0) -> bool:
        delay = _whole(delay_seconds)
        try:
            self._client.send_message(
                QueueUrl=self._url(queue), MessageBody=message.as_json(), DelaySeconds=delay
            )
        except (ClientError, BotoCoreError) as error:
            logger.warning("message not queued", queue=queue, error=type(error).__name__)
            return False
        return True

    def send_looks(self, queue: str, looks: Sequence[LookMessage], now: datetime) -> None:
        """All that were planned together, each for its time. One that is lost is one look less."""
        for first in range(0, len(looks), _BATCH):
            try:
                self._client.send_message_batch(
                    QueueUrl=self._url(queue),
                    Entries=[
                        {
                            "Id": str(look.number),
                            "MessageBody": look.as_json(),
                            "DelaySeconds": _whole((look.at - now).total_seconds()),
                        }
                        for look in looks[first : first + _BATCH]
                    ],
                )
            except (ClientError, BotoCoreError) as error:
                logger.warning("looks not queued", queue=queue, error=type(error).__name__)
                return

    def give_up(self, queue: str, message_id: str, body: str) -> bool:
        """Make it a dead letter, with the id that its failures are counted under."""
        attributes = {"queue": queue, "messageId": message_id}
        try:
            self._client.send_message(
                QueueUrl=self._url("dead_letter"),
                MessageBody=body,
                DelaySeconds=0,
                MessageAttributes={
                    name: {"DataType": "String", "StringValue": value} for name, value in attributes.items()
                },
            )
        except (ClientError, BotoCoreError) as error:
            logger.warning("dead letter not queued", queue=queue, error=type(error).__name__)
            return False
        return True

    def put_back(self, queue: str, receipt_handle: str, wait_seconds: float) -> None:
        """Let a failed message come back after the wait; if SQS will not, its own time-out does it."""
        try:
            self._client.change_message_visibility(
                QueueUrl=self._url(queue),
                ReceiptHandle=receipt_handle,
                VisibilityTimeout=max(0, min(43_200, round(wait_seconds))),
            )
        except (ClientError, BotoCoreError) as error:
            logger.warning("message visibility not changed", queue=queue, error=type(error).__name__)


def _whole(seconds: float) -> int:
    return max(0, min(round(LONGEST_DELAY.total_seconds()), math.ceil(seconds)))


@dataclass(frozen=True)
class QueueDepth:
    waiting: int
    in_flight: int
    delayed: int


class QueueDepths:
    def __init__(self, client: "SQSClient", urls: Mapping[str, str], dead_letter_url: str) -> None:
        self._client = client
        self._urls = urls
        self._dead_letter_url = dead_letter_url

    @property
    def queues(self) -> tuple[str, ...]:
        return tuple(self._urls)

    def of(self, queue: str) -> QueueDepth:
        return self._read(self._urls[queue])

    def dead_letters_not_stored(self) -> int:
        """Those on their way to being records; one that cannot be stored is in flight most of the time."""
        depth = self._read(self._dead_letter_url)
        return depth.waiting + depth.in_flight

    def _read(self, url: str) -> QueueDepth:
        found = self._client.get_queue_attributes(
            QueueUrl=url,
            AttributeNames=[
                "ApproximateNumberOfMessages",
                "ApproximateNumberOfMessagesNotVisible",
                "ApproximateNumberOfMessagesDelayed",
            ],
        )["Attributes"]
        return QueueDepth(
            int(found["ApproximateNumberOfMessages"]),
            int(found["ApproximateNumberOfMessagesNotVisible"]),
            int(found["ApproximateNumberOfMessagesDelayed"]),
        )


class Topic:
    def __init__(self, client: "SNSClient", arn: str) -> None:
        self._client = client
        self._arn = arn

    def publish(self, announcement: Announcement) -> None:
        self._client.publish(
            TopicArn=self._arn,
            Message=announcement.body,
            MessageAttributes={
                name: {"DataType": "String", "StringValue": value}
                for name, value in announcement.attributes.items()
            },
        )


@dataclass(frozen=True)
class Secret:
    value: str = field(repr=False)
    version: str  # another one each time a value is put in


class Secrets:
    def __init__(
        self,
        client: "SecretsManagerClient",
        clock: Callable[[], datetime],
        trusted_seconds: float,
        invocation: Callable[[], int],
    ) -> None:
        self._client = client
        self._clock = clock
        self._trusted_seconds = trusted_seconds
        self._invocation = invocation
        self._held: dict[str, tuple[datetime, Secret]] = {}
        self._read_in: dict[str, int] = {}  # which invocation

    def read(self, secret_id: str) -> Secret:
        """The same to the end of an invocation: what one key has shown must not be counted for another, nor
        a purchase be made with one that nobody looked at."""
        now, invocation = self._clock(), self._invocation()
        held = self._held.get(secret_id)
        old = held is None or (now - held[0]).total_seconds() >= self._trusted_seconds
        if held is None or (old and self._read_in.get(secret_id) != invocation):
            held = (now, self._fetched(secret_id, held and held[1]))
            self._held[secret_id] = held
        self._read_in[secret_id] = invocation
        return held[1]

    def _fetched(self, secret_id: str, known: Secret | None) -> Secret:
        """What is known serves on where it cannot be read: secrets change seldom, and machines bill."""
        try:
            found = self._client.get_secret_value(SecretId=secret_id)
            return Secret(found["SecretString"], found["VersionId"])
        except (ClientError, BotoCoreError) as error:
            if known is None:
                raise
            logger.warning("secret not refreshed", error=type(error).__name__)
            return known
