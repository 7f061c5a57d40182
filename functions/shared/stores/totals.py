"""How many instances a listing has, at a price that does not grow with their number."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

from functions.shared.domain.ids import earliest_instance_id
from functions.shared.domain.instance.status import Status
from functions.shared.stores.cache import SharedCache
from functions.shared.stores.listings import Listing, ids_in_all
from functions.shared.stores.table import ConditionFailed, Item, Table, Write, marshal

_BASE = ("total#instances", "total")
_EXACT = 1000  # entries of an index, which one query reads for the price of four records
_SETTLED = timedelta(minutes=5)  # by then an instance is stored, or never will be
# Nobody has moved the base since it was read.
_SAME = "attribute_not_exists(pk) OR #after = :after"


class Totals:
    """Exact where one short query is enough; of longer listings cached, for `ttl` seconds at most."""

    def __init__(self, table: Table, cache: SharedCache, clock: Callable[[], datetime], ttl: float) -> None:
        self._table = table
        self._cache = cache
        self._clock = clock
        self._ttl = ttl

    def of(self, listing: Listing) -> int:
        key = f"total#{listing.status or ''}#{listing.name or ''}"
        if listing.joined:
            key = f"{key}#{listing.owner or ''}#{listing.tag or ''}"
        known = self._cache.get(key, self._ttl)
        if known is not None:
            return int(known)
        lists = listing.parts if listing.joined else [listing.entries]
        total, more = self._joined(lists) if len(lists) > 1 else self._count(*lists[0], listing)
        if more is None:
            return total
        total = self._long(listing, lists[0], total, more)
        self._cache.put(key, total)
        return total

    def _joined(self, lists: Sequence[tuple[str, str, str]]) -> tuple[int, Item | None]:
        """As one goes through them anyway, to the end; of a long one there is more to say only later."""
        total = sum(1 for _ in ids_in_all(self._table, lists, None))
        return total, {} if total > _EXACT else None

    def _long(self, listing: Listing, entries: tuple[str, str, str], counted: int, more: Item | None) -> int:
        if listing == Listing():
            return self._all()
        if listing == Listing(status=Status.TERMINATED):  # the one that grows for ever: all but the others
            others = (one for one in Status if one is not Status.TERMINATED)
            return self._all() - sum(self.of(Listing(status=one)) for one in others)
        while more:
            some, more = self._count(*entries, listing, start=more)
            counted += some
        return counted

    def _all(self) -> int:
        """Instances are never removed and their ids grow with time: what was counted once stays counted."""
        base = self._table.get(*_BASE) or {"after": "", "count": 0}
        mark = earliest_instance_id(self._clock() - _SETTLED)
        if mark > base["after"]:
            old = base["count"] + self._between(base["after"], mark)
            item = {"pk": _BASE[0], "sk": _BASE[1], "kind": "count", "after": mark, "count": old}
            with suppress(ConditionFailed):  # somebody else has moved it
                self._table.put(Write(item, _SAME, {":after": base["after"]}, {"#after": "after"}))
            base = item
        return int(base["count"]) + self._between(base["after"], "~")

    def _between(self, after: str, until: str) -> int:
        """Above `after`, up to `until` itself; of all instances."""
        counted, more = self._page("listed", "listed", "instances", (after, until))
        while more is not None:
            some, more = self._page("listed", "listed", "instances", (after, until), more)
            counted += some
        return counted

    def _count(
        self, index: str, key: str, value: str, listing: Listing, start: Item | None = None
    ) -> tuple[int, Item | None]:
        return self._page(
            index,
            key,
            value,
            start=start,
            status=listing.status if listing.name is not None else None,
            limit=_EXACT if start is None else None,
        )

    def _page(
        self,
        index: str,
        key: str,
        value: str,
        ids: tuple[str, str] | None = None,
        start: Any = None,
        status: str | None = None,
        limit: int | None = None,
    ) -> tuple[int, Any]:
        condition, values, names = "#key = :key", {":key": value}, {"#key": key}
        optional: dict[str, Any] = {}
        if ids is not None:
            # The mark itself is no instance's id, so that both ends may be included.
            condition += " AND id BETWEEN :after AND :until"
            values |= {":after": ids[0] or "!", ":until": ids[1]}
        if status is not None:
            optional["FilterExpression"] = "statusKey = :status"
            values[":status"] = f"instances#{status}"
        if start is not None:
            optional["ExclusiveStartKey"] = start
        if limit is not None:
            optional["Limit"] = limit
        answer = self._table.client.query(
            TableName=self._table.name,
            IndexName=index,
            KeyConditionExpression=condition,
            ExpressionAttributeNames=names,
            ExpressionAttributeValues=marshal(values),
            Select="COUNT",
            **optional,
        )
        return answer["Count"], answer.get("LastEvaluatedKey")
