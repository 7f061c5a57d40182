"""API keys: made, listed and revoked. A key is 256 random bits; the table keeps only its SHA-256.

make keys ARGS="create --name ci --scopes read,write"     (or python -m ops.keys create …)
make keys ARGS="create --name team --scopes write --max-instances 10 --max-hourly-usd 5"
make keys ARGS=list
make keys ARGS="revoke key_0123456789ab"

`python -m local.keys` is the same for the copy that `make run` started.
"""

import argparse
import hashlib
import re
import secrets
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

from boto3.dynamodb.conditions import Key

from ops.command import command
from ops.target import parse_target, target_parser

SCOPES = ("read", "write", "admin")
_MICROS = 1_000_000  # of a dollar: the table has whole numbers
KEY_FORMAT = re.compile(r"ost_[A-Za-z0-9_-]{43}")


@dataclass(frozen=True)
class ApiKey:
    id: str
    name: str
    scopes: tuple[str, ...]
    created_at: str
    revoked_at: str = ""
    max_instances: int | None = None
    max_hourly_usd: Decimal | None = None

    @property
    def caps(self) -> str:
        """As people read them."""
        caps = {"instances": self.max_instances, "USD an hour": self.max_hourly_usd}
        return ", ".join(f"at most {most} {of}" for of, most in caps.items() if most is not None)


def new_key() -> str:
    return f"ost_{secrets.token_urlsafe(32)}"


def create_key(
    table: Any,
    *,
    name: str,
    scopes: Iterable[str],
    key: str,
    key_id: str | None = None,
    max_instances: int | None = None,
    max_hourly_usd: Decimal | None = None,
) -> ApiKey:
    created = ApiKey(
        id=key_id or f"key_{secrets.token_hex(6)}",
        name=name,
        scopes=tuple(scope for scope in SCOPES if scope in set(scopes)),
        created_at=_now(),
        max_instances=max_instances,
        max_hourly_usd=max_hourly_usd,
    )
    micros = None if max_hourly_usd is None else int(max_hourly_usd * _MICROS)
    caps = {"maxInstances": max_instances, "maxHourlyMicros": micros}
    table.put_item(
        Item={
            "pk": key_pk(key),
            "sk": "key",
            "kind": "key",
            "keyId": created.id,
            "name": created.name,
            "scopes": list(created.scopes),
            "createdAt": created.created_at,
            "lookup": "keys",
            "id": created.id,
            **{name: most for name, most in caps.items() if most is not None},
        }
    )
    return created


def list_keys(table: Any) -> list[ApiKey]:
    return [
        ApiKey(
            item["keyId"],
            item["name"],
            tuple(item["scopes"]),
            item["createdAt"],
            item.get("revokedAt", ""),
            int(item["maxInstances"]) if "maxInstances" in item else None,
            item["maxHourlyMicros"] / _MICROS if "maxHourlyMicros" in item else None,
        )
        for item in _query(table, Key("lookup").eq("keys"))
    ]


def revoke_key(table: Any, key_id: str, *, kept: timedelta | None = None) -> bool:
    """False if no such key is active. One in use ends within the time that functions trust it.

    It stays in the list of keys, unless it is kept for a time only.
    """
    expires = int((datetime.now(UTC) + kept).timestamp()) if kept else None
    found = _query(table, Key("lookup").eq("keys") & Key("id").eq(key_id))
    active = [item for item in found if "revokedAt" not in item]
    for item in active:
        table.update_item(
            Key={"pk": item["pk"], "sk": item["sk"]},
            UpdateExpression="SET revokedAt = :now" + (", expiresAt = :expires" if expires else ""),
            ExpressionAttributeValues={":now": _now(), **({":expires": expires} if expires else {})},
        )
    return bool(active)


def is_active(table: Any, key: str) -> bool:
    item = table.get_item(Key={"pk": key_pk(key), "sk": "key"}, ConsistentRead=True).get("Item")
    return item is not None and "revokedAt" not in item


def key_pk(key: str) -> str:
    return f"key#{hashlib.sha256(key.encode()).hexdigest()}"


