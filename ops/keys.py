"""API keys as items of the table. A key is 256 random bits; only its SHA-256 is stored."""

import hashlib
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from boto3.dynamodb.conditions import Key

SCOPES = ("read", "write", "admin")
KEY = re.compile(r"ost_[A-Za-z0-9_-]{43}")


@dataclass(frozen=True)
class ApiKey:
    id: str
    name: str
    scopes: tuple[str, ...]
    created_at: str
    revoked_at: str = ""


def new_key() -> str:
    return f"ost_{secrets.token_urlsafe(32)}"


def make(table: Any, *, name: str, scopes: Iterable[str], key: str, key_id: str | None = None) -> ApiKey:
    made = ApiKey(
        id=key_id or f"key_{secrets.token_hex(6)}",
        name=name,
        scopes=tuple(scope for scope in SCOPES if scope in set(scopes)),
        created_at=_now(),
    )
    table.put_item(
        Item={
            "pk": _pk(key),
            "sk": "key",
            "kind": "key",
            "keyId": made.id,
            "name": made.name,
            "scopes": list(made.scopes),
            "createdAt": made.created_at,
            "lookup": "keys",
            "id": made.id,
        }
    )
    return made


def listed(table: Any) -> list[ApiKey]:
    return [
        ApiKey(
            item["keyId"], item["name"], tuple(item["scopes"]), item["createdAt"], item.get("revokedAt", "")
        )
        for item in _items(table, Key("lookup").eq("keys"))
    ]


def revoke(table: Any, key_id: str) -> bool:
    """False if no such key is in force. One in use ends within the time that functions trust it."""
    found = _items(table, Key("lookup").eq("keys") & Key("id").eq(key_id))
    in_force = [item for item in found if "revokedAt" not in item]
    for item in in_force:
        table.update_item(
            Key={"pk": item["pk"], "sk": item["sk"]},
            UpdateExpression="SET revokedAt = :now",
            ExpressionAttributeValues={":now": _now()},
        )
    return bool(in_force)


def is_in_force(table: Any, key: str) -> bool:
    item = table.get_item(Key={"pk": _pk(key), "sk": "key"}, ConsistentRead=True).get("Item")
    return item is not None and "revokedAt" not in item


def _items(table: Any, condition: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    start: dict[str, Any] = {}
    while True:
        page = table.query(IndexName="lookup", KeyConditionExpression=condition, **start)
        found += page["Items"]
        if "LastEvaluatedKey" not in page:
            return found
        start = {"ExclusiveStartKey": page["LastEvaluatedKey"]}


def _pk(key: str) -> str:
    return f"key#{hashlib.sha256(key.encode()).hexdigest()}"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
