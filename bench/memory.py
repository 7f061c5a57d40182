"""The table in memory, for benches with thousands of instances: what the adapters ask of it, and no more."""

import re
from bisect import bisect_right, insort
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from functions.shared.stores.table import (
    NEW,
    Check,
    ConditionFailed,
    Item,
    ItemUpdate,
    Removal,
    Table,
    Transacted,
    Write,
)

Values = Mapping[str, Any]

# Every condition of the adapters under test, by its text: a new one is a KeyError, not a silent yes.
CONDITIONS: dict[str, Callable[[Item | None, Values], bool]] = {
    NEW: lambda item, _: item is None,
    "attribute_exists(pk) AND #version = :version": lambda item, values: (
        item is not None and item["version"] == values[":version"]
    ),
    "attribute_not_exists(pk) OR leaseUntil <= :now": lambda item, values: (
        item is None or item["leaseUntil"] <= values[":now"]
    ),
    "attribute_not_exists(pk) OR plannedUntil <= :known": lambda item, values: (
        item is None or item["plannedUntil"] <= values[":known"]
    ),
    "outcome IN (:intended, :unclear)": lambda item, values: (
        item is not None and item["outcome"] in (values[":intended"], values[":unclear"])
    ),
    "holder = :holder": lambda item, values: item is not None and item["holder"] == values[":holder"],
    "size(samples) = :size": lambda item, values: (
        item is not None and len(item["samples"]) == values[":size"]
    ),
}
_APPEND = re.compile(r"samples = list_append")
_ADD = re.compile(r"ADD (.+?)(?: SET .*)?$")


class MemoryTable(Table):
    def __init__(self) -> None:
        self._items: dict[str, dict[str, Item]] = defaultdict(dict)
        self._due: list[tuple[int, str, str]] = []  # when, pk, sk: of instances alone
        self.reads = self.writes = 0

    def get(self, pk: str, sk: str) -> Item | None:
        self.reads += 1
        return self._items[pk].get(sk)

    def put(self, write: Write) -> None:
        self.transact([write])

    def transact(self, writes: Iterable[Transacted]) -> None:
        """Nothing that is measured here leaves a list, has a cap, or is billed by Novita."""
        some = [write for write in writes if not isinstance(write, Removal | ItemUpdate)]
        failed = frozenset(number for number, write in enumerate(some) if not self._allowed(write))
        if failed:
            raise ConditionFailed(failed)
        for write in some:
            if isinstance(write, Write):
                self._store(write.item)

    def update(self, pk: str, sk: str, expression: str, **options: Any) -> Item:
        item = dict(self._items[pk].get(sk) or {"pk": pk, "sk": sk})
        values = options.get("values") or {}
        if condition := options.get("condition"):
            self._check(condition, self._items[pk].get(sk), values)
        if _APPEND.search(expression):
            item["samples"] = [*item.get("samples", []), *values[":one"]]
        elif expression == "SET samples = :last":
            item["samples"] = values[":last"]
        elif added := _ADD.search(expression):
            for pair in added[1].split(","):
                name, value = pair.split()
                attribute = options["names"][name]
                item[attribute] = item.get(attribute, 0) + values[value]
        else:
            raise KeyError(expression)
        self._store(item)
        return item

    def query(self, condition: str, values: Values, **options: Any) -> tuple[list[Item], Item | None]:
        self.reads += 1
        if options.get("index") == "due":
            end = bisect_right(self._due, (values[":until"], "~", "~"))
            found = self._due[:end][: options["limit"]]
            return [{"pk": pk, "sk": sk, "dueAt": at} for at, pk, sk in found], None
        if condition in ("pk = :pk", "pk = :pk AND begins_with(sk, :sk)"):
            of_it = self._items[values[":pk"]]
            return [of_it[sk] for sk in sorted(of_it) if sk.startswith(values.get(":sk", ""))], None
        raise KeyError(condition)

    def forget(self, pk: str) -> None:
        for item in self._items.pop(pk, {}).values():
            self._undue(item)

    def _allowed(self, write: Write | Check) -> bool:
        pk, sk = (write.pk, write.sk) if isinstance(write, Check) else (write.item["pk"], write.item["sk"])
        before = self._items[pk].get(sk)
        return write.condition is None or CONDITIONS[write.condition](before, write.values or {})

    def _check(self, condition: str, item: Item | None, values: Values) -> None:
        if not CONDITIONS[condition](item, values):
            raise ConditionFailed

    def _store(self, item: Item) -> None:
        self.writes += 1
        before = self._items[item["pk"]].get(item["sk"])
        if before is not None:
            self._undue(before)
        self._items[item["pk"]][item["sk"]] = item
        if item.get("due") == "instance":
            insort(self._due, (item["dueAt"], item["pk"], item["sk"]))

    def _undue(self, item: Item) -> None:
        if item.get("due") == "instance":
            self._due.remove((item["dueAt"], item["pk"], item["sk"]))
