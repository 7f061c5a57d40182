"""The real handlers in this process, against a real DynamoDB, SQS and SNS API over HTTP, in virtual time.

Delayed messages stay in the queue for real seconds; as time here is virtual, the sweep sends what is due.
"""

import json
import re
from collections.abc import Callable, Mapping
from contextvars import copy_context
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, TypeVar
from uuid import uuid4

from aws_lambda_powertools.event_handler.api_gateway import BaseRouter
from aws_lambda_powertools.utilities.typing import LambdaContext

from functions.announce.handler import handler as announce
from functions.api.handler import _app as api_app
from functions.api.handler import handler as api
from functions.create.handler import handler as create
from functions.dead_letters.handler import handler as handle_dead_letters
from functions.monitor.handler import handler as monitor
from functions.reconcile.handler import handler as reconcile
from functions.shared.domain.instance.record import Instance
from functions.shared.domain.messages import MORE_DELIVERIES, StepMessage
from functions.shared.platform import wiring
from functions.shared.stores.instances import read_record
from functions.shared.stores.table import unmarshal
from functions.startup.handler import handler as startup
from functions.webhook.handler import handler as webhook
from local.emulator import Emulator
from local.novita.client import Simulator
from ops import keys
from tests.books import assert_books_balance, assert_no_gaps
from tests.costs import WITHIN
from tests.integration.quick_http import send_quickly
from tests.integration.wire import LEAN, Killed, WatchedSettings, WatchedWiring, Wire

T = TypeVar("T")

CONSUMERS: dict[str, Callable[..., Any]] = {
    "create": create,
    "monitor": monitor,
    "startup": startup,
    "webhook": webhook,
}
# In the middle of a month, with all of its day ahead: at midnight costs are booked, which tests that count
# writes do not mean. Those about days and months go there by themselves.
BEGIN = datetime(2026, 3, 11, 6, 17, 23, 456000, tzinfo=UTC)
_EVERY_MINUTE = timedelta(minutes=1)
_TICK = timedelta(milliseconds=7)  # what a call to Novita takes
_ARN = "arn:aws:sqs:us-east-1:000000000000:"
MASTER = "a master secret of at least twenty-four bytes"


class Context(LambdaContext):
    _function_name = "function"
    _memory_limit_in_mb = 512
    _invoked_function_arn = "arn:aws:lambda:us-east-1:000000000000:function:function"
    _aws_request_id = "request"

    @staticmethod
    def get_remaining_time_in_millis() -> int:
        return 90_000


