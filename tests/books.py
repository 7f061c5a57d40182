"""Do the books balance: every machine at Novita against every record here."""

from collections.abc import Iterable
from typing import Any

from functions.shared.domain.ids import read_mark
from functions.shared.domain.instance.record import Instance
from functions.shared.domain.instance.status import Status
from functions.shared.stores.instances import read_record
from functions.shared.stores.table import unmarshal
from local.novita.client import Simulator

_MACHINE = frozenset(Status) - {Status.CREATING, Status.FAILED, Status.DELETING, Status.TERMINATED}


def read_records(dynamodb: Any, table_name: str) -> list[Instance]:
    pages = dynamodb.get_paginator("scan").paginate(TableName=table_name, ConsistentRead=True)
    items = [unmarshal(item) for page in pages for item in page["Items"]]
    return [read_record(item) for item in items if item.get("kind") == "instance"]


def deployment_id(dynamodb: Any, table_name: str) -> str:
    key = {"pk": {"S": "deployment"}, "sk": {"S": "deployment"}}
    item = dynamodb.get_item(TableName=table_name, Key=key, ConsistentRead=True).get("Item")
    return str(item["id"]["S"]) if item else ""


def assert_books_balance(simulator: Simulator, dynamodb: Any, table_name: str) -> None:
    """Each instance that should have a machine has exactly one, and nothing else of ours lives."""
    records = read_records(dynamodb, table_name)
    unrest = [f"{record.id} is {record.status}" for record in records if not record.at_rest]
    assert not unrest, f"not at rest: {unrest}"
    deployment = deployment_id(dynamodb, table_name)
    expected = {record.machine.id: record.id for record in records if should_have_machine(record)}
    known = {record.machine.id: record.id for record in records} | expected  # imported ones may lack our mark
    live = {
        machine["id"]: known.get(machine["id"]) or (mark and mark.instance_id)
        for machine in simulator.live()
        if (mark := read_mark(machine["name"], deployment) if deployment else None) or machine["id"] in known
    }
    assert live == expected, f"live at Novita: {live}; expected: {expected}"


def should_have_machine(record: Instance) -> bool:
    kept = (
        record.status is Status.FAILED and record.machine.id and record.machine.id not in record.cleanup.gone
    )
    return record.status in _MACHINE or bool(kept)


def assert_no_gaps(events: Iterable[dict[str, Any]]) -> None:
    numbers = [event["sequence"] for event in events]
    assert numbers == list(range(1, len(numbers) + 1))
