"""One attempt at one delivery, with pydantic and boto3, in the fewest calls that keep the promise.

The delivery is read, and that its receiver answers at once, so that it needs no slot; the attempt is claimed
by its number, the signed POST sent, its result written, its event no longer due, the job counted.
"""

import base64
import hashlib
import hmac
import json
import os
import time
import uuid
import zlib
from typing import Any
from urllib.parse import urlsplit

import boto3
from boto3.dynamodb.types import TypeDeserializer, TypeSerializer
from pydantic import BaseModel
from urllib3 import PoolManager, Timeout

NOW = time.time
TABLE = os.environ["TABLE_NAME"]
IN_COMMON = base64.b64decode(os.environ["IN_COMMON"])  # what the service's records have, as stored

dynamodb: Any = boto3.client("dynamodb")
secrets: Any = boto3.client("secretsmanager")
_read, _write = TypeDeserializer().deserialize, TypeSerializer().serialize
_http = PoolManager(timeout=Timeout(15), retries=False)
_master: list[bytes] = []


class Message(BaseModel):
    delivery_id: str
    attempt: int
    correlation_id: str


class Delivery(BaseModel):
    id: str
    eventId: str  # noqa: N815  # as it is stored
    url: str
    body: bytes
    state: str
    attempt: int


def handler(event: dict[str, Any], _: object) -> dict[str, Any]:
    for record in event["Records"]:
        attempt(Message.model_validate_json(record["body"]))
    _update("bare#count", f"hour#{NOW() // 3600:.0f}", "ADD done :one", {":one": 1})
    return {"batchItemFailures": []}


def attempt(message: Message) -> None:
    instance, _, number = message.delivery_id.removeprefix("dlv_").partition("_")
    pk, sk = f"inst_{instance}", f"delivery#dlv_{instance}_{number}"
    key = {"pk": {"S": pk}, "sk": {"S": sk}}
    item = dynamodb.get_item(TableName=TABLE, Key=key, ConsistentRead=True)["Item"]
    read = {name: _read(value) for name, value in item.items()}
    delivery = Delivery.model_validate({**read, "body": read["body"].value})
    if delivery.state != "pending" or delivery.attempt + 1 != message.attempt:
        return
    until, holder = int(1000 * (NOW() + 60)), uuid.uuid4().hex[:16]
    receiver = hashlib.sha256(urlsplit(delivery.url).netloc.encode()).hexdigest()[:32]
    known = {"pk": {"S": f"bare#receiver#{receiver}"}, "sk": {"S": "receiver"}}
    if "slow" in dynamodb.get_item(TableName=TABLE, Key=known, ConsistentRead=True).get("Item", {}):
        raise NotImplementedError("its slots")
    begun = {":before": delivery.attempt, ":number": message.attempt, ":until": until, ":claim": holder}
    claimed = "SET attempt = :number, nextAt = :until, claim = :claim"
    _update(pk, sk, claimed, begun, "attempt = :before")
    began, body = NOW(), zlib.decompressobj(-15, zdict=IN_COMMON).decompress(delivery.body)
    answer = _http.request("POST", delivery.url, body=body, headers=_signed(delivery, body, int(began)))
    result = {"number": message.attempt, "status": answer.status, "took_ms": round(1000 * (NOW() - began))}
    ended = {":result": result, ":state": "delivered", ":claim": holder}
    finished = "SET #state = :state, attempts = :result REMOVE due, dueAt, nextAt"
    _update(pk, sk, finished, ended, "claim = :claim", {"#state": "state"})
    _update(pk, f"event#{int(number):010d}", "REMOVE due, dueAt")
    told = {"level": "INFO", "message": "webhook attempt", "delivery_id": delivery.id, **result}
    print(json.dumps({**told, "correlation_id": message.correlation_id}))


def _signed(delivery: Delivery, body: bytes, at: int) -> dict[str, str]:
    if not _master:
        kept = secrets.get_secret_value(SecretId=os.environ["WEBHOOK_SECRET_ID"])["SecretString"]
        _master.append(json.loads(kept)["current"].encode())
    origin = "{0.scheme}://{0.netloc}".format(urlsplit(delivery.url))
    secret = hmac.digest(_master[0], origin.encode(), "sha256")
    digest = hmac.digest(secret, f"{delivery.eventId}.{at}.".encode() + body, "sha256")
    return {
        "content-type": "application/json",
        "webhook-id": delivery.eventId,
        "webhook-timestamp": str(at),
        "webhook-signature": f"v1,{base64.b64encode(digest).decode()}",
    }


def _update(
    pk: str,
    sk: str,
    change: str,
    values: dict[str, Any] | None = None,
    condition: str = "",
    names: dict[str, str] | None = None,
) -> None:
    optional: dict[str, Any] = {"ConditionExpression": condition} if condition else {}
    if names:
        optional["ExpressionAttributeNames"] = names
    if values:
        optional["ExpressionAttributeValues"] = {name: _write(value) for name, value in values.items()}
    dynamodb.update_item(
        TableName=TABLE,
        Key={"pk": {"S": pk}, "sk": {"S": sk}},
        UpdateExpression=change,
        **optional,
    )
