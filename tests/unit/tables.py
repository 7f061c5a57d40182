"""The one table in this process, with the indexes that the stack gives it."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from itertools import count
from typing import Any

import boto3
from moto import mock_aws

from functions.shared.stores.instances import Instances
from functions.shared.stores.table import Table
from tests.unit.builders import NOW

# name: (partition key, sort key, its type, what it carries beside the keys), as infra.table has them
INDEXES: dict[str, tuple[str, str, str, tuple[str, ...]]] = {
    "due": ("due", "dueAt", "N", ()),
    "listed": ("listed", "id", "S", ()),
    "status": ("statusKey", "id", "S", ()),
    "lookup": ("lookup", "id", "S", ("statusKey", "fleet")),
    "fleet": ("fleet", "id", "S", ("summary",)),
}


_numbers = count(1)


class Clock:
    now: datetime = NOW

    def __call__(self) -> datetime:
        return self.now


class Counted(Table):
    reads = 0

    def get(self, pk: str, sk: str) -> Any:
        self.reads += 1
        return super().get(pk, sk)


@contextmanager
def dynamodb() -> Iterator[Any]:
    with mock_aws():
        yield boto3.client(
            "dynamodb", region_name="us-east-1", aws_access_key_id="-", aws_secret_access_key="-"
        )


def new_table(client: Any) -> Table:
    name = f"table-{next(_numbers)}"
    client.create_table(TableName=name, **table_definition())
    return Table(client, name)


def table_definition() -> dict[str, Any]:
    keys = {"pk": "S", "sk": "S"}
    for partition, sort, kind, _ in INDEXES.values():
        keys |= {partition: "S", sort: kind}
    return {
        "BillingMode": "PAY_PER_REQUEST",
        "AttributeDefinitions": [{"AttributeName": key, "AttributeType": kind} for key, kind in keys.items()],
        "KeySchema": _key("pk", "sk"),
        "GlobalSecondaryIndexes": [
            {"IndexName": index, "KeySchema": _key(partition, sort), "Projection": projection(carried)}
            for index, (partition, sort, _, carried) in INDEXES.items()
        ],
    }


def projection(carried: tuple[str, ...]) -> dict[str, Any]:
    if not carried:
        return {"ProjectionType": "KEYS_ONLY"}
    return {"ProjectionType": "INCLUDE", "NonKeyAttributes": list(carried)}


def instances_in(table: Table) -> Instances:
    tokens = count(1)
    return Instances(table, lambda: f"token-{next(tokens)}")


def _key(partition: str, sort: str) -> list[dict[str, str]]:
    return [
        {"AttributeName": partition, "KeyType": "HASH"},
        {"AttributeName": sort, "KeyType": "RANGE"},
    ]
