"""Do the books balance: every machine at Novita against every record here, every end against who asked."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from functions.shared.domain.ids import read_mark
from functions.shared.domain.instance.record import Action, Instance
from functions.shared.domain.instance.status import Status
from functions.shared.stores.instances import read_event, read_operation, read_purchase, read_record
from functions.shared.stores.ledger import read_line
from functions.shared.stores.table import UNREADABLE, moment, unmarshal
from local.novita.client import Simulator
from tests.costs import WITHIN, Now, wrong_costs
from tests.unasked import End, History, unasked

_MACHINE = frozenset(Status) - {Status.CREATING, Status.FAILED, Status.DELETING, Status.TERMINATED}
_ENDS = (Action.STOP, Action.DELETE)


@dataclass
class Books:
    """What the table holds, sorted by instance."""

    histories: defaultdict[str, History] = field(default_factory=lambda: defaultdict(History))
    orphans: dict[str, datetime] = field(default_factory=dict)  # machines that were announced as such, when
    deployment: str = ""

    @property
    def records(self) -> dict[str, Instance]:
        return {id_: one.record for id_, one in self.histories.items() if one.record}

    def owners(self, machine: dict[str, Any]) -> list[str]:
        """Whose it is or was: by its mark, which one without a record has, too, and by the records. One that
        was released may have been imported again."""
        mark = read_mark(machine["name"], self.deployment) if self.deployment else None
        known = [one.id for one in self.records.values() if one.machine.id == machine["id"]]
        return list(dict.fromkeys((*known, mark.instance_id) if mark else known))


def read_items(dynamodb: Any, table_name: str) -> list[dict[str, Any]]:
    pages = dynamodb.get_paginator("scan").paginate(TableName=table_name, ConsistentRead=True)
    return [unmarshal(item) for page in pages for item in page["Items"]]


def books_of(items: Iterable[dict[str, Any]]) -> Books:
    books = Books()
    for item in items:
        match item.get("kind"):
            case "instance":
                books.histories[item["id"]].record = read_record(item)
            case "event" if "event" in item:
                with suppress(*UNREADABLE):  # tests also write what makes no sense
                    books.histories[item["pk"]].events.append(read_event(item))
            case "purchase":
                books.histories[item["pk"]].purchases.append(read_purchase(item))
            case "operation":
                books.histories[item["instanceId"]].operations.append(read_operation(item))
            case "orphan":
                books.orphans[item["pk"].removeprefix("orphan#")] = moment(item["firstSeen"])
            case "cost":
                books.histories[item["pk"]].lines.append(read_line(item))
            case "costEntry":
                books.histories[item["sk"].split("#")[1]].day_usd.append(Decimal(item["usd"]))
            case "deployment":
                books.deployment = item["id"]
    return books


def assert_books_balance(
    simulator: Simulator,
    dynamodb: Any,
    table_name: str,
    orphan_age: timedelta | None = None,
    costs_within: timedelta = WITHIN,
) -> None:
    """Each instance that should have a machine has exactly one, nothing else of ours lives, no machine was
    told to end that nobody had asked to end, and each is counted when it is billed. `orphan_age`: where
    orphans are deleted, and after that."""
    books = books_of(read_items(dynamodb, table_name))
    records = books.records.values()
    unrest = [f"{record.id} is {record.status}" for record in records if not record.at_rest]
    assert not unrest, f"not at rest: {unrest}"
    expected = {record.machine.id: record.id for record in records if should_have_machine(record)}
    machines = simulator.instances()
    live = {
        machine["id"]: expected.get(machine["id"], owners[0])
        for machine in machines
        if machine["removedAt"] is None and (owners := books.owners(machine))
    }
    assert live == expected, f"live at Novita: {live}; expected: {expected}"
    assert not (unexplained := list(unasked_ends(machines, books, orphan_age))), unexplained
    now = Now(datetime.fromtimestamp(simulator.now(), UTC), costs_within)
    assert not (miscounted := list(wrong_costs(machines, books.histories, now))), miscounted


def unasked_ends(
    machines: list[dict[str, Any]], books: Books, orphan_age: timedelta | None = None
) -> Iterator[str]:
    """A sentence for each stop or delete that Novita took and nobody had asked for."""
    owned = {one["id"]: [books.histories[id_] for id_ in books.owners(one)] for one in machines}
    ends = [
        (End(one["id"], Action(taken["action"]), datetime.fromtimestamp(taken["at"], UTC)), owned[one["id"]])
        for one in machines
        for taken in one["actions"]
        if taken["action"] in _ENDS
    ]
    may_go = {} if orphan_age is None else {id_: at + orphan_age for id_, at in books.orphans.items()}
    return unasked(ends, may_go)


def should_have_machine(record: Instance) -> bool:
    kept = (
        record.status is Status.FAILED and record.machine.id and record.machine.id not in record.cleanup.gone
    )
    return record.status in _MACHINE or bool(kept)


def assert_no_gaps(events: Iterable[dict[str, Any]]) -> None:
    numbers = [event["sequence"] for event in events]
    assert numbers == list(range(1, len(numbers) + 1))
