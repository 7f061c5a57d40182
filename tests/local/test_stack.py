"""The deployed stack: every function answers, and what was given reaches where it belongs."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import requests

from functions.shared.domain.messages import MORE_DELIVERIES, DeliveryMessage, StepMessage
from local.paths import ROOT
from local.ports import Ports
from local.stack import LocalStack
from ops.command import RefusalError
from ops.keys import create_key, list_keys, new_key, revoke_key

UNKNOWN_STEP = StepMessage("inst_01jd0000000000000000000000", "token", "test").as_json()
UNKNOWN_DELIVERY = DeliveryMessage("dlv_01jd0000000000000000000000", 1, "test").as_json()


def _message(body: str) -> dict[str, Any]:
    attributes = {
        "ApproximateReceiveCount": "1",
        "SentTimestamp": "1790000000000",
        "SenderId": "000000000000",
        "ApproximateFirstReceiveTimestamp": "1790000000000",
    }
    record = {
        "messageId": "1",
        "receiptHandle": "handle",
        "body": body,
        "attributes": attributes,
        "messageAttributes": {},
        "md5OfBody": "",
        "eventSource": "aws:sqs",
        "eventSourceARN": "arn:aws:sqs:us-east-1:000000000000:queue",
        "awsRegion": "us-east-1",
    }
    return {"Records": [record]}


CALL_NOVITA = {"api", "create", "monitor", "reconcile"}
HARMLESS = {
    "api": {
        "version": "2.0",
        "routeKey": "$default",
        "rawPath": "/health",
        "rawQueryString": "",
        "headers": {},
        "requestContext": {
            "requestId": "test",
            "stage": "$default",
            "http": {"method": "GET", "path": "/health", "sourceIp": "127.0.0.1", "protocol": "HTTP/1.1"},
        },
        "isBase64Encoded": False,
    },
    "create": _message(UNKNOWN_STEP),
    "monitor": _message(UNKNOWN_STEP),
    "startup": _message(UNKNOWN_STEP),
    "webhook": _message(UNKNOWN_DELIVERY),
    "dead_letters": _message(UNKNOWN_STEP),
    "announce": {"Records": []},
    "reconcile": {},
}


def test_every_function_answers_an_invocation(stack: LocalStack) -> None:
    client = stack.emulator.client("lambda")

    answered = {}
    for function in stack.deployed.functions:
        handler = client.get_function_configuration(FunctionName=function)["Handler"]
        name = handler.split(".")[1]
        answer = client.invoke(FunctionName=function, Payload=json.dumps(HARMLESS[name]))
        answered[name] = (answer.get("FunctionError"), answer["Payload"].read())

    assert answered.keys() == HARMLESS.keys()
    assert {name: payload for name, (failure, payload) in answered.items() if failure} == {}
    assert json.loads(answered["api"][1])["statusCode"] == 200


def test_settings_reach_the_functions_and_the_queues(tmp_path: Path) -> None:
    given = {"INSTANCE_POLL_INTERVAL": "2", "MAX_RETRY_ATTEMPTS": "1", "MAX_CONCURRENT_JOBS": "3"}

    with LocalStack(tmp_path, Ports.free(), given) as stack:
        client = stack.emulator.client("lambda")
        functions = [
            client.get_function_configuration(FunctionName=name) for name in stack.deployed.functions
        ]
        sources = client.list_event_source_mappings()["EventSourceMappings"]
        queue = stack.emulator.client("sqs").get_queue_attributes(
            QueueUrl=stack.outputs["CreateQueueUrl"], AttributeNames=["RedrivePolicy", "QueueArn"]
        )["Attributes"]

    environments = {each["Handler"].split(".")[1]: each["Environment"]["Variables"] for each in functions}
    for name, value, read_by in (
        ("INSTANCE_POLL_INTERVAL", "2", {*CALL_NOVITA, "startup", "dead_letters"}),
        ("MAX_CONCURRENT_JOBS", "3", {"startup", "webhook"}),
        ("OUTBOUND_ALLOW_CIDRS", "127.0.0.1/32", {"api", "startup", "webhook"}),
        ("NOVITA_API_BASE_URL", stack.simulator.api_url, CALL_NOVITA),
    ):
        reached = {function: given[name] for function, given in environments.items() if name in given}
        assert reached == dict.fromkeys(read_by, value)
    (limit,) = [each["ScalingConfig"] for each in sources if each["EventSourceArn"] == queue["QueueArn"]]
    assert limit == {"MaximumConcurrency": 3}
    assert int(json.loads(queue["RedrivePolicy"])["maxReceiveCount"]) == 2 + MORE_DELIVERIES


def test_a_second_copy_with_the_same_folder_is_refused(
    stack: LocalStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("local.stack.LOCK_SECONDS", 0.2)

    with pytest.raises(RefusalError, match="another copy"), LocalStack(stack.state.path, Ports.free()):
        pass


def test_secrets_are_where_the_functions_look(stack: LocalStack) -> None:
    secrets = stack.emulator.client("secretsmanager")
    master = (stack.state.path / "webhook-secret").read_text().strip()

    novita = secrets.get_secret_value(SecretId=stack.outputs["NovitaSecretId"])["SecretString"]
    webhook = secrets.get_secret_value(SecretId=stack.outputs["WebhookSecretId"])["SecretString"]

    assert novita == "local"
    assert json.loads(webhook) == {"current": master, "previous": ""}


def test_keys_are_made_listed_and_revoked(stack: LocalStack) -> None:
    table = stack.emulator.table(stack.table_name)
    key = new_key()

    made = create_key(table, name="ci", scopes=["write", "read"], key=key)

    assert made in list_keys(table)
    assert made.scopes == ("read", "write")
    assert _status(stack, key) == 200
    assert revoke_key(table, made.id)
    assert not revoke_key(table, made.id)
    assert [each.revoked_at != "" for each in list_keys(table) if each.id == made.id] == [True]


def test_the_keys_command_finds_the_copy_that_runs(stack: LocalStack) -> None:
    listed = subprocess.run(
        [sys.executable, "-m", "local.keys", "list"],
        cwd=ROOT,
        env={**os.environ, "AWS_EMULATOR_PORT": str(stack.ports.emulator)},
        capture_output=True,
        text=True,
        check=True,
    )

    assert "key_local" in listed.stdout


def _status(stack: LocalStack, key: str) -> int:
    headers = {"Authorization": f"Bearer {key}"}
    return requests.get(f"{stack.api_url}/api/instances", headers=headers, timeout=30).status_code
