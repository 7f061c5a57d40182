"""A look at a machine that is coming up, with pydantic and boto3, in the fewest calls that keep the
promise.

The record is read, Novita's circuit, which all functions share (held for 5 s), and how many others wait
(many would be told by one list); a slot of the rate limit is taken, Novita asked with a key that is read
again when it is five minutes old, the record written over the version that was read with its next due
time, the next message sent, and the job counted.

It is easier on itself than the service in two things: its slots are those of a minute of the clock, not of
any 60 s, and nobody looks between its steps.
"""

import base64
import json
import os
import time
import uuid
import zlib
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import boto3
import requests
from boto3.dynamodb.types import TypeDeserializer, TypeSerializer
from pydantic import BaseModel

NOW = time.time
TABLE, QUEUE = os.environ["TABLE_NAME"], os.environ["MONITOR_QUEUE_URL"]
SHARED_FROM = int(os.environ.get("SHARE_LIST_FROM", "6"))
POLL_SECONDS, CIRCUIT_SECONDS, SECRET_SECONDS = 30, 5, 300
IN_COMMON = base64.b64decode(os.environ["IN_COMMON"])  # what the service's records have, as stored

dynamodb: Any = boto3.client("dynamodb")
sqs: Any = boto3.client("sqs")
secrets: Any = boto3.client("secretsmanager")
_read, _write = TypeDeserializer().deserialize, TypeSerializer().serialize
_session = requests.Session()
_session.trust_env = False
_held: dict[str, tuple[float, Any]] = {}


class Message(BaseModel):
    instance_id: str
    token: str
    correlation_id: str


class Port(BaseModel):
    port: int
    type: str
    endpoint: str = ""


class Shown(BaseModel):
    id: str
    status: str
    portMappings: list[Port] = []  # noqa: N815  # Novita's own name


class Machine(BaseModel, extra="allow"):
    id: str
    novita_status: str | None = None
    seen_at: datetime | None = None


class Instance(BaseModel, extra="allow"):
    id: str
    status: str
    created_at: datetime
    deadline_at: datetime | None = None
    machine: Machine


def handler(event: dict[str, Any], _: object) -> dict[str, Any]:
    for record in event["Records"]:
        step(Message.model_validate_json(record["body"]))
    _add("count", f"hour#{NOW() // 3600:.0f}", "done")
    return {"batchItemFailures": []}


def step(message: Message) -> None:
    key = {"pk": {"S": message.instance_id}, "sk": {"S": "record"}}
    item = _plain(dynamodb.get_item(TableName=TABLE, Key=key, ConsistentRead=True)["Item"])
    if item["token"] != message.token:
        return
    instance = Instance.model_validate_json(_unpack(item["record"].value))
    if _kept("circuit", CIRCUIT_SECONDS, _circuit) == "open":
        raise ConnectionError("Novita does not answer")
    if _waiting() >= SHARED_FROM:
        raise NotImplementedError("the list")
    _add("limiter", f"{NOW() // 60:.0f}", "used", most=97)
    shown = _novita(instance.machine.id, message.correlation_id)
    now = NOW()
    instance.status = "running" if shown.status == "running" else instance.status
    instance.machine.novita_status = shown.status
    instance.machine.seen_at = datetime.fromtimestamp(now, UTC)
    token = uuid.uuid4().hex[:16]
    written = instance.model_dump_json(exclude_defaults=True)
    after = item | {
        "version": item["version"] + 1,
        "token": token,
        "dueAt": int(1000 * (now + POLL_SECONDS)),
        "record": _pack(written),
    }
    dynamodb.put_item(
        TableName=TABLE,
        Item={name: _write(value) for name, value in after.items()},
        ConditionExpression="#version = :version",
        ExpressionAttributeNames={"#version": "version"},
        ExpressionAttributeValues={":version": {"N": str(item["version"])}},
    )
    following = message.model_copy(update={"token": token})
    sqs.send_message(QueueUrl=QUEUE, MessageBody=following.model_dump_json(), DelaySeconds=POLL_SECONDS)
    told = {"level": "INFO", "message": "looked", "instance_id": message.instance_id, "status": shown.status}
    print(json.dumps({**told, "correlation_id": message.correlation_id}))


def _novita(machine_id: str, correlation_id: str) -> Shown:
    key = _kept("secret", SECRET_SECONDS, _secret)
    answer = _session.get(
        f"{os.environ['NOVITA_API_BASE_URL']}/gpu/instance",
        params={"instanceId": machine_id},
        headers={"Authorization": f"Bearer {key}", "X-Correlation-ID": correlation_id},
        timeout=(2, 5),
    )
    answer.raise_for_status()
    return Shown.model_validate_json(answer.content)


def _secret() -> str:
    return str(secrets.get_secret_value(SecretId=os.environ["NOVITA_SECRET_ID"])["SecretString"])


def _circuit() -> str:
    key = {"pk": {"S": "bare#circuit"}, "sk": {"S": "circuit"}}
    item = dynamodb.get_item(TableName=TABLE, Key=key).get("Item", {})
    return str(_plain(item).get("state", "closed"))


def _waiting() -> int:
    until = {"N": str(int(1000 * (NOW() + 20 * POLL_SECONDS)))}
    answer = dynamodb.query(
        TableName=TABLE,
        IndexName="due",
        KeyConditionExpression="due = :due AND dueAt <= :until",
        ExpressionAttributeValues={":due": {"S": "instance"}, ":until": until},
        Limit=SHARED_FROM,
    )
    return int(answer["Count"])


def _kept(name: str, seconds: float, read: Any) -> Any:
    held = _held.get(name)
    if held is None or NOW() - held[0] > seconds:
        held = _held[name] = NOW(), read()
    return held[1]


def _add(pk: str, sk: str, name: str, most: int | None = None) -> None:
    limited: dict[str, Any] = {}
    if most is not None:
        limited = {
            "ConditionExpression": "attribute_not_exists(#name) OR #name <= :most",
        }
    dynamodb.update_item(
        TableName=TABLE,
        Key={"pk": {"S": f"bare#{pk}"}, "sk": {"S": sk}},
        UpdateExpression="ADD #name :one",
        ExpressionAttributeNames={"#name": name},
        ExpressionAttributeValues={":one": {"N": "1"}, **({":most": {"N": str(most)}} if most else {})},
        **limited,
    )


def _unpack(stored: bytes) -> bytes:
    return zlib.decompressobj(-15, zdict=IN_COMMON).decompress(stored)


def _pack(text: str) -> bytes:
    compressor = zlib.compressobj(wbits=-15, zdict=IN_COMMON)
    return compressor.compress(text.encode()) + compressor.flush()


def _plain(item: Any) -> Any:
    """Numbers as they were written, not as Decimals."""
    read = {name: _read(value) for name, value in item.items()}
    return {name: int(value) if isinstance(value, Decimal) else value for name, value in read.items()}
