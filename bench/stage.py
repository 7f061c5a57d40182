"""The real handlers' surroundings for measuring: AWS and Novita emulated by processes of their own, and one
event for each function, of work that is really there to be done."""

import json
import logging
import os
import tempfile
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

from functions.announce.handler import handler as announce
from functions.shared.domain.instance.record import Queue
from functions.shared.domain.messages import StepMessage
from functions.shared.platform.observability import choose_metrics, logger
from functions.shared.stores.schema import IN_COMMON
from local.emulator import ACCESS_KEY, REGION, SECRET_KEY, Emulator
from local.novita.client import Simulator
from local.novita.process import running
from local.ports import Ports
from tests.integration.definition import table_definition
from tests.integration.harness import Context, Harness
from tests.integration.quick_emulator import QuickEmulator

Event = dict[str, Any]
BODY = {"name": "bench", "productName": "RTX 4090 24GB", "templateId": "107672"}
# Time passes in a bench, and nothing that is measured is to change its way for it.
SETTINGS = {
    "DETAILS_TTL": "3600",
    "PRODUCTS_TTL": "3600",
    "TEMPLATES_TTL": "3600",
    "BOOT_MAX_WAIT": "86400",
    "SHARE_LIST_FROM": "1000",
}


class Stage:
    def __init__(self, emulator: Emulator, simulator: Simulator) -> None:
        self._emulator = emulator
        self._simulator = simulator

    def harness(self, **settings: str) -> Harness:
        """A table and a Novita of its own. Its time is behind, so that what is waited for is over by now."""
        self._simulator.reset()
        self._simulator.settings(bootSeconds=5)
        made = Harness(self._emulator, self._simulator, table_definition(), {**SETTINGS, **settings})
        made.begin(datetime.now(UTC) - timedelta(minutes=5))
        return made

    def environment(self, harness: Harness) -> dict[str, str]:
        """Of a function's process."""
        access = {name: os.environ[name] for name in (*_access(self._emulator), "PATH")}
        lambda_sets = {"AWS_LAMBDA_FUNCTION_NAME": "function"}
        return {**harness.environment, **access, **lambda_sets, "METRICS": "alarms"}


def _access(emulator: Emulator) -> dict[str, str]:
    """And how bare functions read what is stored."""
    return {
        "IN_COMMON": b64encode(IN_COMMON).decode(),
        "AWS_ENDPOINT_URL": emulator.url,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
    }


@contextmanager
def stage() -> Iterator[Stage]:
    with (
        tempfile.TemporaryDirectory() as folder,
        QuickEmulator(Path(folder), Ports.free().emulator) as emulator,
        running() as simulator,
    ):
        os.environ |= _access(emulator)
        logging.getLogger().handlers.clear()  # the emulator's client logs there
        logger.setLevel(logging.CRITICAL)
        choose_metrics("off")
        yield Stage(emulator, simulator)


def request(harness: Harness, method: str, path: str, body: Any = None, query: str = "") -> Event:
    """As the gateway hands it to the function."""
    return {
        "version": "2.0",
        "routeKey": "$default",
        "rawPath": path,
        "rawQueryString": query,
        "queryStringParameters": dict(part.split("=", 1) for part in query.split("&") if part),
        "headers": {
            "authorization": f"Bearer {harness.key}",
            "content-type": "application/json",
            "accept": "*/*",
            "user-agent": "bench",
            **({"idempotency-key": str(uuid4())} if body else {}),  # as every client sends it
        },
        "requestContext": {
            "http": {"method": method, "path": path, "sourceIp": "192.0.2.1"},
            "stage": "$default",
            "requestId": "gateway",
        },
        "body": json.dumps(body) if body else None,
        "isBase64Encoded": False,
    }


def asked_anew(event: Event) -> None:
    """The same again would be answered from what the first was answered."""
    if "idempotency-key" in event.get("headers", {}):
        event["headers"]["idempotency-key"] = str(uuid4())


def instance(harness: Harness, wanted: Callable[[str], bool], **body: Any) -> str:
    """One of its own, taken step by step until it is as wanted."""
    instance_id = harness.create(**BODY | body)
    for _ in range(40):
        if wanted(instance_id):
            return instance_id
        record = harness.record(instance_id)
        due = record.next_check_at or harness.now()
        harness.advance(max(0.0, (due - harness.now()).total_seconds()) + 0.001)
        harness.deliver_now(instance_id)
    raise AssertionError(f"{instance_id} is {harness.record(instance_id).status}")


def running_instance(harness: Harness) -> str:
    return instance(harness, lambda id_: harness.record(id_).at_rest)


def step_event(harness: Harness, instance_id: str) -> Event:
    record = harness.record(instance_id)
    message = StepMessage(record.id, record.token, record.correlation_id)
    return {"Records": [harness.as_received(record.queue, message.as_json(), receiptHandle="handle")]}


def create_event(harness: Harness) -> Event:
    return step_event(harness, harness.create(**BODY))


def monitor_event(harness: Harness) -> Event:
    """A machine that is coming up, and is not up yet."""
    bought = instance(harness, lambda id_: harness.record(id_).queue is Queue.MONITOR)
    return step_event(harness, bought)


def startup_event(harness: Harness) -> Event:
    def checked(instance_id: str) -> bool:
        return harness.record(instance_id).queue is Queue.STARTUP

    return step_event(harness, instance(harness, checked, healthCheck={}))


def announce_event(harness: Harness) -> Event:
    """The first event of an instance with a webhook, as the table's stream brings it."""
    made = harness.create(**BODY, webhookUrl=harness.simulator.inbox_url("bench"))
    (image,) = (one for one in harness.items() if one["pk"]["S"] == made and "event#" in one["sk"]["S"])
    return {"Records": [{"dynamodb": {"NewImage": image}}]}


def webhook_event(harness: Harness) -> Event:
    """The first attempt at a delivery that was made just now."""
    _drain(harness, "webhook")
    with harness.wire.handling("announce"):
        announce(announce_event(harness), Context())
    return {"Records": harness.receive("webhook")}


def _drain(harness: Harness, queue: str) -> None:
    while harness.receive(queue):
        pass


def dead_letters_event(harness: Harness) -> Event:
    """One that a function gave up: its instance fails."""
    record = harness.record(harness.create(**BODY))
    body = StepMessage(record.id, record.token, record.correlation_id).as_json()
    given = {"queue": {"stringValue": "create"}, "messageId": {"stringValue": str(uuid4())}}
    return {"Records": [harness.as_received("dead", body, messageAttributes=given)]}
