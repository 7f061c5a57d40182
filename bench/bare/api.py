"""The API's busiest routes with nothing but pydantic and boto3, in the fewest calls that keep the promise.

The caller's key is held for 30 s, and its requests are counted in the process. One instance: one read, of
the record and of its last use. The list: its page of the index, the items with their last uses, and their
number, held for a minute. Create: one transaction, which checks that purchases are not paused, that there
is no budget (else it would be looked at) and that the Idempotency-Key is new (else its answer would be
read), and one message; how long boots take is held for a minute; products and template are held for
minutes, shared with the other processes through the table, and else asked of Novita at once, with two
slots of the rate limit taken in one write.

It is easier on itself than the service in one thing: its slots are those of a minute of the clock, not of
any 60 s.
"""

import base64
import hashlib
import json
import os
import time
import uuid
import zlib
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any, Literal

import boto3
from boto3.dynamodb.types import TypeDeserializer, TypeSerializer
from pydantic import BaseModel, ConfigDict, Field

NOW = time.time
TABLE, QUEUE = os.environ["TABLE_NAME"], os.environ["CREATE_QUEUE_URL"]
KEY_SECONDS, CATALOG_SECONDS, TOTAL_SECONDS = 30, 300, 60
ANSWER_SECONDS = 24 * 3600
REQUESTS_PER_CALLER = int(os.environ.get("REQUESTS_PER_CALLER", "20"))  # in a second
IN_COMMON = base64.b64decode(os.environ["IN_COMMON"])  # what the service's records have, as stored

dynamodb: Any = boto3.client("dynamodb")
sqs: Any = boto3.client("sqs")
_read, _write = TypeDeserializer().deserialize, TypeSerializer().serialize
_held: dict[str, tuple[float, Any]] = {}
_asked: dict[str, tuple[float, int]] = {}  # by caller: a second, and how often in it


class HealthCheck(BaseModel):
    model_config = ConfigDict(extra="forbid")

    timeoutMs: int = Field(10_000, ge=1000, le=60_000)  # noqa: N815  # the API's own name
    retryAttempts: int = Field(3, ge=0, le=10)  # noqa: N815  # the API's own name
    retryDelayMs: int = Field(2000, ge=100, le=30_000)  # noqa: N815  # the API's own name
    maxWaitTimeMs: int = Field(300_000, ge=30_000, le=1_800_000)  # noqa: N815  # the API's own name
    targetPort: int | None = Field(None, ge=1, le=65_535)  # noqa: N815  # the API's own name
    path: str = "/"


class Limits(BaseModel):
    model_config = ConfigDict(extra="forbid")

    stopAfter: str | int | None = None  # noqa: N815  # the API's own name
    deleteAfter: str | int | None = None  # noqa: N815  # the API's own name
    stopAt: datetime | None = None  # noqa: N815  # the API's own name
    deleteAt: datetime | None = None  # noqa: N815  # the API's own name
    idleStopAfter: str | int | None = None  # noqa: N815  # the API's own name
    idleGpuBelow: float | None = Field(None, gt=0, le=100)  # noqa: N815  # the API's own name
    deleteAfterStopped: str | int | None = None  # noqa: N815  # the API's own name


class Volume(BaseModel):
    model_config = ConfigDict(extra="forbid")

    id: str
    mountPath: str  # noqa: N815  # the API's own name


class Reclaim(BaseModel):
    model_config = ConfigDict(extra="forbid")

    action: Literal["none", "restart", "replace"] = "none"
    window: str | int | None = None
    maxRecoveries: int | None = None  # noqa: N815  # the API's own name
    replaceAfter: str | int | None = None  # noqa: N815  # the API's own name
    fallback: Literal["onDemand"] | None = None


