"""Slots for jobs under way, dead letters with their reason, and how many jobs went well or did not."""

import secrets
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from functions.shared.domain.errors import Fault
from functions.shared.domain.messages import DeadLetter, JobFailure
from functions.shared.platform.observability import logger
from functions.shared.stores.table import (
    NEW,
    TABLE_FAILED,
    ConditionFailed,
    Item,
    Table,
    Write,
    millis,
    moment,
    readable,
)

# Nobody has this slot, or its holder's time is over.
_SLOT_FREE = "attribute_not_exists(#slot) OR #slot.freeAt <= :now"
_SLOT_STILL_MINE = "#slot.holder = :holder"
_SLOT_PREFIX = "place"  # as they are stored: place0, place1, …


@dataclass(frozen=True)
class JobSlot:
    pk: str
    name: str
    holder: str


class JobSlots:
    """In one item: so many jobs that have something in common may be under way at once. A slot is leased, so
    that a worker that dies keeps it only for a while."""

    def __init__(self, table: Table, kind: str) -> None:
        self._table = table
        self._kind = kind

    def read(self, pk: str) -> Item:
        return self._table.get(pk, self._kind) or {}

    def take(
        self, pk: str, most: int, now: datetime, until: datetime, *, known: Item | None = None, **also: Any
    ) -> JobSlot | None:
        """One of `most` slots, or None while as many are taken; it becomes free by itself at `until`.

        `known` is the item as it was read just now, and `also` is stored with it.
        """
        holder = secrets.token_hex(8)
        for _ in range(most + 1):  # a failed try means that somebody else got that slot
            item, known = known if known is not None else self.read(pk), None
            if busy_slots(item, now) >= most:
                return None
            names = [f"{_SLOT_PREFIX}{number}" for number in range(most)]
            free = [name for name in names if name not in item or item[name]["freeAt"] <= millis(now)]
            slot = JobSlot(pk, secrets.choice(free), holder)
            if self._taken(slot, now, until, {"kind": self._kind, **also}):
                return slot
        return None

    def release(self, slot: JobSlot, no_longer: Sequence[str] = (), **also: Any) -> None:
        """And change something else of the item with the same write."""
        try:
            self._table.update(
                slot.pk,
                self._kind,
                _change(("#slot", *no_longer), also),
                condition=_SLOT_STILL_MINE,
                names={"#slot": slot.name},
                values={":holder": slot.holder, **_values(also)},
            )
        except ConditionFailed:
            return  # it was over its time, and somebody else has it

    def note(self, pk: str, no_longer: Sequence[str] = (), **also: Any) -> None:
        """Change something of the item, of which one has no slot."""
        self._table.update(pk, self._kind, _change(no_longer, also), values=_values(also))

    def _taken(self, slot: JobSlot, now: datetime, until: datetime, also: Mapping[str, Any]) -> bool:
        try:
            self._table.update(
                slot.pk,
                self._kind,
                "SET #slot = :taken, " + ", ".join(f"{name} = :{name}" for name in also),
                condition=_SLOT_FREE,
                names={"#slot": slot.name},
                values={
                    ":taken": {"holder": slot.holder, "freeAt": millis(until)},
                    ":now": millis(now),
                    **_values(also),
                },
            )
        except ConditionFailed:
            # A write whose answer was lost is sent again by the SDK and then meets itself.
            return bool(self.read(slot.pk).get(slot.name, {}).get("holder") == slot.holder)
        return True


def _change(no_longer: Sequence[str], also: Mapping[str, Any]) -> str:
    removed = f"REMOVE {', '.join(no_longer)}" if no_longer else ""
    return removed + (f" SET {', '.join(f'{name} = :{name}' for name in also)}" if also else "")


def _values(also: Mapping[str, Any]) -> dict[str, Any]:
    return {f":{name}": value for name, value in also.items()}


def busy_slots(item: Item, now: datetime) -> int:
    slots = [slot for name, slot in item.items() if name.startswith(_SLOT_PREFIX)]
    return sum(slot["freeAt"] > millis(now) for slot in slots)


