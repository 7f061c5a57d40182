"""The one table: items in and out, conditional writes and who won them, what is due, and the table's time."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from itertools import islice
from math import isfinite
from typing import TYPE_CHECKING, Any, TypeVar

from botocore.exceptions import BotoCoreError, ClientError

from functions.shared.domain.resilience import TableTime
from functions.shared.platform.observability import logger

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient


Item = dict[str, Any]

TABLE_FAILED = (ClientError, BotoCoreError)  # it refused, or did not answer
_AT_ONCE = 100  # BatchGetItem's own limit
_PARTS = 10  # in which a busy table may answer
_BEING_WRITTEN = "TransactionConflictException"  # a transaction is writing the item right now


class ConditionFailed(Exception):
    """Somebody else wrote first; `failed` has the positions of the refused writes of a transaction."""

    def __init__(self, failed: frozenset[int] = frozenset({0})) -> None:
        super().__init__("a conditional write was refused")
        self.failed = failed


@dataclass(frozen=True)
class Write:
    """A put of one whole item, under a condition or without one."""

    item: Item
    condition: str | None = None
    values: Mapping[str, Any] | None = None
    names: Mapping[str, str] | None = None


@dataclass(frozen=True)
class ItemUpdate:
    """A change of parts of one item, as one of the writes of a transaction."""

    pk: str
    sk: str
    expression: str
    values: Mapping[str, Any]
    condition: str | None = None


@dataclass(frozen=True)
class Removal:
    """A delete of one item, for a transaction."""

    pk: str
    sk: str


@dataclass(frozen=True)
class Check:
    """That an item which is not written is as it was read."""

    pk: str
    sk: str
    condition: str
    values: Mapping[str, Any] | None = None


Transacted = Write | ItemUpdate | Removal | Check

NEW = "attribute_not_exists(pk)"  # nobody has written this item yet


def marshal(item: Mapping[str, Any]) -> dict[str, Any]:
    """As the table's API has it, in a fraction of the time of boto3's own way. None is left out."""
    return {name: _stored(value) for name, value in item.items() if value is not None}


def unmarshal(item: Mapping[str, Any]) -> Item:
    """Numbers come back as the int or float they were; money is kept as text."""
    return {name: _read(value) for name, value in item.items()}


def _stored(value: Any) -> dict[str, Any]:
    if isinstance(value, str):
        return {"S": str(value)}
    if isinstance(value, bytes):
        return {"B": value}
    if isinstance(value, bool) or value is None:
        return {"NULL": True} if value is None else {"BOOL": value}
    if isinstance(value, int) or (isinstance(value, float) and isfinite(value)):
        return {"N": str(value)}
    if isinstance(value, Mapping):
        return {"M": {str(name): _stored(inner) for name, inner in value.items()}}
    if isinstance(value, list | tuple):
        return {"L": [_stored(inner) for inner in value]}
    raise TypeError(f"{value!r} cannot be stored")


def _read(stored: Mapping[str, Any]) -> Any:
    ((kind, value),) = stored.items()
    if kind == "N":
        return int(value) if value.lstrip("-").isdigit() else float(value)
    if kind == "M":
        return unmarshal(value)
    if kind == "L":
        return [_read(inner) for inner in value]
    return None if kind == "NULL" else value


class Table:
    def __init__(self, client: "DynamoDBClient", name: str) -> None:
        self.client = client
        self.name = name

    def get(self, pk: str, sk: str) -> Item | None:
        answer = self.client.get_item(
            TableName=self.name, Key={"pk": {"S": pk}, "sk": {"S": sk}}, ConsistentRead=True
        )
        return unmarshal(answer["Item"]) if "Item" in answer else None

    def get_both(self, *keys: tuple[str, str]) -> list[Item | None]:
        """Of each key the item, consistently: one request, or one for each where the table is too busy."""
        wanted = [{"pk": {"S": pk}, "sk": {"S": sk}} for pk, sk in keys]
        answer = self.client.batch_get_item(
            RequestItems={self.name: {"Keys": wanted, "ConsistentRead": True}}
        )
        if answer.get("UnprocessedKeys"):
            return [self.get(*key) for key in keys]
        found = {(item["pk"], item["sk"]): item for item in map(unmarshal, answer["Responses"][self.name])}
        return [found.get(key) for key in keys]

    def get_all(
        self, keys: Iterable[tuple[str, str]], *, consistent: bool = False, only: Sequence[str] = ()
    ) -> Iterator[Item]:
        """The items of those keys, in any order and, unless consistent, perhaps a moment old: what is not
        there, or what a busy table does not give, is left out. `only` these of their attributes, if named."""
        parts: dict[str, Any] = {"ConsistentRead": consistent}
        if only:
            parts["ExpressionAttributeNames"] = {f"#{name}": name for name in only}
            parts["ProjectionExpression"] = ", ".join(f"#{name}" for name in only)
        wanted = ({"pk": {"S": pk}, "sk": {"S": sk}} for pk, sk in dict.fromkeys(keys))
        while some := list(islice(wanted, _AT_ONCE)):
            left: Any = {self.name: {"Keys": some, **parts}}
            for _ in range(_PARTS):
                answer = self.client.batch_get_item(RequestItems=left)
                yield from map(unmarshal, answer["Responses"].get(self.name, []))
                if not (left := answer.get("UnprocessedKeys")):
                    break

    def whole(self, entries: Iterable[Item]) -> list[Item]:
        """The items that these entries of an index are about, in their order, as they are now."""
        keys = [(entry["pk"], entry["sk"]) for entry in entries]
        found = {(item["pk"], item["sk"]): item for item in self.get_all(keys, consistent=True)}
        return [found[key] for key in keys if key in found]

    def put(self, write: Write) -> None:
        try:
            self.client.put_item(TableName=self.name, **_put(write))
        except ClientError as error:
            raise _translated(error) from error

    def made_once(self, item: Item) -> Item:
        """What is stored under this key: whoever comes first stores this, and everybody gets the same."""
        found = self.get(item["pk"], item["sk"])
        if found is not None:
            return found
        try:
            self.put(Write(item, NEW))
        except ConditionFailed:
            return self.get(item["pk"], item["sk"]) or item
        return item

    def delete(
        self, pk: str, sk: str, condition: str | None = None, values: Mapping[str, Any] | None = None
    ) -> None:
        optional: dict[str, Any] = {"ConditionExpression": condition} if condition else {}
        if values:
            optional["ExpressionAttributeValues"] = marshal(values)
        try:
            self.client.delete_item(TableName=self.name, Key={"pk": {"S": pk}, "sk": {"S": sk}}, **optional)
        except ClientError as error:
            raise _translated(error) from error

    def transact(self, writes: Iterable[Transacted]) -> None:
        """All of them or none. One alone needs no transaction, which would cost twice as much."""
        writes = list(writes)
        if len(writes) == 1 and isinstance(writes[0], Write):
            self._put_alone(writes[0])
            return
        items: list[Any] = [self._transacted(write) for write in writes]
        try:
            self.client.transact_write_items(TransactItems=items)
        except ClientError as error:
            raise _translated(error) from error

    def _transacted(self, write: Transacted) -> dict[str, Any]:
        if isinstance(write, Write):
            return {"Put": {"TableName": self.name, **_put(write)}}
        part: dict[str, Any] = {"TableName": self.name, "Key": {"pk": {"S": write.pk}, "sk": {"S": write.sk}}}
        if isinstance(write, Removal):
            return {"Delete": part}
        if write.condition:
            part["ConditionExpression"] = write.condition
        if write.values:
            part["ExpressionAttributeValues"] = marshal(write.values)
        if isinstance(write, ItemUpdate):
            return {"Update": {**part, "UpdateExpression": write.expression}}
        return {"ConditionCheck": part}

    def _put_alone(self, write: Write) -> None:
        """A transaction that is writing the item right now is another writer, as it is for a transaction."""
        try:
            self.put(write)
        except ClientError as error:
            if error.response["Error"]["Code"] != _BEING_WRITTEN:
                raise
            raise ConditionFailed from error

    def update(
        self,
        pk: str,
        sk: str,
        expression: str,
        *,
        condition: str | None = None,
        values: Mapping[str, Any] | None = None,
        names: Mapping[str, str] | None = None,
    ) -> Item:
        """Change parts of an item and return it whole."""
        optional: dict[str, Any] = {}
        if condition:
            optional["ConditionExpression"] = condition
        if values:
            optional["ExpressionAttributeValues"] = marshal(values)
        if names:
            optional["ExpressionAttributeNames"] = dict(names)
        try:
            answer = self.client.update_item(
                TableName=self.name,
                Key={"pk": {"S": pk}, "sk": {"S": sk}},
                UpdateExpression=expression,
                ReturnValues="ALL_NEW",
                **optional,
            )
        except ClientError as error:
            raise _translated(error) from error
        return unmarshal(answer["Attributes"])

    def query(
        self,
        condition: str,
        values: Mapping[str, Any],
        *,
        index: str | None = None,
        names: Mapping[str, str] | None = None,
        forward: bool = True,
        limit: int | None = None,
        start: Mapping[str, Any] | None = None,
    ) -> tuple[list[Item], Item | None]:
        """One page, and the key to go on from."""
        optional: dict[str, Any] = {"IndexName": index} if index else {"ConsistentRead": True}
        if names:
            optional["ExpressionAttributeNames"] = dict(names)
        if limit:
            optional["Limit"] = limit
        if start:
            optional["ExclusiveStartKey"] = marshal(start)
        answer = self.client.query(
            TableName=self.name,
            KeyConditionExpression=condition,
            ExpressionAttributeValues=marshal(values),
            ScanIndexForward=forward,
            **optional,
        )
        last = answer.get("LastEvaluatedKey")
        return [unmarshal(item) for item in answer["Items"]], unmarshal(last) if last else None

    def count(
        self, condition: str, values: Mapping[str, Any], *, index: str, names: Mapping[str, str]
    ) -> int:
        pages = self.client.get_paginator("query").paginate(
            TableName=self.name,
            IndexName=index,
            KeyConditionExpression=condition,
            ExpressionAttributeNames=dict(names),
            ExpressionAttributeValues=marshal(values),
            Select="COUNT",
        )
        return sum(page["Count"] for page in pages)

    def query_all(self, condition: str, values: Mapping[str, Any], **options: Any) -> list[Item]:
        return list(self.query_each(condition, values, **options))

    def query_each(self, condition: str, values: Mapping[str, Any], **options: Any) -> Iterator[Item]:
        """The same, for whoever need not hold all of them at once."""
        items, start = self.query(condition, values, **options)
        yield from items
        while start:
            items, start = self.query(condition, values, start=start, **options)
            yield from items

    def page(
        self,
        index: str,
        key: str,
        value: str,
        *,
        limit: int,
        after: str | None,
        wanted: Callable[[Item], bool] = lambda _: True,
    ) -> tuple[list[Item], str | None]:
        """Whole items, newest first, from below the id `after`; and the id that the next page goes on below,
        if any. The index may lag: only what is still so by the items themselves is in the page."""
        condition, values = "#key = :key", {":key": value}
        if after:
            condition, values = f"{condition} AND id < :after", {**values, ":after": after}
        found: list[Item] = []
        entries: list[Item] = []  # that have not been read yet
        start: Item | None = None
        while True:
            some, start = self.query(
                condition,
                values,
                index=index,
                names={"#key": key},
                forward=False,
                limit=limit + 1,
                start=start,
            )
            entries += filter(wanted, some)
            while entries and (room := limit - len(found)):
                items, entries = self.whole(entries[:room]), entries[room:]
                found += (item for item in items if item.get(key) == value and wanted(item))
            if entries or not start:
                return found, found[-1]["id"] if entries else None


def _put(write: Write) -> dict[str, Any]:
    put: dict[str, Any] = {"Item": marshal(write.item)}
    if write.condition:
        put["ConditionExpression"] = write.condition
    if write.values:
        put["ExpressionAttributeValues"] = marshal(write.values)
    if write.names:
        put["ExpressionAttributeNames"] = dict(write.names)
    return put


def _translated(error: ClientError) -> Exception:
    """Another writer's doing is ConditionFailed; everything else stays what it is."""
    code = error.response["Error"]["Code"]
    if code == "ConditionalCheckFailedException":
        return ConditionFailed()
    if code == "TransactionCanceledException":
        reasons = error.response.get("CancellationReasons", [])
        lost = {"ConditionalCheckFailed", "TransactionConflict"}
        failed = frozenset(i for i, reason in enumerate(reasons) if reason.get("Code") in lost)
        if failed:
            return ConditionFailed(failed)
    return error


