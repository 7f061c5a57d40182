"""Dead letters as records, newest first, and the notes of why a message failed for the last time."""

from datetime import datetime, timedelta
from typing import Any

from functions.shared.adapters.items import millis, moment, readable
from functions.shared.adapters.table import NEW, TABLE_FAILED, ConditionFailed, Item, Table, Write
from functions.shared.domain.dead_letter import DeadLetter, Failure
from functions.shared.domain.instance import Fault
from functions.shared.log import logger

_KEPT = timedelta(days=14)
_NOTE_KEPT = timedelta(days=1)  # the letter follows within minutes
# This very message has not been buried yet, and nobody has redriven the one before.
_OTHER_MESSAGE = f"{NEW} OR (messageId <> :message AND attribute_not_exists(redrivenAt))"
# Nobody has redriven it before.
_NOT_REDRIVEN = "attribute_exists(pk) AND attribute_not_exists(redrivenAt)"


class DeadLetters:
    def __init__(self, table: Table) -> None:
        self._table = table

    def note(self, message_id: str, failure: Failure) -> None:
        """For whoever buries the message. A note that cannot be written is no reason to fail otherwise."""
        item = {
            "pk": f"failure#{message_id}",
            "sk": "failure",
            "kind": "failure",
            **_failure_item(failure),
            "expiresAt": int((failure.at + _NOTE_KEPT).timestamp()),
        }
        try:
            self._table.put(Write(item))
        except TABLE_FAILED as error:
            logger.warning("failure not noted", error=type(error).__name__)

    def noted(self, message_id: str) -> Failure | None:
        item = self._table.get(f"failure#{message_id}", "failure")
        return _read_failure(item) if item else None

    def add(self, letter: DeadLetter) -> bool:
        """Whether it is new: the queue may bring the same one twice. A later one of the same step takes the
        place of the one before."""
        try:
            self._table.put(Write(_item(letter), _OTHER_MESSAGE, {":message": letter.message_id}))
        except ConditionFailed:
            return False
        return True

    def get(self, letter_id: str) -> DeadLetter | None:
        item = self._table.get(letter_id, "dead")
        return _read(item) if item else None

    def redriven(self, letter: DeadLetter, now: datetime) -> Write:
        """To be put into the transaction that makes it go on: it does so once."""
        item = {**_item(letter), "redrivenAt": millis(now)}
        return Write({name: value for name, value in item.items() if name != "statusKey"}, _NOT_REDRIVEN)

    def page(self, limit: int, after: str | None) -> tuple[list[DeadLetter], str | None]:
        """Newest first, from where the last page ended; and where this one did, if there are more."""
        found, end = self._table.page("lookup", "lookup", "dead", limit=limit, after=after)
        return list(readable(_read, found)), end

    def count(self, queue: str) -> int:
        """Those of a queue that nobody has redriven."""
        return self._table.count(
            "#key = :key", {":key": f"dead#{queue}"}, index="status", names={"#key": "statusKey"}
        )


def _item(letter: DeadLetter) -> Item:
    """`id` is what it is sorted by; callers know it by its key."""
    return {
        "pk": letter.id,
        "sk": "dead",
        "kind": "dead",
        "id": f"{millis(letter.failure.at):015d}_{letter.message_id}",
        "lookup": "dead",
        "statusKey": f"dead#{letter.queue}",
        "messageId": letter.message_id,
        "queue": letter.queue,
        "instanceId": letter.instance_id,
        "deliveryId": letter.delivery_id,
        "token": letter.token,
        "correlationId": letter.correlation_id,
        "body": letter.body,
        **_failure_item(letter.failure),
        "expiresAt": int((letter.failure.at + _KEPT).timestamp()),
    }


def _read(item: Item) -> DeadLetter:
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


def _failure_item(failure: Failure) -> dict[str, Any]:
    return {
        "error": failure.error,
        "reason": {"code": failure.fault.code, "message": failure.fault.message},
        "attempts": failure.attempts,
        "diedAt": millis(failure.at),
    }


def _read_failure(item: Item) -> Failure:
    return Failure(item["error"], Fault(**item["reason"]), item["attempts"], moment(item["diedAt"]))
