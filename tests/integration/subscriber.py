"""A queue that is subscribed to the topic: what everybody who wants to know is told."""

import json
from typing import Any
from uuid import uuid4

from tests.integration.harness import Harness


class Subscriber:
    def __init__(self, harness: Harness, policy: dict[str, Any] | None = None) -> None:
        self._sqs = harness.sqs
        name = f"{harness.table_name}-{uuid4().hex}"
        self._url = harness.sqs.create_queue(QueueName=name)["QueueUrl"]
        wanted = ["QueueArn"]
        arn = harness.sqs.get_queue_attributes(QueueUrl=self._url, AttributeNames=wanted)["Attributes"][
            "QueueArn"
        ]
        attributes = {"FilterPolicy": json.dumps(policy)} if policy else {}
        harness.sns.subscribe(TopicArn=harness.topic, Protocol="sqs", Endpoint=arn, Attributes=attributes)

    def received(self) -> list[dict[str, Any]]:
        """Payloads, each with the attributes it came with."""
        found: list[dict[str, Any]] = []
        while messages := self._sqs.receive_message(QueueUrl=self._url, MaxNumberOfMessages=10).get(
            "Messages"
        ):
            for message in messages:
                envelope = json.loads(message["Body"])
                attributes = {k: v["Value"] for k, v in envelope["MessageAttributes"].items()}
                found.append(json.loads(envelope["Message"]) | {"attributes": attributes})
                self._sqs.delete_message(QueueUrl=self._url, ReceiptHandle=message["ReceiptHandle"])
        return found
