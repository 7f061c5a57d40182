"""The deployed service as a user meets it: over HTTP, with the simulator behind it."""

import json
import re
import time
import zlib
from base64 import b64decode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import requests
from standardwebhooks import Webhook

from functions.shared.domain.delivery.webhooks import derive_secret, origin_of, read_master, show_secret
from functions.shared.domain.messages import StepMessage
from functions.shared.stores.schema import unpack
from local.novita.client import Simulator
from local.stack import LocalStack
from tests.books import assert_books_balance, assert_no_gaps

Json = dict[str, Any]

PATIENCE_SECONDS = 40.0
_KEPT = ("key#", "novita-key#", "deployment", "cursors")  # warm functions hold them
_QUICK = {
    "bootSeconds": 1,
    "startSeconds": 0.5,
    "stopSeconds": 0.5,
    "restartSeconds": 0.5,
    "removeSeconds": 0.5,
    "listLagSeconds": 0,
    "removedVisibleSeconds": 60,  # without it, only the settling time tells that a machine is gone
}


def _inflated(packed: str) -> str:
    """What a cache holds; of one in several parts its first part."""
    try:
        return zlib.decompressobj().decompress(b64decode(packed)).decode(errors="replace")
    except zlib.error:
        return ""


class Service:
    def __init__(self, stack: LocalStack) -> None:
        self.stack = stack
        self.simulator = Simulator(stack.simulator_url)
        self.dynamodb = stack.emulator.client("dynamodb")
        self.lambdas = stack.emulator.client("lambda")
        self.sqs = stack.emulator.client("sqs")
        self.session = requests.Session()
        self.session.trust_env = False
        self.session.headers["Authorization"] = f"Bearer {stack.api_key}"

    def clean_slate(self) -> None:
        """As if just deployed: messages of an earlier test find no record and end."""
        self.simulator.reset()
        self.simulator.settings(**_QUICK)
        for item in self.items():
            if not item["pk"]["S"].startswith(_KEPT):
                key = {"pk": item["pk"], "sk": item["sk"]}
                self.dynamodb.delete_item(TableName=self.stack.table_name, Key=key)

    def items(self) -> list[Json]:
        pages = self.dynamodb.get_paginator("scan").paginate(
            TableName=self.stack.table_name, ConsistentRead=True
        )
        return [item for page in pages for item in page["Items"]]

    def stored(self) -> str:
        """All that can be read in the table, what is compressed too: records, deliveries and caches."""
        told = json.dumps(self.items(), default=unpack)
        return "\n".join([told, *map(_inflated, re.findall(r'"packed": {"S": "([^"]+)"', told))])

    def log(self) -> str:
        """Everything that functions have logged so far."""
        return self.stack.state.log("functions").read_text()

    def call(self, method: str, path: str, body: Any = None, **options: Any) -> requests.Response:
        return self.session.request(method, self.stack.api_url + path, json=body, timeout=60, **options)

    def get(self, path: str) -> Any:
        answer = self.call("GET", path)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def create(self, **body: Any) -> str:
        request = {"name": "test", "productName": "RTX 4090 24GB", "templateId": "107672"} | body
        answer = self.call("POST", "/api/instances", request)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["instanceId"])

    def take_over(self, status: str = "running", **machine: Any) -> str:
        """A machine that somebody else bought, imported as it is: quicker than a create of our own."""
        body = {"name": "theirs", "ports": "80/http,22/tcp", **machine}
        made = self.simulator.put_instance(status=status, **body)
        answer = self.call("POST", "/api/instances/import", {"novitaInstanceId": made["id"]})
        assert answer.status_code == 201, answer.text
        return str(answer.json()["instanceId"])

    def instance(self, instance_id: str) -> Json:
        found: Json = self.get(f"/api/instances/{instance_id}")
        return found

    def operate(self, instance_id: str, what: str, body: Any = None) -> str:
        """Begin a start, stop, restart or delete; the operation's id."""
        path = f"/api/instances/{instance_id}"
        answer = self.call("DELETE", path) if what == "delete" else self.call("POST", f"{path}/{what}", body)
        assert answer.status_code == 202, answer.text
        return str(answer.json()["operationId"])

    def operation(self, operation_id: str) -> Json:
        found: Json = self.get(f"/api/operations/{operation_id}")
        return found

    def events(self, instance_id: str) -> list[Json]:
        events: list[Json] = self.get(f"/api/instances/{instance_id}/events")["events"]
        assert_no_gaps(events)
        return events

    def statuses(self, instance_id: str) -> list[str]:
        """The statuses it went through, in order."""
        return [
            one["status"] for one in self.events(instance_id) if one["type"] == f"instance.{one['status']}"
        ]

    def wait_for(self, instance_id: str, *statuses: str, seconds: float = PATIENCE_SECONDS) -> Json:
        found: Json = {}

        def reached() -> bool:
            nonlocal found
            found = self.instance(instance_id)
            return found["status"] in statuses

        assert self.wait(reached, seconds), f"still {found}"
        return found

    def wait(self, condition: Callable[[], Any], seconds: float = PATIENCE_SECONDS) -> bool:
        until = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > until:
                return False
            time.sleep(0.2)
        return True

    def opened(self, message: Json, url: str) -> Json:
        """What a webhook says, once a receiver's own library has checked that it is genuine."""
        master = read_master((self.stack.state.path / "webhook-secret").read_text())
        secret = show_secret(derive_secret(master, origin_of(url)))
        payload: Json = Webhook(secret).verify(message["body"], message["headers"])
        return payload

    def subscribed(self, filter_policy: Json | None = None) -> str:
        """A queue of its own that the topic's events go to, as far as the filter lets them; its address."""
        topic = self.stack.outputs["TopicArn"]
        allowed = {
            "Effect": "Allow",
            "Principal": {"Service": "sns.amazonaws.com"},
            "Action": "sqs:SendMessage",
            "Resource": "*",
            "Condition": {"ArnEquals": {"aws:SourceArn": topic}},
        }
        policy = json.dumps({"Version": "2012-10-17", "Statement": [allowed]})
        name = f"subscriber-{uuid4().hex[:8]}"
        queue = str(self.sqs.create_queue(QueueName=name, Attributes={"Policy": policy})["QueueUrl"])
        made = self.sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])
        filtering = {"FilterPolicy": json.dumps(filter_policy)} if filter_policy else {}
        self.stack.emulator.client("sns").subscribe(
            TopicArn=topic,
            Protocol="sqs",
            Endpoint=made["Attributes"]["QueueArn"],
            Attributes={"RawMessageDelivery": "true", **filtering},
        )
        return queue

    def received(self, queue: str) -> list[str]:
        """What is in a queue now, taken out of it."""
        texts: list[str] = []
        while messages := self.sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10).get("Messages"):
            for message in messages:
                texts.append(message["Body"])
                self.sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
        return texts

    def add_dead_letter(self, instance_id: str) -> str:
        """A message about it, as SQS would put it there after the last retry; the id of its dead letter."""
        work = self.stack.outputs["CreateQueueUrl"]
        asked = self.sqs.get_queue_attributes(QueueUrl=work, AttributeNames=["RedrivePolicy"])
        dead = json.loads(asked["Attributes"]["RedrivePolicy"])["deadLetterTargetArn"].rpartition(":")[2]
        queue = self.sqs.get_queue_url(QueueName=dead)["QueueUrl"]
        body = StepMessage(instance_id, "a token", "").as_json()
        self.sqs.send_message(QueueUrl=queue, MessageBody=body)
        assert self.wait(lambda: self.get("/api/jobs/dead")["deadLetters"])
        (found,) = self.get("/api/jobs/dead")["deadLetters"]
        return str(found["id"])

    @contextmanager
    def at_a_standstill(self, queue: str) -> Iterator[str]:
        """Nobody takes messages from the queue; its address."""
        url = self.stack.outputs[f"{queue.capitalize()}QueueUrl"]
        sources = self.lambdas.list_event_source_mappings()["EventSourceMappings"]
        name = url.rsplit("/", 1)[1]
        source = next(one["UUID"] for one in sources if one["EventSourceArn"].endswith(f":{name}"))
        self.lambdas.update_event_source_mapping(UUID=source, Enabled=False)
        try:
            yield url
        finally:
            self.lambdas.update_event_source_mapping(UUID=source, Enabled=True)

    @contextmanager
    def short_lived(self, name: str, seconds: int) -> Iterator[None]:
        """The function may run no longer than that."""
        arn = self._arn(name)
        whole = self.lambdas.get_function_configuration(FunctionName=arn)["Timeout"]
        self.lambdas.update_function_configuration(FunctionName=arn, Timeout=seconds)
        try:
            yield
        finally:
            self.lambdas.update_function_configuration(FunctionName=arn, Timeout=whole)

    def sum_costs(self) -> None:
        """By a sweep that finds no sums: those of a moment ago would do for minutes."""
        for item in self.items():
            if item["pk"]["S"].startswith("costs#") and item["sk"]["S"].startswith("sum"):
                key = {"pk": item["pk"], "sk": item["sk"]}
                self.dynamodb.delete_item(TableName=self.stack.table_name, Key=key)
        self.sweep()

    def sweep(self) -> None:
        """What the schedule does every minute, now."""
        self.invoke("Reconcile", "{}")

    def invoke(self, name: str, payload: str) -> Any:
        answer = self.lambdas.invoke(FunctionName=self._arn(name), Payload=payload.encode())
        assert "FunctionError" not in answer, answer["Payload"].read()
        return answer["Payload"].read()

    def _arn(self, name: str) -> str:
        functions = self.lambdas.list_functions()["Functions"]
        return str(next(one["FunctionArn"] for one in functions if name in one["FunctionName"]))

    def assert_books_balance(self) -> None:
        def balanced() -> bool:
            try:
                assert_books_balance(self.simulator, self.dynamodb, self.stack.table_name)
            except AssertionError:
                return False
            return True

        if not self.wait(balanced):
            assert_books_balance(self.simulator, self.dynamodb, self.stack.table_name)
