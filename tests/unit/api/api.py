"""The API function in this process: real handler, a table in memory, and a Novita that cannot be reached."""

import json
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from threading import RLock
from typing import Any
from urllib.parse import parse_qsl, unquote

import boto3

from functions.api.handler import handler
from functions.shared.platform import wiring
from functions.shared.platform.settings import Settings
from ops import keys
from tests.unit.tables import table_definition

_LOCK = RLock()
TABLE = "ostler"
ENVIRONMENT = {
    "TABLE_NAME": TABLE,
    "TOPIC_ARN": "arn:aws:sns:us-east-1:000000000000:ostler",
    **{
        f"{name}_QUEUE_URL": "http://127.0.0.1:9/queue"
        for name in ("CREATE", "MONITOR", "STARTUP", "WEBHOOK", "DEAD_LETTER")
    },
    "NOVITA_SECRET_ID": "novita",
    "WEBHOOK_SECRET_ID": "webhook",
    "NOVITA_API_BASE_URL": "http://127.0.0.1:9",
    "NOVITA_RATE_LIMIT": "10000",
    "REQUESTS_PER_CALLER": "1000000",
    "REQUESTS_PER_STRANGER": "1000000",
}
# Kept for the service's own sake, whatever is asked of it.
_CACHES = ("key#", "cache#", "circuit#", "limit", "deployment", "cursors")


class OneAtATime:
    """A client of moto's, which does not bear two threads at once."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)

        def call(*given: Any, **named: Any) -> Any:
            with _LOCK:
                return method(*given, **named)

        return call


class ApiWiring(wiring.Wiring):
    def client(self, service: Any) -> Any:
        return OneAtATime(super().client(service))


class Context:
    function_name = "api"
    memory_limit_in_mb = 512
    invoked_function_arn = "arn:aws:lambda:us-east-1:000000000000:function:api"
    aws_request_id = "request"

    def get_remaining_time_in_millis(self) -> int:
        return 29_000


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    text: str

    @property
    def body(self) -> Any:
        return json.loads(self.text)

    @property
    def error(self) -> dict[str, Any]:
        error: dict[str, Any] = self.body["error"]
        return error

    @property
    def code(self) -> str:
        return str(self.error["code"])

    @property
    def fields(self) -> dict[str, str]:
        """Every bad field with its code."""
        return {one["field"]: one["code"] for one in self.error.get("validationErrors", [])}


class Api:
    def __init__(self) -> None:
        self._dynamodb = boto3.client("dynamodb")
        self._dynamodb.create_table(TableName=TABLE, **table_definition())
        boto3.client("secretsmanager").create_secret(Name="novita", SecretString="novita-key")
        self.keys = {scope: self.new_key(scope) for scope in keys.SCOPES}
        self.restart()

    def restart(self, **settings: str) -> None:
        """The function anew, with these settings."""
        wiring.use(ApiWiring(Settings.read({**ENVIRONMENT, **settings}, "api"), wait=lambda _: None))

    def new_key(self, *scopes: str) -> str:
        key = keys.new_key()
        keys.create_key(boto3.resource("dynamodb").Table(TABLE), name="test", scopes=scopes, key=key)
        return key

    def stored(self) -> list[str]:
        """What is in the table for somebody's request."""
        pages = self._dynamodb.get_paginator("scan").paginate(TableName=TABLE)
        keys = [item["pk"]["S"] for page in pages for item in page["Items"]]
        return [key for key in keys if not key.startswith(_CACHES)]

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        raw: str | bytes | None = None,
        headers: Mapping[str, str | None] | None = None,
        scope: str = "admin",
        authorizer: Mapping[str, Any] | None = None,
    ) -> Answer:
        """`raw` is the body as it arrives: bytes in base64, as the gateway sends what it takes for binary.

        `authorizer` is what the gateway adds where one of its own has checked the caller.
        """
        if raw is None and body is not None:
            raw = json.dumps(body)
        address, _, query = path.partition("?")
        given = {
            "authorization": f"Bearer {self.keys[scope]}",
            **{k.lower(): v for k, v in (headers or {}).items()},
        }
        event = {
            "version": "2.0",
            "routeKey": "$default",
            "rawPath": unquote(address),
            "rawQueryString": query,
            "queryStringParameters": _joined(query),
            "headers": {name: value for name, value in given.items() if value is not None},
            "requestContext": {
                "http": {"method": method, "path": unquote(address)},
                "stage": "$default",
                "requestId": "gateway",
                **({"authorizer": authorizer} if authorizer is not None else {}),
            },
            "body": b64encode(raw).decode() if isinstance(raw, bytes) else raw,
            "isBase64Encoded": isinstance(raw, bytes),
        }
        answer = handler(event, Context())
        return Answer(answer["statusCode"], answer["headers"], answer["body"])

    def post(self, body: Any = None, path: str = "/api/instances", **options: Any) -> Answer:
        return self.call("POST", path, body, **options)


def create_body(**fields: Any) -> dict[str, Any]:
    return {"name": "test", "productName": "RTX 4090 24GB", "templateId": "107672"} | fields


def _joined(query: str) -> dict[str, str]:
    """Values of a repeated name together, as the gateway hands them on."""
    found: dict[str, list[str]] = {}
    for name, value in parse_qsl(query, keep_blank_values=True, errors="surrogateescape"):
        found.setdefault(name, []).append(value)
    return {name: ",".join(values) for name, values in found.items()}
