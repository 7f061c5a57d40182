"""What a trace of the real handlers costs in DynamoDB's write units, for the table and for each index.

An item costs a unit for each kilobyte that it begins, of what it was or is, whichever is larger; twice that
in a transaction. An index costs nothing where what it carries of the item is the same as before, one entry
where it changed or came or went, and two where its key changed: the old one goes, the new one comes. Whether
a transaction doubles the units of indexes too is not documented: here it does not.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.integration.harness import Harness
from tests.integration.wire import Made

Stored = Mapping[str, Any]  # as DynamoDB sends it, each value with its type

_WRITES = ("PutItem", "UpdateItem", "DeleteItem", "TransactWriteItems")


def units(size: int) -> int:
    return -(-size // 1024)


def item_size(item: Stored) -> int:
    """As DynamoDB counts: names and values in UTF-8."""
    return sum(len(name.encode()) + _value_size(value) for name, value in item.items())


def _value_size(typed: Mapping[str, Any]) -> int:
    ((kind, value),) = typed.items()
    if kind == "S":
        return len(value.encode())
    if kind == "B":
        return len(value)
    if kind == "N":
        return (len(str(value).lstrip("-").replace(".", "")) + 1) // 2 + 2
    if kind == "M":
        return 3 + sum(1 + len(name.encode()) + _value_size(one) for name, one in value.items())
    if kind == "L":
        return 3 + sum(1 + _value_size(one) for one in value)
    return 1  # BOOL and NULL; nothing else is stored


@dataclass(frozen=True)
class Index:
    """One of the template's, and what it carries."""

    name: str
    keys: tuple[str, ...]
    carries: tuple[str, ...] | None  # None: everything

    @classmethod
    def read(cls, defined: Mapping[str, Any]) -> "Index":
        keys = tuple(part["AttributeName"] for part in defined["KeySchema"])
        projection = defined["Projection"]
        carried = {*keys, "pk", "sk", *projection.get("NonKeyAttributes", ())}
        everything = projection["ProjectionType"] == "ALL"
        return cls(defined["IndexName"], keys, None if everything else tuple(sorted(carried)))

    def entry(self, item: Stored | None) -> dict[str, Any] | None:
        """What it holds of the item, if it does."""
        if item is None or not all(key in item for key in self.keys):
            return None
        return {name: value for name, value in item.items() if self.carries is None or name in self.carries}

    def cost(self, before: Stored | None, after: Stored | None) -> int:
        old, new = self.entry(before), self.entry(after)
        if old == new:
            return 0
        if old and new and all(old[key] == new[key] for key in self.keys):
            return units(max(item_size(old), item_size(new)))
        return sum(units(item_size(entry)) for entry in (old, new) if entry)


@dataclass
class WriteUnits:
    """Where the units went: by table or index, and by the call that was made."""

    by_place: Counter[str] = field(default_factory=Counter)
    by_call: Counter[str] = field(default_factory=Counter)

    @property
    def total(self) -> int:
        return self.by_place.total()

    def add(self, call: str, place: str, cost: int) -> None:
        if cost:
            self.by_place[place] += cost
            self.by_call[call] += cost


@contextmanager
def counting(
    harness: Harness,
    definition: Mapping[str, Any],
    as_if: Callable[[Stored], Stored | None] = lambda item: item,
) -> Iterator[WriteUnits]:
    """Of every write that succeeds meanwhile; `as_if` says what of an item is counted, None: nothing."""
    indexes = [Index.read(one) for one in definition["GlobalSecondaryIndexes"]]
    counted = WriteUnits()
    before: dict[int, list[Stored | None]] = {}

    def leaving(made: Made) -> None:
        if made.name.split()[0] in _WRITES:
            before[id(made)] = [_read(harness, key) for key in _keys(made)]

    def arrived(made: Made) -> None:
        if made.name.split()[0] not in _WRITES:
            return
        twice = 2 if "TransactItems" in made.params else 1
        for key, old in zip(_keys(made), before.pop(id(made)), strict=True):
            new = _read(harness, key)
            old, new = (one and as_if(one) for one in (old, new))
            if old is None and new is None:
                continue
            call = f"{made.handler} {made.name}"
            size = max(item_size(one) for one in (old, new, {}) if one is not None)
            counted.add(call, "table", twice * max(1, units(size)))
            for index in indexes:
                counted.add(call, index.name, index.cost(old, new))

    harness.wire.before, harness.wire.after = leaving, arrived
    try:
        yield counted
    finally:
        harness.wire.before = harness.wire.after = None


def _keys(made: Made) -> list[Stored]:
    wanted = [next(iter(one.values())) for one in made.params.get("TransactItems", [])] or [made.params]
    places = [one.get("Key") or one["Item"] for one in wanted]
    return [{"pk": place["pk"], "sk": place["sk"]} for place in places]


def _read(harness: Harness, key: Stored) -> Stored | None:
    answer = harness.dynamodb.get_item(TableName=harness.table_name, Key=key, ConsistentRead=True)
    found: Stored | None = answer.get("Item")
    return found