class Harness:
    def __init__(
        self,
        emulator: Emulator,
        simulator: Simulator,
        table: dict[str, Any],
        settings: dict[str, str],
        wired_by: type[WatchedWiring] = WatchedWiring,
    ) -> None:
        self.simulator = simulator
        self._wired_by = wired_by
        self.skew: Callable[[], timedelta] = timedelta  # how far the clock of a new environment is off
        self.wire = Wire()
        self._overdue: tuple[datetime | None, int] = (None, 0)  # what has not moved, and how often not
        self.announcing = True
        self.costs_within = WITHIN  # of Novita's own times, where it does not tell them
        self.source_ip = "192.0.2.1"  # of callers
        self.outbound_hangs: Callable[[], bool] = lambda: False  # no answer from whoever is asked now
        # Whether an invocation about this instance begins in a new environment.
        self.cold: Callable[[str], bool] = lambda _: False
        self.dynamodb, self.sqs, self.sns, self._secrets = (
            _client(emulator, service) for service in ("dynamodb", "sqs", "sns", "secretsmanager")
        )
        name = f"harness-{uuid4().hex[:12]}"
        self.table_name = name
        self.dynamodb.create_table(TableName=name, **table)
        self.dead_letter_queue = self._queue(f"{name}-dead")
        receives = int(settings.get("MAX_RETRY_ATTEMPTS", "3")) + 1 + MORE_DELIVERIES
        self.queues = {
            queue: self._queue(
                f"{name}-{queue}",
                RedrivePolicy=json.dumps(
                    {"deadLetterTargetArn": f"{_ARN}{name}-dead", "maxReceiveCount": receives}
                ),
            )
            for queue in CONSUMERS
        }
        self._secrets.create_secret(Name=f"{name}-novita", SecretString="novita-key")
        self._secrets.create_secret(
            Name=f"{name}-webhook", SecretString=json.dumps({"current": MASTER, "previous": ""})
        )
        self.topic = self.sns.create_topic(Name=name)["TopicArn"]
        self.environment = {
            "TABLE_NAME": name,
            "TOPIC_ARN": self.topic,
            **{f"{queue.upper()}_QUEUE_URL": url for queue, url in self.queues.items()},
            "DEAD_LETTER_QUEUE_URL": self.dead_letter_queue,
            "NOVITA_SECRET_ID": f"{name}-novita",
            "WEBHOOK_SECRET_ID": f"{name}-webhook",
            "NOVITA_API_BASE_URL": simulator.api_url,
            "OUTBOUND_ALLOW_CIDRS": "127.0.0.1/32",
            "NOVITA_RATE_LIMIT": "10000",
            "SWEEP_GRACE_SECONDS": "0",
            "LOOK_INTERVAL": "900",  # none between steps: their messages come in real seconds, by chance
            # Time stands still here while a test asks a thousand times.
            "REQUESTS_PER_CALLER": "1000000",
            "REQUESTS_PER_STRANGER": "1000000",
            **settings,
        }
        self.table = _tables(emulator).Table(name)
        self.key = keys.new_key()
        self.add_key(self.key, *keys.SCOPES)
        self.begin(BEGIN)
        self.wiring.key_trust.trust("harness")  # as after the first sweep of a deployment
        self.wire.calls.clear()

    def forget(self) -> None:
        """Its table, which would stay in this process with those of all other tests."""
        self.dynamodb.delete_table(TableName=self.table_name)

    def add_key(self, key: str, *scopes: str) -> str:
        """The id that the key is known and revoked by."""
        return keys.create_key(self.table, name="harness", scopes=scopes, key=key).id

    def revoke_key(self, key_id: str) -> None:
        assert keys.revoke_key(self.table, key_id)

    def put_secret(self, name: str, value: str) -> None:
        self._secrets.put_secret_value(SecretId=f"{self.table_name}-{name}", SecretString=value)

    def _queue(self, name: str, **attributes: str) -> str:
        return str(self.sqs.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"])

    def begin(self, now: datetime) -> None:
        self._now = self._swept_at = now
        self._failed = False
        self._ticked = timedelta()
        self.simulator.stand_still(now.timestamp())
        self.restart()

    def restart(self) -> None:
        """All functions cold: nothing is remembered but what the table holds."""
        skew = self.skew()
        settings = WatchedSettings.read(self.environment)
        object.__setattr__(settings, "wire", self.wire)
        self.wiring = self._wired_by(settings, lambda: self._now + skew, self.advance)
        self.wiring.wire = self.wire
        self.wiring.tick = self.tick
        self.wiring.true_now = self.now
        wiring.use(self.wiring)

    def tick(self) -> None:
        """A moment passes, of which the simulator is told when more time does."""
        self._now += _TICK
        self._ticked += _TICK

    def _begin_invocation(self, about: str) -> None:
        """No two begin in the same moment: the steps of an instance are told apart by their time."""
        self.tick()
        if self.cold(about):
            self.restart()

    def elsewhere(self, work: Callable[[], T]) -> T:
        """Do it in another environment, in the middle of whatever this one is doing."""
        here, event, context = self.wiring, getattr(BaseRouter, "current_event", None), {**api_app.context}
        try:
            with self.wire.silent():
                self.restart()
                return copy_context().run(work)
        finally:
            self.wiring = here
            wiring.use(here)
            BaseRouter.current_event = event  # type: ignore[assignment]  # Powertools sets it so, too
            api_app.context.update(context)

    def now(self) -> datetime:
        return self._now

    def advance(self, seconds: float) -> None:
        self.pass_unseen(seconds)
        self.tell_time()

    def pass_unseen(self, seconds: float) -> None:
        """Time passes, and the simulator is not told before somebody asks it."""
        self._now += timedelta(seconds=seconds)
        self._ticked += timedelta(seconds=seconds)

    def tell_time(self) -> None:
        self.simulator.advance(self._ticked.total_seconds())
        self._ticked = timedelta()

    # The API

    def call(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str | None] | None = None
    ) -> tuple[int, Any]:
        """A header that is None is left out, the key's too."""
        given = {"authorization": f"Bearer {self.key}", **(headers or {})}
        raw = body if isinstance(body, str) or body is None else json.dumps(body)
        route, _, query = path.partition("?")
        event = {
            "version": "2.0",
            "routeKey": "$default",
            "rawPath": route,
            "rawQueryString": query,
            "queryStringParameters": dict(part.split("=", 1) for part in query.split("&") if part),
            "headers": {name: value for name, value in given.items() if value is not None},
            "requestContext": {
                "http": {"method": method, "path": route, "sourceIp": self.source_ip},
                "stage": "$default",
                "requestId": "gateway",
            },
            "body": raw,
            "isBase64Encoded": False,
        }
        self._begin_invocation(self.wire.about)
        with self.wire.handling("api", self.wire.about):
            answer = api(event, Context())
        return answer["statusCode"], json.loads(answer["body"])

    def create(self, **body: Any) -> str:
        request = {"name": "test", "productName": "RTX 4090 24GB", "templateId": "107672"} | body
        status, answer = self.call("POST", "/api/instances", request)
        assert status == 201, answer
        return str(answer["instanceId"])

    def record(self, instance_id: str) -> Instance:
        return read_record(unmarshal(self._item({"pk": {"S": instance_id}, "sk": {"S": "record"}})))

    def history(self, instance_id: str) -> list[str]:
        """The types of its events, in order; a gap in their numbers is an error."""
        _, answer = self.call("GET", f"/api/instances/{instance_id}/events")
        assert_no_gaps(answer["events"])
        return [event["type"] for event in answer["events"]]

    # Messages

    def receive(self, queue: str, **options: Any) -> list[dict[str, Any]]:
        """Take what is in a queue now, as Lambda would hand it to the function; nothing is deleted."""
        answer = self.sqs.receive_message(
            QueueUrl=self.queues[queue], MaxNumberOfMessages=10, AttributeNames=["All"], **options
        )
        return [
            self.as_received(
                queue,
                message["Body"],
                messageId=message["MessageId"],
                receiptHandle=message["ReceiptHandle"],
                attributes=message["Attributes"],
            )
            for message in answer.get("Messages", [])
        ]

    def handle(self, queue: str, record: dict[str, Any]) -> bool:
        """Whether the function took the message; one that it took is gone from the queue."""
        about = _subject(record["body"])
        self._begin_invocation(about)
        try:
            with self.wire.handling(queue, about):
                answer = CONSUMERS[queue]({"Records": [record]}, Context())
        except Killed:
            self.restart()
            self.redeliver(queue, record)
            return False
        if answer["batchItemFailures"]:
            self.wire.has_messages.add(queue)
            self._failed = True
            return False
        if handle := record["receiptHandle"]:
            self.sqs.delete_message(QueueUrl=self.queues[queue], ReceiptHandle=handle)
        return True

    def give_up(self, queue: str, body: str) -> None:
        """As a function does with what failed for the last time."""
        attributes = {"queue": queue, "messageId": str(uuid4())}
        self.sqs.send_message(
            QueueUrl=self.dead_letter_queue,
            MessageBody=body,
            MessageAttributes={
                name: {"DataType": "String", "StringValue": value} for name, value in attributes.items()
            },
        )

    def handle_dead_letters(self) -> int:
        """Hand every dead letter to the function that keeps them."""
        stored, url = 0, self.dead_letter_queue
        answer = self.sqs.receive_message(
            QueueUrl=url, MaxNumberOfMessages=10, AttributeNames=["All"], MessageAttributeNames=["All"]
        )
        for message in answer.get("Messages", []):
            given = message.get("MessageAttributes", {}).items()
            record = self.as_received(
                "dead",
                message["Body"],
                messageId=message["MessageId"],
                attributes=message["Attributes"],
                messageAttributes={name: {"stringValue": one["StringValue"]} for name, one in given},
            )
            about = _subject(message["Body"])
            self._begin_invocation(about)
            try:
                with self.wire.handling("dead_letters", about):
                    failures = handle_dead_letters({"Records": [record]}, Context())["batchItemFailures"]
            except Killed:
                self.restart()
                failures = [record]
            handle = {"QueueUrl": url, "ReceiptHandle": message["ReceiptHandle"]}
            if failures:  # it is there again
                self.sqs.change_message_visibility(**handle, VisibilityTimeout=0)
                self._failed = True
            else:
                self.sqs.delete_message(**handle)
                stored += 1
        return stored

    def redeliver(self, queue: str, record: dict[str, Any]) -> None:
        """What SQS does when a function has died: the message is there again."""
        self._failed = True
        if not record["receiptHandle"]:
            return
        self.sqs.change_message_visibility(
            QueueUrl=self.queues[queue], ReceiptHandle=record["receiptHandle"], VisibilityTimeout=0
        )
        self.wire.has_messages.add(queue)

    def deliver(self) -> int:
        """Hand every visible message to its function once, and every new event to the announcer."""
        handled = 0
        for queue in self.queues:
            if queue not in self.wire.has_messages:
                continue
            self.wire.has_messages.discard(queue)
            while records := self.receive(queue):
                for record in records:
                    self.handle(queue, record)
                handled += len(records)
        if self._failed or "dead" in self.wire.has_messages:  # perhaps SQS gave it up, or a function did
            self._failed = False
            self.wire.has_messages.discard("dead")
            handled += self.handle_dead_letters()
        return handled + (self.announce() if self.wire.news and self.announcing else 0)

    def deliver_delayed(self) -> None:
        """Hand over the delayed messages whose time has come."""
        for key in self._due("instance"):
            if int(key["dueAt"]["N"]) > self._now.timestamp() * 1000:
                return
            self.deliver_now(key["pk"]["S"])

    def deliver_now(self, instance_id: str) -> None:
        """Hand over the message that the instance waits for, even before its time."""
        record = self.record(instance_id)
        message = StepMessage(record.id, record.token, record.correlation_id)
        self.handle(record.queue, self.as_received(record.queue, message.as_json()))

    def as_received(self, queue: str, body: str, attempt: int = 1, **more: Any) -> dict[str, Any]:
        """From `<queue>-dead`: one that SQS made a dead letter of the queue."""
        attributes = {"ApproximateReceiveCount": str(attempt), "SentTimestamp": "0"}
        if queue.endswith("-dead"):
            source, _, queue = queue.rpartition("-")
            attributes["DeadLetterQueueSourceArn"] = f"{_ARN}{self.table_name}-{source}"
        return {
            "messageId": str(uuid4()),
            "receiptHandle": "",
            "body": body,
            "attributes": attributes,
            "messageAttributes": {},
            "eventSource": "aws:sqs",
            "eventSourceARN": f"{_ARN}{self.table_name}-{queue}",
            "awsRegion": "us-east-1",
            **more,
        }

    def announce(self) -> int:
        """What the table's stream does with every event that was written."""
        self.wire.news = False
        images = [self._item(key) for key in self._due("event")]
        for image in images:
            self._begin_invocation(image["pk"]["S"])
            try:
                with self.wire.handling("announce", image["pk"]["S"]):
                    announce({"Records": [{"dynamodb": {"NewImage": image}}]}, Context())
            except Killed:
                self.restart()
                self.wire.news = True
        return len(images)

    def sweep(self) -> dict[str, int | bool]:
        self._swept_at = self._now
        self._begin_invocation("")
        try:
            with self.wire.handling("sweep"):
                return reconcile({}, Context())
        except Killed:
            self.restart()
            return {}

    def settle(self, rounds: int = 400, *, only_sweeps: bool = False, schedule: bool = True) -> None:
        """Let everything happen that is due, in virtual time, until all instances are at rest.

        A sweep every minute, as the schedule has it, or without `schedule` only where nothing else goes on;
        `only_sweeps` loses every delayed message.
        """
        for _ in range(rounds):
            while self.deliver():
                pass
            due = self._next_due()
            if due is None:
                return
            self._go_on(due, only_sweeps, schedule)
        raise AssertionError(f"not at rest after {rounds} rounds: {[r.status for r in self.records()]}")

    def run(self, seconds: float) -> None:
        """Let everything happen that is due within this time."""
        end = self._now + timedelta(seconds=seconds)
        while True:
            while self.deliver():
                pass
            due = self._next_due()
            if due is None or due > end:
                break
            self._go_on(due)
        self.advance(max(0.0, (end - self._now).total_seconds()))

    def _go_on(self, due: datetime, only_sweeps: bool = False, schedule: bool = True) -> None:
        self.advance(max(0.0, (due - self._now).total_seconds()) + 0.001)
        began = self._now
        if not only_sweeps:
            self.deliver_delayed()
        due_still = self._next_due()
        overdue = due_still if due_still and due_still <= began else None
        times = self._overdue[1] + 1 if overdue and overdue == self._overdue[0] else 0
        self._overdue = (overdue, times)
        stuck = times >= (1 if schedule else 6)
        if only_sweeps or stuck or (schedule and self._now - self._swept_at >= _EVERY_MINUTE):
            self.sweep()

    def _next_due(self) -> datetime | None:
        due = self._due("instance")
        return datetime.fromtimestamp(int(due[0]["dueAt"]["N"]) / 1000, UTC) if due else None

    # The table

    def _due(self, kind: str) -> list[dict[str, Any]]:
        """Keys and times of what is due ever, the first one first."""
        answer = self.dynamodb.query(
            TableName=self.table_name,
            IndexName="due",
            KeyConditionExpression="due = :due",
            ExpressionAttributeValues={":due": {"S": kind}},
        )
        found: list[dict[str, Any]] = answer["Items"]
        return found

    def _item(self, key: dict[str, Any]) -> dict[str, Any]:
        answer = self.dynamodb.get_item(
            TableName=self.table_name, Key={"pk": key["pk"], "sk": key["sk"]}, ConsistentRead=True
        )
        item: dict[str, Any] = answer["Item"]
        return item

    def items(self) -> list[dict[str, Any]]:
        pages = self.dynamodb.get_paginator("scan").paginate(TableName=self.table_name, ConsistentRead=True)
        return [item for page in pages for item in page["Items"]]

    def records(self) -> list[Instance]:
        found = [unmarshal(item) for item in self.items() if item["sk"]["S"] == "record"]
        return [read_record(item) for item in found]

    def wipe(self) -> None:
        """Forget all instances: for tests of answers alone, whose instances never were."""
        for item in self.items():
            if item["pk"]["S"].startswith("inst_"):
                self.dynamodb.delete_item(TableName=self.table_name, Key={"pk": item["pk"], "sk": item["sk"]})

    @property
    def orphan_age(self) -> timedelta | None:
        """From when on orphans are deleted, if they are at all."""
        if self.environment.get("ORPHAN_POLICY") != "delete":
            return None
        return timedelta(seconds=float(self.environment.get("ORPHAN_AGE", "3600")))

    def assert_books_balance(self) -> None:
        assert_books_balance(
            self.simulator, self.dynamodb, self.table_name, self.orphan_age, self.costs_within
        )


def _subject(body: str) -> str:
    """The instance that a message is about, if it is one of ours."""
    found = re.search(r"(?:inst|dlv)_([0-9A-Z]{26})", body)
    return f"inst_{found[1]}" if found else ""


@cache
def _client(emulator: Emulator, service: str) -> Any:
    """Made once for all harnesses: it takes longer than most tests."""
    session = emulator.session()
    return send_quickly(session.client(service, endpoint_url=emulator.url, config=LEAN))  # type: ignore[call-overload]  # any service


@cache
def _tables(emulator: Emulator) -> Any:
    made = emulator.session().resource("dynamodb", endpoint_url=emulator.url)
    send_quickly(made.meta.client)
    return made
