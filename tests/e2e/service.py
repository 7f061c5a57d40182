"""The deployed service as a user meets it: over HTTP, with the simulator behind it."""

import time
from collections.abc import Callable
from typing import Any

import requests

from local.novita.client import Simulator
from local.stack import LocalStack
from tests.books import assert_books_balance, assert_no_gaps

PATIENCE_SECONDS = 40.0
_KEPT = ("key#", "deployment")


class Service:
    def __init__(self, stack: LocalStack) -> None:
        self.stack = stack
        self.simulator = Simulator(stack.simulator_url)
        self.dynamodb = stack.emulator.client("dynamodb")
        self.lambdas = stack.emulator.client("lambda")
        self.session = requests.Session()
        self.session.trust_env = False
        self.session.headers["Authorization"] = f"Bearer {stack.api_key}"

    def clean_slate(self) -> None:
        """As if just deployed: messages of an earlier test find no record and end."""
        self.simulator.reset()
        self.simulator.settings(bootSeconds=1, stopSeconds=0.5, removeSeconds=0.5, listLagSeconds=0)
        table = self.stack.table_name
        for page in self.dynamodb.get_paginator("scan").paginate(TableName=table):
            for item in page["Items"]:
                if not item["pk"]["S"].startswith(_KEPT):
                    key = {"pk": item["pk"], "sk": item["sk"]}
                    self.dynamodb.delete_item(TableName=table, Key=key)

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

    def instance(self, instance_id: str) -> dict[str, Any]:
        shown: dict[str, Any] = self.get(f"/api/instances/{instance_id}")
        return shown

    def events(self, instance_id: str) -> list[dict[str, Any]]:
        events: list[dict[str, Any]] = self.get(f"/api/instances/{instance_id}/events")["events"]
        assert_no_gaps(events)
        return events

    def statuses(self, instance_id: str) -> list[str]:
        """The statuses it went through, in order."""
        changes = [event for event in self.events(instance_id) if event["type"].startswith("instance.")]
        return [event["status"] for event in changes]

    def wait_for(self, instance_id: str, *statuses: str, seconds: float = PATIENCE_SECONDS) -> dict[str, Any]:
        shown: dict[str, Any] = {}

        def reached() -> bool:
            nonlocal shown
            shown = self.instance(instance_id)
            return shown["status"] in statuses

        assert self.wait(reached, seconds), f"still {shown}"
        return shown

    def wait(self, condition: Callable[[], Any], seconds: float = PATIENCE_SECONDS) -> bool:
        until = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > until:
                return False
            time.sleep(0.1)
        return True

    def sweep(self) -> None:
        """What the schedule does every minute, now."""
        self.invoke("Reconcile", "{}")

    def invoke(self, name: str, payload: str) -> Any:
        functions = self.lambdas.list_functions()["Functions"]
        arn = next(one["FunctionArn"] for one in functions if name in one["FunctionName"])
        answer = self.lambdas.invoke(FunctionName=arn, Payload=payload.encode())
        assert "FunctionError" not in answer, answer["Payload"].read()
        return answer["Payload"].read()

    def assert_books_balance(self) -> None:
        def balanced() -> bool:
            try:
                assert_books_balance(self.simulator, self.dynamodb, self.stack.table_name)
            except AssertionError:
                return False
            return True

        if not self.wait(balanced):
            assert_books_balance(self.simulator, self.dynamodb, self.stack.table_name)