class CreateBody(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str = Field(min_length=1, max_length=100)
    productName: str = Field(min_length=1, max_length=200)  # noqa: N815  # the API's own name
    templateId: str | int  # noqa: N815  # the API's own name
    gpuNum: int = Field(1, ge=1, le=8)  # noqa: N815  # the API's own name
    rootfsSize: int = Field(60, ge=10, le=1000)  # noqa: N815  # the API's own name
    region: str | None = None
    webhookUrl: str | None = None  # noqa: N815  # the API's own name
    billingMode: Literal["spot", "onDemand"] = "spot"  # noqa: N815  # the API's own name
    tags: dict[str, str] = Field(default_factory=dict, max_length=20)
    regions: list[str] | None = None
    maxPricePerGpuHour: float | None = Field(None, gt=0)  # noqa: N815  # the API's own name
    placement: Literal["priority", "cheapest"] = "priority"
    healthCheck: HealthCheck | None = None  # noqa: N815  # the API's own name
    maxWaitTime: int | None = None  # noqa: N815  # the API's own name
    onFailure: Literal["keep"] | None = None  # noqa: N815  # the API's own name
    limits: Limits | None = None
    onReclaim: Literal["none", "restart", "replace"] | Reclaim = "none"  # noqa: N815  # the API's own name
    protected: bool = False
    envs: list[dict[str, str]] = []
    networkVolumes: list[Volume] = []  # noqa: N815  # the API's own name


class Spec(BaseModel):
    product_name: str
    template_id: str
    gpu_num: int = 1
    rootfs_size: int = 60
    region: str | None = None
    billing_mode: str = "spot"
    tags: list[list[str]] = []


class Endpoint(BaseModel):
    port: int
    type: str
    address: str


class Machine(BaseModel):
    id: str | None = None
    region: str | None = None
    product_id: str | None = None
    price: str | None = None
    novita_status: str | None = None
    endpoints: list[Endpoint] = []
    seen_at: datetime | None = None


class Meter(BaseModel):
    usd_per_hour: str
    since: datetime


class Ledger(BaseModel):
    meters: list[Meter] = []


class Instance(BaseModel):
    id: str
    name: str
    spec: Spec
    status: str
    created_at: datetime
    updated_at: datetime
    ready_at: datetime | None = None
    actor: str
    correlation_id: str
    webhook_url: str | None = None
    machine: Machine = Machine()
    ledger: Ledger = Ledger()

    def shown(self) -> dict[str, Any]:
        now, meters = NOW(), self.ledger.meters
        hours = [(now - one.since.timestamp()) / 3600 * float(one.usd_per_hour) for one in meters]
        view = {
            "instanceId": self.id,
            "name": self.name,
            "status": self.status,
            "productName": self.spec.product_name,
            "templateId": self.spec.template_id,
            "gpuNum": self.spec.gpu_num,
            "rootfsSize": self.spec.rootfs_size,
            "billingMode": self.spec.billing_mode,
            "createdAt": self.created_at.isoformat(),
            "updatedAt": self.updated_at.isoformat(),
            "readyAt": self.ready_at.isoformat() if self.ready_at else None,
            "region": self.machine.region,
            "novitaInstanceId": self.machine.id,
            "novitaStatus": self.machine.novita_status,
            "productId": self.machine.product_id,
            "pricePerGpuHour": self.machine.price,
            "portMappings": [one.model_dump() for one in self.machine.endpoints],
            "lastSyncedAt": self.machine.seen_at.isoformat() if self.machine.seen_at else None,
            "webhookUrl": self.webhook_url,
            "owner": self.actor,
            "cost": {"soFarUsd": f"{sum(hours):.4f}"},
        }
        return {name: value for name, value in view.items() if value is not None}


def handler(event: dict[str, Any], _: object) -> dict[str, Any]:
    began, request_id = time.monotonic(), str(uuid.uuid4())
    actor = _authorized(event["headers"])
    method, path = event["requestContext"]["http"]["method"], event["rawPath"]
    if method == "POST":
        wanted, repeat = CreateBody.model_validate_json(event["body"]), _scope(actor, path, event)
        status, body = 201, create(wanted, actor, request_id, repeat)
    elif path == "/api/instances":
        status, body = 200, instances(100)
    else:
        status, body = 200, instance(path.rpartition("/")[2])
    told = {"level": "INFO", "status": status, "route": path, "request_id": request_id, "caller": actor}
    print(json.dumps({**told, "ms": round(1000 * (time.monotonic() - began))}))
    headers = {"content-type": "application/json", "x-request-id": request_id, "x-correlation-id": request_id}
    return {"statusCode": status, "headers": headers, "body": json.dumps(body)}


def _authorized(headers: dict[str, str]) -> str:
    digest = hashlib.sha256(headers["authorization"].removeprefix("Bearer ").encode()).hexdigest()
    key = _kept(f"key {digest}", KEY_SECONDS, lambda: _item(f"key#{digest}", "key"))
    caller, second = str(key["keyId"]), NOW() // 1
    since, times = _asked.get(caller, (second, 0))
    _asked[caller] = second, times + 1 if since == second else 1
    if _asked[caller][1] > REQUESTS_PER_CALLER:
        raise PermissionError("too many requests")
    return caller


def _scope(actor: str, path: str, event: dict[str, Any]) -> tuple[str, str]:
    """What an Idempotency-Key stands for, and the body that it came with."""
    scope = json.dumps([actor, path, event["headers"]["idempotency-key"]])
    return hashlib.sha256(scope.encode()).hexdigest(), hashlib.sha256(event["body"].encode()).hexdigest()


def instance(instance_id: str) -> dict[str, Any]:
    keys = [_key(instance_id, kind) for kind in ("record", "used")]
    wanted = {TABLE: {"Keys": keys, "ConsistentRead": True}}
    found = dynamodb.batch_get_item(RequestItems=wanted)["Responses"][TABLE]
    items = {item["sk"]["S"]: item for item in found}
    view = _unpacked(items["record"]["record"]["B"]).shown()
    if used := items.get("used"):
        view["lastUsedAt"] = used["usedAt"]["S"]
    return view


def _unpacked(stored: bytes) -> Instance:
    return Instance.model_validate_json(_unpack(stored))


def _unpack(stored: bytes) -> bytes:
    return zlib.decompressobj(-15, zdict=IN_COMMON).decompress(stored)


def _pack(text: str) -> bytes:
    compressor = zlib.compressobj(wbits=-15, zdict=IN_COMMON)
    return compressor.compress(text.encode()) + compressor.flush()


def instances(limit: int) -> dict[str, Any]:
    page = {
        "TableName": TABLE,
        "IndexName": "listed",
        "KeyConditionExpression": "listed = :all",
        "ExpressionAttributeValues": {":all": {"S": "instances"}},
    }
    entries = dynamodb.query(**page, ScanIndexForward=False, Limit=limit + 1)["Items"]
    items: dict[tuple[str, str], Any] = {}
    for kind in ("record", "used"):  # a hundred keys are the most that one read takes
        keys = [{"pk": entry["pk"], "sk": {"S": kind}} for entry in entries[:limit]]
        for item in dynamodb.batch_get_item(RequestItems={TABLE: {"Keys": keys}})["Responses"][TABLE]:
            items[item["pk"]["S"], kind] = item
    shown = []
    for entry in entries[:limit]:
        view = _unpacked(items[entry["pk"]["S"], "record"]["record"]["B"]).shown()
        if used := items.get((entry["pk"]["S"], "used")):
            view["lastUsedAt"] = used["usedAt"]["S"]
        shown.append(view)
    total = _kept("total", TOTAL_SECONDS, lambda: dynamodb.query(**page, Select="COUNT")["Count"])
    return {"instances": shown, "total": total}


def create(body: CreateBody, actor: str, request_id: str, repeat: tuple[str, str]) -> dict[str, Any]:
    products, template = _catalog(body.productName, str(body.templateId))
    offer = min(products, key=lambda one: int(one["spotPrice"]))
    now = datetime.fromtimestamp(NOW(), UTC)
    instance_id = f"inst_{uuid.uuid4().hex[:26].upper()}"
    record = {
        "id": instance_id,
        "name": body.name,
        "spec": {"product_name": body.productName, "template_id": str(body.templateId)},
        "status": "creating",
        "created_at": now.isoformat(),
        "updated_at": now.isoformat(),
        "actor": actor,
        "correlation_id": request_id,
        "price": offer["spotPrice"],
        "ports": len(template["template"]["ports"]),
    }
    due = int(now.timestamp() * 1000)
    token = uuid.uuid4().hex[:16]
    item = {"pk": instance_id, "sk": "record", "id": instance_id, "version": 1, "token": token}
    item |= {"listed": "instances", "statusKey": "instances#creating", "lookup": f"name#{body.name}"}
    packed = _pack(json.dumps(record))
    item |= {"due": "instance", "dueAt": due, "fleet": "fleet#1", "record": packed}
    event = {"pk": instance_id, "sk": "event#0000000001", "kind": "event", "due": "event", "dueAt": due}
    event |= {"event": {"type": "instance.creating", "at": now.isoformat(), "actor": actor, "sequence": 1}}
    owned = {"pk": instance_id, "sk": "list#owner", "id": instance_id, "lookup": f"owner#{actor}"}
    boot = _kept(f"boot {body.productName}", TOTAL_SECONDS, lambda: _boot_seconds(body.productName))
    answer = {
        "instanceId": instance_id,
        "status": "creating",
        "message": "Accepted; a machine is being bought",
        "region": offer["regions"][0],
        "estimatedReadyTime": datetime.fromtimestamp(NOW() + boot, UTC).isoformat(),
    }
    scope, body_hash = repeat
    first: dict[str, Any] = {"pk": f"bare#answer#{scope}", "sk": "answer", "kind": "answer"}
    first |= {"bodyHash": body_hash, "answer": json.dumps(answer), "expiresAt": int(NOW() + ANSWER_SECONDS)}
    dynamodb.transact_write_items(
        TransactItems=[
            *({"Put": _new(one)} for one in (item, event, owned, first)),
            _without("switch#purchases", "switch", "paused"),
            _without("bare#budgets", "budgets", "pk"),
        ]
    )
    message = {"instance_id": instance_id, "token": token, "correlation_id": request_id}
    sqs.send_message(QueueUrl=QUEUE, MessageBody=json.dumps(message))
    return answer


def _catalog(product_name: str, template_id: str) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    wanted = {"/products": {"productName": product_name}, "/template": {"templateId": template_id}}
    names = {path: f"{path}?{json.dumps(query)}" for path, query in wanted.items()}
    if not all(_is_fresh(name) for name in names.values()):
        _read_shared(list(names.values()))
    if not all(_is_fresh(name) for name in names.values()):
        _take_slots(len(wanted))
        with ThreadPoolExecutor(len(wanted)) as pool:
            asked = {path: pool.submit(_novita, path, query) for path, query in wanted.items()}
        for path, name in names.items():
            _held[name] = NOW(), asked[path].result()
            cached = {
                "pk": f"bare#{name}",
                "sk": "cache",
                "at": int(NOW()),
                "packed": json.dumps(_held[name][1]),
            }
            dynamodb.put_item(TableName=TABLE, Item={name: _write(one) for name, one in cached.items()})
    return _held[names["/products"]][1]["data"], _held[names["/template"]][1]


def _is_fresh(name: str) -> bool:
    return name in _held and NOW() - _held[name][0] < CATALOG_SECONDS


def _read_shared(names: list[str]) -> None:
    keys = [_key(f"bare#{name}", "cache") for name in names]
    for item in dynamodb.batch_get_item(RequestItems={TABLE: {"Keys": keys}})["Responses"][TABLE]:
        name = item["pk"]["S"].removeprefix("bare#")
        _held[name] = float(item["at"]["N"]), json.loads(item["packed"]["S"])


def _take_slots(number: int) -> None:
    dynamodb.update_item(
        TableName=TABLE,
        Key=_key("bare#limiter", f"{NOW() // 60:.0f}"),
        UpdateExpression="ADD used :number",
        ConditionExpression="attribute_not_exists(used) OR used <= :most",
        ExpressionAttributeValues={":number": {"N": str(number)}, ":most": {"N": str(98 - number)}},
    )


def _novita(path: str, query: dict[str, str]) -> Any:
    answer = _session().get(os.environ["NOVITA_API_BASE_URL"] + path, params=query, timeout=(2, 5))
    answer.raise_for_status()
    return answer.json()


def _session() -> Any:
    def made() -> Any:
        import requests  # what §5 asks for, where Novita is asked

        secret = boto3.client("secretsmanager").get_secret_value(SecretId=os.environ["NOVITA_SECRET_ID"])
        session = requests.Session()
        session.trust_env = False
        session.headers["Authorization"] = f"Bearer {secret['SecretString']}"
        return session

    return _kept("session", 300, made)


def _kept(name: str, seconds: float, read: Any) -> Any:
    held = _held.get(name)
    if held is None or NOW() - held[0] > seconds:
        held = _held[name] = NOW(), read()
    return held[1]


def _item(pk: str, sk: str) -> dict[str, Any]:
    item = dynamodb.get_item(TableName=TABLE, Key=_key(pk, sk), ConsistentRead=True)["Item"]
    return {name: _read(value) for name, value in item.items()}


def _boot_seconds(product_name: str) -> float:
    item = dynamodb.get_item(TableName=TABLE, Key=_key(f"bare#boots#{product_name}", "boots")).get("Item")
    return float(item["seconds"]["N"]) if item else 300.0


def _key(pk: str, sk: str) -> dict[str, Any]:
    return {"pk": {"S": pk}, "sk": {"S": sk}}


def _without(pk: str, sk: str, name: str) -> dict[str, Any]:
    condition = f"attribute_not_exists({name})"
    return {"ConditionCheck": {"TableName": TABLE, "Key": _key(pk, sk), "ConditionExpression": condition}}


def _new(item: dict[str, Any]) -> dict[str, Any]:
    return {
        "TableName": TABLE,
        "Item": {name: _write(value) for name, value in item.items()},
        "ConditionExpression": "attribute_not_exists(pk)",
    }