T = TypeVar("T")

RETENTION = timedelta(days=30)
UNREADABLE = (KeyError, TypeError, ValueError)  # what reading an item of another version may raise


def millis(time: datetime) -> int:
    return int(time.timestamp() * 1000)


def moment(at: int) -> datetime:
    return datetime.fromtimestamp(at / 1000, UTC)


def readable(read: Callable[[Item], T], found: Iterable[Item]) -> Iterator[T]:
    """One that cannot be read, as after a roll-back, must not hide the others."""
    for item in found:
        try:
            yield read(item)
        except UNREADABLE:
            logger.exception("item not read", key=item["pk"])


def event_key(sequence: int) -> str:
    """The sort key of an event, below its instance."""
    return f"event#{sequence:010d}"


# Neither another sweep nor a step has moved the due time since it was read.
_STILL_DUE = "dueAt = :seen"


class Due:
    def __init__(self, table: Table) -> None:
        self._table = table

    def overdue(self, kind: str, until: datetime, limit: int) -> Sequence[Item]:
        """Keys of what should have happened by then, longest overdue first."""
        found, _ = self._table.query(
            "due = :due AND dueAt <= :until",
            {":due": kind, ":until": millis(until)},
            index="due",
            limit=limit,
        )
        return found

    def whole(self, kind: str, until: datetime, limit: int) -> Iterator[Item]:
        """The items that are due by then: the index only has their keys."""
        return self._table.get_all((one["pk"], one["sk"]) for one in self.overdue(kind, until, limit))

    def claim(self, overdue: Item, until: datetime) -> Item | None:
        """Take it for one sweep, unless another sweep or a step was quicker: the whole item, due later."""
        try:
            return self._table.update(
                overdue["pk"],
                overdue["sk"],
                "SET dueAt = :until",
                condition=_STILL_DUE,
                values={":until": millis(until), ":seen": overdue["dueAt"]},
            )
        except ConditionFailed:
            return None
        except ClientError as error:
            if error.response["Error"]["Code"] != _BEING_WRITTEN:
                raise
            return None


