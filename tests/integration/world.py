"""The real handlers in this process, against a real DynamoDB, SQS and SNS API over HTTP, in virtual time.

Delayed messages stay in the queue for real seconds; as time here is virtual, the sweep sends what is due.
"""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

from functions.announce.handler import handler as announce
from functions.api.handler import handler as api
from functions.create.handler import handler as create
from functions.monitor.handler import handler as monitor
from functions.reconcile.handler import handler as reconcile
from functions.shared import wiring
from functions.shared.adapters.items import read_record
from functions.shared.adapters.table import unmarshal
from functions.shared.domain.instance import Instance
from functions.shared.settings import Settings
from functions.startup.handler import handler as startup
from functions.webhook.handler import handler as webhook
from local import api_keys
from local.emulator import Emulator
from local.novita.client import Simulator
from tests.books import assert_books_balance

CONSUMERS: dict[str, Callable[..., Any]] = {
    "create": create,
    "monitor": monitor,
    "startup": startup,
    "webhook": webhook,
}
MASTER = "a master secret of at least twenty-four bytes"


class Context:
    function_name = "function"
    memory_limit_in_mb = 512
    invoked_function_arn = "arn:aws:lambda:us-east-1:000000000000:function:function"
    aws_request_id = "request"

    def get_remaining_time_in_millis(self) -> int:
        return 90_000


class World:
    def __init__(
        self, emulator: Emulator, simulator: Simulator, table: dict[str, Any], settings: dict[str, str]
    ) -> None:
        self.simulator = simulator
        self.dynamodb = emulator.client("dynamodb")
        self.sqs = emulator.client("sqs")
        self.sns = emulator.client("sns")
        name = f"world-{uuid4().hex[:12]}"
        self.table_name = name
        self.dynamodb.create_table(TableName=name, **table)
        self.queues = {
            queue: self.sqs.create_queue(QueueName=f"{name}-{queue}")["QueueUrl"] for queue in CONSUMERS
        }
        secrets = emulator.client("secretsmanager")
        secrets.create_secret(Name=f"{name}-novita", SecretString="novita-key")
        secrets.create_secret(
            Name=f"{name}-webhook", SecretString=json.dumps({"current": MASTER, "previous": ""})
        )
        self.topic = self.sns.create_topic(Name=name)["TopicArn"]
        self.environment = {
            "TABLE_NAME": name,
            "TOPIC_ARN": self.topic,
            **{f"{queue.upper()}_QUEUE_URL": url for queue, url in self.queues.items()},
            "NOVITA_SECRET_ID": f"{name}-novita",
            "WEBHOOK_SECRET_ID": f"{name}-webhook",
            "NOVITA_API_BASE_URL": simulator.api_url,
            "OUTBOUND_ALLOW_CIDRS": "127.0.0.1/32",
            "NOVITA_RATE_LIMIT": "10000",
            "SWEEP_GRACE_SECONDS": "0",
            **settings,
        }
        self.key = api_keys.new_key()
        api_keys.make(emulator.table(name), name="world", scopes=api_keys.SCOPES, key=self.key)
        self.begin(datetime.now(UTC))

    def begin(self, now: datetime) -> None:
        self._now = now
        self.simulator.stand_still(now.timestamp())
        self.restart()

    def restart(self) -> None:
        """All functions cold: nothing is remembered but what the table holds."""
        self.wiring = wiring.Wiring(Settings.read(self.environment), self.now, self.advance)
        wiring.use(self.wiring)

    def now(self) -> datetime:
        return self._now

    def advance(self, seconds: float) -> None:
        self._now += timedelta(seconds=seconds)
        self.simulator.advance(seconds)

    # The API

    def call(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> tuple[int, Any]:
        raw = body if isinstance(body, str) or body is None else json.dumps(body)
        route, _, query = path.partition("?")
        event = {
            "version": "2.0",
            "routeKey": "$default",
            "rawPath": route,
            "rawQueryString": query,
            "queryStringParameters": dict(part.split("=", 1) for part in query.split("&") if part),
            "headers": {"authorization": f"Bearer {self.key}", **(headers or {})},
            "requestContext": {
                "http": {"method": method, "path": route},
                "stage": "$default",
                "requestId": "gateway",
            },
            "body": raw,
            "isBase64Encoded": False,
        }
        answer = api(event, Context())
        return answer["statusCode"], json.loads(answer["body"])

    def create(self, **body: Any) -> str:
        request = {"name": "test", "productName": "RTX 4090 24GB", "templateId": "107672"} | body
        status, answer = self.call("POST", "/api/instances", request)
        assert status == 201, answer
        return str(answer["instanceId"])

    def record(self, instance_id: str) -> Instance:
        record = self.wiring.instances.get(instance_id)
        assert record is not None
        return record

    # Messages

    def receive(self, queue: str) -> list[dict[str, Any]]:
        """Take what is in a queue now, as Lambda would hand it to the function; nothing is deleted."""
        answer = self.sqs.receive_message(
            QueueUrl=self.queues[queue], MaxNumberOfMessages=10, AttributeNames=["All"]
        )
        return [
            {
                "messageId": message["MessageId"],
                "receiptHandle": message["ReceiptHandle"],
                "body": message["Body"],
                "attributes": message["Attributes"],
                "messageAttributes": {},
                "eventSource": "aws:sqs",
                "eventSourceARN": f"arn:aws:sqs:us-east-1:000000000000:{self.table_name}-{queue}",
                "awsRegion": "us-east-1",
            }
            for message in answer.get("Messages", [])
        ]

    def handle(self, queue: str, record: dict[str, Any]) -> bool:
        """Whether the function took the message; one that it took is gone from the queue."""
        answer = CONSUMERS[queue]({"Records": [record]}, Context())
        if answer["batchItemFailures"]:
            return False
        self.sqs.delete_message(QueueUrl=self.queues[queue], ReceiptHandle=record["receiptHandle"])
        return True

    def deliver(self) -> int:
        """Hand every visible message to its function once, and every new event to the announcer."""
        handled = 0
        for queue in self.queues:
            for record in self.receive(queue):
                self.handle(queue, record)
                handled += 1
        return handled + self.announce()

    def announce(self) -> int:
        images = [item for item in self.items() if "due" in item and item["due"]["S"] == "event"]
        announce({"Records": [{"dynamodb": {"NewImage": image}} for image in images]}, Context())
        return len(images)

    def sweep(self) -> dict[str, int]:
        counts: dict[str, int] = reconcile({}, Context())
        return counts

    def settle(self, rounds: int = 400) -> None:
        """Let everything happen that is due, in virtual time, until all instances are at rest."""
        for _ in range(rounds):
            while self.deliver():
                pass
            due = self._next_due()
            if due is None:
                return
            self.advance(max(0.0, (due - self._now).total_seconds()) + 0.001)
            self.sweep()
        raise AssertionError(f"not at rest after {rounds} rounds: {[r.status for r in self.records()]}")

    def _next_due(self) -> datetime | None:
        times = [record.next_check_at for record in self.records() if record.next_check_at]
        return min(times) if times else None

    # The table

    def items(self) -> list[dict[str, Any]]:
        pages = self.dynamodb.get_paginator("scan").paginate(TableName=self.table_name, ConsistentRead=True)
        return [item for page in pages for item in page["Items"]]

    def records(self) -> list[Instance]:
        found = [unmarshal(item) for item in self.items() if item["sk"]["S"] == "record"]
        return [read_record(item) for item in found]

    def assert_books_balance(self) -> None:
        assert_books_balance(self.simulator, self.dynamodb, self.table_name)