class SlowSlots:
    """Half of a queue's workers: no more of them wait at once for what has let one of them wait in vain."""

    def __init__(self, table: Table, queue: str, workers: int) -> None:
        self._slots = JobSlots(table, "slots")
        self._pk = f"slow#{queue}"
        self._most = max(1, workers // 2)

    def take(self, now: datetime, until: datetime, spare: int = 0) -> JobSlot | None:
        """One of all but `spare` slots, which are left for others; there is always one to be had."""
        return self._slots.take(self._pk, max(1, self._most - spare), now, until)

    def release(self, slot: JobSlot) -> None:
        self._slots.release(slot)


_KEPT = timedelta(days=14)
_NOTE_KEPT = timedelta(days=1)  # from the last failure; the next one, or the dead letter, follows sooner
# This message has not been stored yet, and nobody has redriven the dead letter of the same step.
_OTHER_MESSAGE = f"{NEW} OR (messageId <> :message AND attribute_not_exists(redrivenAt))"
# Nobody has redriven it before.
_NOT_REDRIVEN = "attribute_exists(pk) AND attribute_not_exists(redrivenAt)"


class DeadLetters:
    def __init__(self, table: Table) -> None:
        self._table = table

    def count_failure(self, message_id: str, error: str, fault: Fault, now: datetime) -> int | None:
        """How often this message has failed, with why it did now; None if that cannot be stored."""
        failure = _failure_item(JobFailure(error, fault, 1, now))
        attempts = failure.pop("attempts")
        noted = {"kind": "failure", **failure, "expiresAt": int((now + _NOTE_KEPT).timestamp())}
        names = {f"#{name}": name for name in noted}
        try:
            item = self._table.update(
                f"failure#{message_id}",
                "failure",
                f"SET {', '.join(f'#{name} = :{name}' for name in noted)} ADD attempts :attempts",
                names=names,
                values={":attempts": attempts, **{f":{name}": value for name, value in noted.items()}},
            )
        except TABLE_FAILED as failed:
            logger.warning("job failure not stored", error=type(failed).__name__)
            return None
        return int(item["attempts"])

    def noted(self, message_id: str) -> JobFailure | None:
        item = self._table.get(f"failure#{message_id}", "failure")
        return _read_failure(item) if item else None

    def add(self, dead_letter: DeadLetter) -> bool:
        """Whether it is new: the queue may bring the same one twice. A later one of the same step takes the
        place of the one before."""
        try:
            self._table.put(
                Write(_dead_letter_item(dead_letter), _OTHER_MESSAGE, {":message": dead_letter.message_id})
            )
        except ConditionFailed:
            return False
        return True

    def get(self, dead_letter_id: str) -> DeadLetter | None:
        item = self._table.get(dead_letter_id, "dead")
        return _read_dead_letter(item) if item else None

    def redriven(self, dead_letter: DeadLetter, now: datetime) -> Write:
        """For the transaction that makes it go on: it does so once."""
        item = {**_dead_letter_item(dead_letter), "redrivenAt": millis(now)}
        return Write({name: value for name, value in item.items() if name != "statusKey"}, _NOT_REDRIVEN)

    def page(
        self, limit: int, after: str | None, since: datetime | None = None
    ) -> tuple[list[DeadLetter], str | None]:
        """Newest first, from where the last page ended; and where this one did, if there are more."""
        found, end = self._table.page("lookup", "lookup", "dead", limit=limit, after=after)
        recent = [item for item in found if since is None or item["id"] >= _first_id(since)]
        return list(readable(_read_dead_letter, recent)), end if len(recent) == len(found) else None

    def remove(self, before: datetime, at_most: int) -> tuple[int, bool]:
        """Those that failed before that, oldest first: how many were removed, and whether that was all."""
        keys = {":key": "dead", ":before": _first_id(before)}
        found, more = self._table.query(
            "#key = :key AND id < :before", keys, index="lookup", names={"#key": "lookup"}, limit=at_most
        )
        for entry in found:
            self._table.delete(entry["pk"], entry["sk"])
        return len(found), more is None

    def count(self, queue: str) -> int:
        """Those of a queue that nobody has redriven."""
        return self._table.count(
            "#key = :key", {":key": f"dead#{queue}"}, index="status", names={"#key": "statusKey"}
        )


def _first_id(at: datetime) -> str:
    """What dead letters from then on are sorted behind."""
    return f"{millis(at):015d}"


def _dead_letter_item(dead_letter: DeadLetter) -> Item:
    """`id` is what it is sorted by; callers know it by its key."""
    return {
        "pk": dead_letter.id,
        "sk": "dead",
        "kind": "dead",
        "id": f"{_first_id(dead_letter.failure.at)}_{dead_letter.message_id}",
        "lookup": "dead",
        "statusKey": f"dead#{dead_letter.queue}",
        "messageId": dead_letter.message_id,
        "queue": dead_letter.queue,
        "instanceId": dead_letter.instance_id,
        "deliveryId": dead_letter.delivery_id,
        "token": dead_letter.token,
        "correlationId": dead_letter.correlation_id,
        "body": dead_letter.body,
        **_failure_item(dead_letter.failure),
        "expiresAt": int((dead_letter.failure.at + _KEPT).timestamp()),
    }


def _read_dead_letter(item: Item) -> DeadLetter:
    redriven_at = item.get("redrivenAt")
    return DeadLetter(
        id=item["pk"],
        message_id=item["messageId"],
        queue=item["queue"],
        failure=_read_failure(item),
        instance_id=item.get("instanceId"),
        delivery_id=item.get("deliveryId"),
        token=item.get("token"),
        correlation_id=item["correlationId"],
        body=item.get("body"),
        redriven_at=moment(redriven_at) if redriven_at is not None else None,
    )


def _failure_item(failure: JobFailure) -> dict[str, Any]:
    return {
        "error": failure.error,
        "reason": {"code": failure.fault.code, "message": failure.fault.message},
        "attempts": failure.attempts,
        "diedAt": millis(failure.at),
    }


def _read_failure(item: Item) -> JobFailure:
    return JobFailure(item["error"], Fault(**item["reason"]), item["attempts"], moment(item["diedAt"]))


_COUNTED_FOR = timedelta(days=8)
MOST_HOURS = 7 * 24  # that can be asked for


class JobCounts:
    """What became of jobs, hour by hour: as cheap as one number, and a window can be asked for."""

    def __init__(self, table: Table, worth_trying: Callable[[], bool], clock: Callable[[], datetime]) -> None:
        self._table = table
        self._worth_trying = worth_trying
        self._clock = clock

    def add(self, job: str, **counted: int) -> None:
        """In one write. A number too low is better than a job that is done again for lack of time."""
        more = {name: number for name, number in counted.items() if number}
        if not more or not self._worth_trying():
            return
        now = self._clock()
        expires = int((now + _COUNTED_FOR).timestamp())
        try:
            self._table.update(
                f"count#{job}",
                _hour_key(now),
                "SET kind = :kind, expiresAt = :expires ADD "
                + ", ".join(f"#{name} :{name}" for name in more),
                names={f"#{name}": name for name in more},
                values={
                    ":kind": "count",
                    ":expires": expires,
                    **{f":{name}": number for name, number in more.items()},
                },
            )
        except TABLE_FAILED as error:
            logger.warning("jobs not counted", job=job, error=type(error).__name__)

    def of(self, job: str, since: datetime) -> Counter[str]:
        """From the beginning of that hour on."""
        keys = {":pk": f"count#{job}", ":first": _hour_key(since), ":last": "hour#~"}
        counted: Counter[str] = Counter()
        for item in self._table.query_all("pk = :pk AND sk BETWEEN :first AND :last", keys):
            counted.update({name: item[name] for name in item.keys() - _NO_COUNTS})
        return counted


_NO_COUNTS = frozenset({"pk", "sk", "kind", "expiresAt"})


def _hour_key(at: datetime) -> str:
    return f"hour#{at.astimezone(UTC):%Y-%m-%dT%H}"