_DRIFT = 10_000  # two clocks come apart by no more than one in so many
_SURE_FOR = 60_000  # milliseconds since the last answer
_SET_BY = 200  # milliseconds by which a clock differs from one that cannot be set: it was


class TableClock:
    """The table's time, from this process's own clock and the dates of the table's answers.

    A date is in whole seconds, so that each answer leaves a second open; several narrow it down.
    """

    def __init__(
        self, clock: Callable[[], datetime], monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock = clock
        self._monotonic = monotonic
        self._ahead: TableTime | None = None  # how far the table's clock is ahead of this process's
        self._learned = (0, 0)  # when, by the clock and by the one that cannot be set

    def own(self) -> int:
        return round(self._clock().timestamp() * 1000)

    def now(self) -> TableTime:
        own = self.own()
        if self._ahead is None:  # only where the table does not answer
            return TableTime(own, own)
        drift = abs(own - self._learned[0]) // _DRIFT
        return TableTime(own + self._ahead.earliest - drift, own + self._ahead.latest + drift)

    def is_sure(self) -> bool:
        """Whether an answer was there lately, and the own clock was not set since; nor the process asleep."""
        passed, truly = self.own() - self._learned[0], self._elapsed() - self._learned[1]
        return self._ahead is not None and abs(passed - truly) <= _SET_BY and truly <= _SURE_FOR

    def learn(self, sent: int, answer: Mapping[str, Any]) -> None:
        """`sent` is what `own` was before the request."""
        date = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("date") or ""
        try:
            answered = parsedate_to_datetime(date)
        except ValueError:
            return
        self._narrow(sent, round(answered.timestamp() * 1000))

    def _narrow(self, sent: int, answered: int) -> None:
        own, known = self.own(), self.now()
        new = TableTime(answered - own, answered + 1000 - sent)
        both = TableTime(max(new.earliest, known.earliest - own), min(new.latest, known.latest - own))
        agree = self.is_sure() and both.earliest <= both.latest
        self._ahead, self._learned = both if agree else new, (own, self._elapsed())

    def _elapsed(self) -> int:
        return round(self._monotonic() * 1000)