def _query(table: Any, condition: Any) -> list[dict[str, Any]]:
    """Each read by its own key: the index has the keys alone, and may lag."""
    found: list[dict[str, Any]] = []
    start: dict[str, Any] = {}
    while True:
        page = table.query(IndexName="lookup", KeyConditionExpression=condition, **start)
        found += filter(None, (_item(table, entry) for entry in page["Items"]))
        if "LastEvaluatedKey" not in page:
            return found
        start = {"ExclusiveStartKey": page["LastEvaluatedKey"]}


def _item(table: Any, entry: dict[str, Any]) -> dict[str, Any] | None:
    key = {"pk": entry["pk"], "sk": entry["sk"]}
    item: dict[str, Any] | None = table.get_item(Key=key, ConsistentRead=True).get("Item")
    return item


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def parse_arguments(parser: argparse.ArgumentParser) -> argparse.Namespace:
    commands = parser.add_subparsers(dest="command", required=True)
    create = commands.add_parser("create", help="make a key and show it once")
    create.add_argument("--name", required=True, help="whose it is")
    create.add_argument("--scopes", required=True, type=_scopes, help="some of read,write,admin")
    create.add_argument("--max-instances", type=_instances, help="so many instances of its own at once")
    create.add_argument("--max-hourly-usd", type=_usd, help="so much may they cost an hour, together")
    commands.add_parser("list", help="who has keys")
    commands.add_parser("revoke", help="end a key").add_argument("key_id")
    return parser.parse_args()


def run(arguments: argparse.Namespace, table: Any) -> int:
    if arguments.command == "create":
        return _create(table, arguments)
    return _list(table) if arguments.command == "list" else _revoke(table, arguments.key_id)


def _create(table: Any, arguments: argparse.Namespace) -> int:
    key = new_key()
    created = create_key(
        table,
        name=arguments.name,
        scopes=arguments.scopes,
        key=key,
        max_instances=arguments.max_instances,
        max_hourly_usd=arguments.max_hourly_usd,
    )
    may = "; ".join(filter(None, (", ".join(created.scopes), created.caps)))
    print(f"{created.id} ({may}). This is the only time it is shown:", file=sys.stderr)
    print(key)
    return 0


def _list(table: Any) -> int:
    for key in list_keys(table):
        revoked = f"  revoked {key.revoked_at}" if key.revoked_at else ""
        caps = f"  ({key.caps})" if key.caps else ""
        print(f"{key.id}  {key.created_at}  {','.join(key.scopes):16}  {key.name}{caps}{revoked}")
    return 0


def _revoke(table: Any, key_id: str) -> int:
    if revoke_key(table, key_id):
        print(f"{key_id} is revoked; functions that have just seen it forget it within 30 s.")
        return 0
    print(f"There is no active key {key_id}.", file=sys.stderr)
    return 1


def _instances(text: str) -> int:
    if not text.isdigit():
        raise argparse.ArgumentTypeError("must be a whole number, 0 or more")
    return int(text)


def _usd(text: str) -> Decimal:
    try:
        usd = Decimal(text)
    except InvalidOperation:
        raise argparse.ArgumentTypeError("must be an amount, like 12.50") from None
    if not usd.is_finite() or usd < 0 or usd * _MICROS % 1:
        raise argparse.ArgumentTypeError("must be 0 or more, with at most 6 decimals")
    return usd


def _scopes(text: str) -> tuple[str, ...]:
    scopes = tuple(part.strip() for part in text.split(",") if part.strip())
    if unknown := [scope for scope in scopes if scope not in SCOPES]:
        raise argparse.ArgumentTypeError(f"unknown: {', '.join(unknown)} (there are {', '.join(SCOPES)})")
    if not scopes:
        raise argparse.ArgumentTypeError("at least one is needed")
    return scopes


@command
def main() -> int:
    arguments = parse_arguments(target_parser("python -m ops.keys", "API keys of Ostler"))
    target = parse_target(arguments)
    return run(arguments, target.table(target.stack().table_name))


if __name__ == "__main__":
    sys.exit(main())
