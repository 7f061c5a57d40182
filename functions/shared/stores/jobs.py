"""Dead letters as records, why each message failed, and how many jobs went well and how many did not."""

from collections.abc import Callable
from datetime import datetime, timedelta
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

    def page(self, limit: int, after: str | None) -> tuple[list[DeadLetter], str | None]:
        """Newest first, from where the last page ended; and where this one did, if there are more."""
        found, end = self._table.page("lookup", "lookup", "dead", limit=limit, after=after)
        return list(readable(_read_dead_letter, found)), end

    def count(self, queue: str) -> int:
        """Those of a queue that nobody has redriven."""
        return self._table.count(
            "#key = :key", {":key": f"dead#{queue}"}, index="status", names={"#key": "statusKey"}
        )


def _dead_letter_item(dead_letter: DeadLetter) -> Item:
    """`id` is what it is sorted by; callers know it by its key."""
    return {
        "pk": dead_letter.id,
        "sk": "dead",
        "kind": "dead",
        "id": f"{millis(dead_letter.failure.at):015d}_{dead_letter.message_id}",
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


class JobCounts:
    def __init__(self, table: Table, worth_trying: Callable[[], bool]) -> None:
        self._table = table
        self._worth_trying = worth_trying

    def add(self, job: str, **counted: int) -> None:
        """In one write. A number too low is better than a job that is done again for lack of time."""
        more = {name: number for name, number in counted.items() if number}
        if not more or not self._worth_trying():
            return
        try:
            self._table.update(
                f"count#{job}",
                "count",
                "SET kind = :kind ADD " + ", ".join(f"#{name} :{name}" for name in more),
                names={f"#{name}": name for name in more},
                values={":kind": "count", **{f":{name}": number for name, number in more.items()}},
            )
        except TABLE_FAILED as error:
            logger.warning("jobs not counted", job=job, error=type(error).__name__)

    def of(self, job: str) -> dict[str, int]:
        item = self._table.get(f"count#{job}", "count") or {}
        return {name: value for name, value in item.items() if isinstance(value, int)}
