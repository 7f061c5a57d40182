"""One request followed by its correlation id, through everything that comes of it."""

import json
import logging
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import pytest

from functions.shared.platform.observability import logger
from local.novita.client import Simulator
from tests.integration.conftest import Build
from tests.integration.dead_letters import break_purchases, deliver_all, mend_purchases
from tests.integration.harness import Harness
from tests.integration.wire import Made, sent

Lines = dict[str, list[dict[str, Any]]]


@pytest.fixture
def correlation_id() -> str:
    return f"follow-{uuid4().hex}"


@contextmanager
def logged_by_function(harness: Harness) -> Iterator[Lines]:
    """Every line of ours, under the function that was running."""
    lines: Lines = defaultdict(list)

    class Sorted(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines[harness.wire.handler].append(json.loads(self.format(record)))

    handler = Sorted()
    handler.setFormatter(logger.registered_formatter)
    ours = logging.getLogger("ostler")
    ours.addHandler(handler)
    try:
        yield lines
    finally:
        ours.removeHandler(handler)


def strangers(lines: Lines, correlation_id: str) -> list[tuple[str, dict[str, Any]]]:
    """Lines about an instance, a delivery or an event that do not say what they belong to."""
    return [
        (function, line)
        for function, some in lines.items()
        for line in some
        if line.get("correlation_id") != correlation_id and line["message"] not in ("swept", "compared")
    ]


def messages(calls: list[Made]) -> list[dict[str, Any]]:
    return [sent(call) for call in calls if call.name.startswith("SendMessage")]


def create(harness: Harness, correlation_id: str, **more: Any) -> str:
    body = {"name": "test", "productName": "RTX 4090 24GB", "templateId": "107672", **more}
    status, answer = harness.call("POST", "/api/instances", body, {"x-correlation-id": correlation_id})
    assert status == 201
    return str(answer["instanceId"])


def stored_events(harness: Harness) -> list[dict[str, Any]]:
    found = [item for item in harness.items() if item["sk"]["S"].startswith("event#")]
    return [item["event"]["M"] for item in found]


def asked_of(novita: Simulator) -> set[str]:
    """The correlation ids of all calls so far, `` for those without one."""
    return {call["headers"].get("X-Correlation-ID", "") for call in novita.calls()}


def test_a_create_is_followed_from_the_request_to_the_webhook(harness: Harness, correlation_id: str) -> None:
    harness.simulator.clear_calls()
    harness.wire.calls.clear()

    with logged_by_function(harness) as lines:
        create(harness, correlation_id, webhookUrl=harness.simulator.inbox_url("followed"), healthCheck={})
        harness.settle()
        deliver_all(harness)

    assert {"api", "create", "monitor", "startup", "announce", "webhook"} <= lines.keys()
    assert strangers(lines, correlation_id) == []
    queued = messages(harness.wire.calls)
    assert {message["correlation_id"] for message in queued} == {correlation_id}
    assert any("delivery_id" in message for message in queued)
    assert {event["correlation_id"]["S"] for event in stored_events(harness)} == {correlation_id}
    told = [call.params for call in harness.wire.calls if call.name == "Publish"]
    assert len(told) >= 4
    assert {json.loads(one["Message"])["data"]["correlationId"] for one in told} == {correlation_id}
    received = harness.simulator.inbox("followed")
    assert {one["headers"]["x-correlation-id"] for one in received} == {correlation_id}
    assert {json.loads(one["body"])["data"]["correlationId"] for one in received} == {correlation_id}
    assert len(received) == len(told)
    assert correlation_id in asked_of(harness.simulator)
    assert asked_of(harness.simulator) <= {correlation_id, ""}
    without = [
        call["path"] for call in harness.simulator.calls() if "X-Correlation-ID" not in call["headers"]
    ]
    assert all(path.endswith("/gpu/instances") for path in without), "only the sweep's list is for everybody"


def test_a_failure_is_followed_to_its_dead_letter_and_what_the_instance_comes_to(
    build: Build, correlation_id: str
) -> None:
    harness = build(RETRY_BASE_SECONDS="0")
    with logged_by_function(harness) as lines:
        create(harness, correlation_id)
        break_purchases(harness)
        deliver_all(harness)
    mend_purchases(harness)
    harness.settle()

    assert [line["message"] for line in lines["create"]].count("message failed") == 4
    assert "dead letter" in [line["message"] for line in lines["dead_letters"]]
    assert strangers(lines, correlation_id) == []
    _, answer = harness.call("GET", "/api/jobs/dead")
    assert [dead_letter["correlationId"] for dead_letter in answer["deadLetters"]] == [correlation_id]


def test_what_cannot_be_announced_says_which_request_it_belongs_to(
    harness: Harness, correlation_id: str
) -> None:
    def refuse(made: Made) -> None:
        if made.name == "Publish":
            raise ConnectionError("no topic")

    harness.wire.before = refuse
    with logged_by_function(harness) as lines:
        create(harness, correlation_id)
        harness.announce()
    harness.wire.before = None
    harness.settle()

    assert [line["message"] for line in lines["announce"]] == ["event not announced"]
    assert strangers(lines, correlation_id) == []


def test_what_the_sweep_does_about_an_instance_carries_its_id(harness: Harness, correlation_id: str) -> None:
    instance_id = create(harness, correlation_id)
    harness.settle()
    machine = harness.record(instance_id).machine.id or ""
    harness.simulator.patch_instance(machine, status="exited")
    harness.advance(60)  # so soon after a change, Novita is asked about the machine itself
    harness.simulator.clear_calls()

    with logged_by_function(harness) as lines:
        harness.sweep()

    assert harness.record(instance_id).status == "exited"
    assert "instance.exited" in [line["message"] for line in lines["sweep"]]
    assert strangers(lines, correlation_id) == []
    assert asked_of(harness.simulator) == {"", correlation_id}
    harness.simulator.patch_instance(machine, status="running")
    harness.sweep()
    harness.settle()


@pytest.mark.parametrize(
    ("key", "path", "status", "who"),
    [
        (True, "/api/instances", 200, "key_"),
        (False, "/api/instances", 401, "anonymous"),
        (True, "/api/instances/inst_none", 404, "key_"),
        (False, "/health", 200, "anonymous"),
    ],
)
def test_each_request_leaves_one_line_that_the_gateways_own_id_joins_to_the_access_log(
    harness: Harness, correlation_id: str, key: bool, path: str, status: int, who: str
) -> None:
    harness.call("GET", "/api/instances")  # whoever asked before is not taken for whoever asks now
    headers = {"x-correlation-id": correlation_id, "x-request-id": "mine"}

    with logged_by_function(harness) as lines:
        harness.call("GET", path, headers=headers if key else {**headers, "authorization": "Bearer no"})

    (line,) = (one for one in lines["api"] if one["message"] == "request answered")
    assert (line["method"], line["route"], line["status"]) == ("GET", path, status)
    assert (line["request_id"], line["correlation_id"]) == ("mine", correlation_id)
    assert line["caller"].startswith(who)
    assert line["duration_ms"] >= 0
    assert line["gateway_request_id"] == "gateway"
