"""When the next call may be sent, so that all environments together stay under Novita's limit.

One item holds what was granted in the last minute, by class and half second, who waits, and a pause that
Novita asked for. All times are the table's own, in whole milliseconds: no environment's clock is believed.
"""

import random
import secrets
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from threading import Lock
from typing import TYPE_CHECKING, cast

from botocore.exceptions import ClientError

from functions.shared.domain.errors import NotNow
from functions.shared.domain.resilience import (
    CLASSES,
    IN_HAND,
    LATE,
    SECOND,
    TICK,
    Grants,
    SlotClass,
    SlotLimits,
    SlotRequest,
    SlotWindow,
    TableTime,
    WaitingCall,
)
from functions.shared.platform.observability import LIMITER_REFUSALS, LIMITER_WAIT, logger, measure
from functions.shared.stores.table import TABLE_FAILED, Item, TableClock, marshal, moment, unmarshal

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient


KEY = marshal({"pk": "limiter#novita", "sk": "window"})
# Nobody has called yet.
NO_ITEM_YET = "attribute_not_exists(pk)"
# Nobody has written since we looked.
SAME_VERSION = "#version = :version"

# Each time that another wrote first, one has got through: with so many environments at once, all do.
ATTEMPTS = 30
# Then one waits a moment, by chance, so that the same ones do not meet again.
MEETING_SECONDS = 0.1
# Who waits is believed for so long; what was granted always, since that does not become less.
BELIEVED = SECOND

# Nobody waits longer for a slot: the message comes back instead.
LONGEST_WAIT = 15.0
LONGEST_PAUSE = 3600.0
WITHOUT_TABLE = 5.0  # seconds after which a purchase may ask again


@dataclass(frozen=True)
class RateUsage:
    """What all environments together were granted in the last 60 s."""

    used: Mapping[SlotClass, int]
    paused_until: datetime | None  # that Novita asked for


@dataclass
class _Held:
    """Grants of one class that this process has not used yet, and how fast it uses them."""

    number: int = 0
    until: int = 0
    batch: int = 1
    since: int = 0
    used: int = 0

    def take(self, now: TableTime) -> bool:
        if not self.number or now.latest > self.until:
            return False
        self.number, self.used = self.number - 1, self.used + 1
        return True

    def wanted(self, now: TableTime, most: int) -> int:
        """As many as this process uses in the time they keep, and at most twice the last number."""
        using = self.used * IN_HAND // max(1, now.earliest - self.since)
        return max(1, min(using, self.batch * 2, most))


class RateLimiter:
    def __init__(
        self,
        client: "DynamoDBClient",
        table_name: str,
        per_minute: int,
        clock: TableClock,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._client = client
        self._table = table_name
        self._limits = SlotLimits.of(per_minute)
        self._clock = clock
        self._chance = chance
        self._window: SlotWindow | None = None
        self._seen_at = 0  # by this process's own clock
        self._held = {kind: _Held() for kind in CLASSES}
        self._lock = Lock()

    def enter(
        self, kind: SlotClass, wait_at_most: float, wait: Callable[[float], object], *, buying: bool = False
    ) -> None:
        """Returns when the call may be sent. NotNow if that would be later than the caller may wait, or if
        the table fails a purchase."""
        patience, waited = min(max(0.0, wait_at_most), LONGEST_WAIT), 0.0
        request = SlotRequest(kind, secrets.token_hex(4), begun=buying)
        try:
            while delay := self.ask(request, patience - waited):
                wait(delay)
                waited += delay
        except NotNow:
            measure(LIMITER_REFUSALS)
            raise
        if waited:
            measure(LIMITER_WAIT, 1000 * waited)

    def ask(self, request: SlotRequest, patience: float) -> float:
        """0 where the call may be sent now; else the seconds after which to ask again with that ticket."""
        with self._lock:  # threads of one process would only meet each other
            try:
                return self._ask(request, patience)
            except TABLE_FAILED as error:
                self._table_failed(error)
                if request.begun:
                    raise NotNow(
                        "NOVITA_UNAVAILABLE",
                        "Nothing is bought while calls to Novita cannot be counted",
                        retry_after=WITHOUT_TABLE,
                    ) from error
                return self._alone(request, patience)

    def pause(self, seconds: float) -> None:
        """Novita said 429: nobody sends before that time is over."""
        length = round(min(max(0.0, seconds), LONGEST_PAUSE) * SECOND)
        with self._lock:
            for held in self._held.values():
                held.number = 0
            try:
                for _ in range(ATTEMPTS):
                    window, now = self._current()
                    if self._store(window.pause(now, length)):
                        return
            except TABLE_FAILED as error:
                self._table_failed(error)
                self._window = (self._window or SlotWindow()).pause(self._clock.now(), length)

    def usage(self) -> RateUsage:
        with self._lock:
            self._read()
            window, now = self._current()
        paused = window.paused_until > now.earliest
        used = {kind: window.used(kind) for kind in CLASSES}
        return RateUsage(used, moment(window.paused_until) if paused else None)

    def _alone(self, request: SlotRequest, patience: float) -> float:
        """Without the table as if nobody else called, but not through a pause that this process knows of."""
        known, now = self._window or SlotWindow(), self._clock.now().earliest
        alone = SlotWindow(paused_at=known.paused_at, paused_until=known.paused_until)
        return _in_time(alone.at(now, self._limits).delay(request, now, self._limits), patience)

    def _ask(self, request: SlotRequest, patience: float) -> float:
        held = self._held[request.kind]
        if held.take(self._clock.now()):
            return 0.0
        if not self._clock.is_sure() or self._place(self._window, request):
            self._read()  # so that the time is known, or since a write that is out of date would cost more
        late = False
        for _ in range(ATTEMPTS):
            window, now = self._current()
            number = held.wanted(now, self._limits.batch)
            delay = window.delay(request, now.earliest, self._limits, number)
            if delay and number > 1:
                number, delay = 1, window.delay(request, now.earliest, self._limits)
            if delay:
                if self._believes(window, request, now, patience) and self._waits(
                    window, request, now, delay, patience
                ):
                    return delay / SECOND
                continue
            granted, until = window.grant(request, now, self._limits, number)
            if self._store(granted):
                self._held[request.kind] = _Held(number - 1, until, number, now.earliest, 1)
                if late or self._clock.now().latest <= until:
                    return 0.0
                late = True  # the write took longer than a grant may: once more, and then as it is
        return _in_time(round(MEETING_SECONDS * (0.5 + self._chance()) * SECOND), patience)

    def _believes(self, window: SlotWindow, request: SlotRequest, now: TableTime, patience: float) -> bool:
        """Whether it is surely too early, or was a moment ago; if not, the item is read again."""
        if self._clock.own() - self._seen_at <= BELIEVED:
            return True
        granted = replace(window, waiting=(), buyers_until=0)
        if granted.delay(request, now.earliest, self._limits) > patience * SECOND:
            return True
        self._read()
        return False

    def _waits(
        self, window: SlotWindow, request: SlotRequest, now: TableTime, delay: int, patience: float
    ) -> bool:
        """Whether the others know that this one waits; NotNow where it may not wait so long."""
        back_at, place = now.latest + delay, self._place(window, request)
        if delay <= patience * SECOND:
            known = place and abs(place.back_at - back_at) < TICK
            crowded = not place and window.is_crowded(request.kind)
            return bool(known or crowded) or self._store(window.wait_in_line(request, back_at))
        soon = min(back_at, now.latest + round(LONGEST_WAIT * SECOND))
        after = window.without(request.ticket)
        if request.kind == "work" and window.buyers_until < soon:
            after = replace(after, buyers_until=soon + LATE)
        if after != window and not self._store(after):
            return False
        raise _not_now(delay)

    def _place(self, window: SlotWindow | None, request: SlotRequest) -> WaitingCall | None:
        waiting = window.waiting if window else ()
        return next((one for one in waiting if one.ticket == request.ticket), None)

    def _current(self) -> tuple[SlotWindow, TableTime]:
        known = self._window or self._read()
        now = self._clock.now()
        return known.at(now.earliest, self._limits), now

    def _read(self) -> SlotWindow:
        sent = self._clock.own()
        answer = cast(Item, self._client.get_item(TableName=self._table, Key=KEY, ConsistentRead=True))
        return self._learn(answer, sent, _window(answer.get("Item")))

    def _store(self, window: SlotWindow) -> bool:
        """Whether nobody wrote since we looked. If somebody did, what they wrote is known now."""
        after = replace(window, version=window.version + 1, writer=secrets.token_hex(4))
        guard: Item = {"ConditionExpression": NO_ITEM_YET}
        if window.version:
            guard = {
                "ConditionExpression": SAME_VERSION,
                "ExpressionAttributeNames": {"#version": "version"},
                "ExpressionAttributeValues": marshal({":version": window.version}),
            }
        sent = self._clock.own()
        try:
            answer = cast(
                Item,
                self._client.put_item(
                    TableName=self._table,
                    Item=KEY | marshal(_item(after)),
                    ReturnValuesOnConditionCheckFailure="ALL_OLD",
                    **guard,
                ),
            )
        except ClientError as error:
            answer = cast(Item, error.response)
            if answer["Error"]["Code"] != "ConditionalCheckFailedException":
                raise
            stands = self._learn(answer, sent, _window(answer.get("Item")))
            return stands.writer == after.writer  # ours: the answer was lost, and the SDK wrote once more
        self._learn(answer, sent, after)
        return True

    def _learn(self, answer: Item, sent: int, window: SlotWindow) -> SlotWindow:
        self._clock.learn(sent, answer)
        self._window, self._seen_at = window, self._clock.own()
        return window

    def _table_failed(self, error: Exception) -> None:
        logger.warning("rate limiter not read or written", extra={"error": type(error).__name__})


def _in_time(delay: int, patience: float) -> float:
    if delay > patience * SECOND:
        raise _not_now(delay)
    return delay / SECOND


def _not_now(delay: int) -> NotNow:
    return NotNow(
        "RATE_LIMIT_EXCEEDED",
        "No call to Novita is free within the time that this one may wait",
        retry_after=delay / SECOND,
    )


def _item(window: SlotWindow) -> Item:
    return {
        "kind": "limiter",
        "version": window.version,
        "writer": window.writer,
        "grants": _packed(window.grants),
        "waiting": [[one.ticket, one.kind, one.back_at] for one in window.waiting],
        "credit": round(window.credit, 6),
        "creditAt": window.credit_at,
        "pausedAt": window.paused_at,
        "pausedUntil": window.paused_until,
        "buyersUntil": window.buyers_until,
    }


def _window(attributes: Item | None) -> SlotWindow:
    if not attributes:
        return SlotWindow()
    item = unmarshal(attributes)
    return SlotWindow(
        version=item["version"],
        writer=item["writer"],
        grants=tuple(_unpacked(item["grants"])),
        waiting=tuple(WaitingCall(*one) for one in item["waiting"] if one[1] in CLASSES),
        credit=item["credit"],
        credit_at=item["creditAt"],
        paused_at=item["pausedAt"],
        paused_until=item["pausedUntil"],
        buyers_until=item["buyersUntil"],
    )


def _packed(grants: Grants) -> str:
    """Half seconds since the one before, and the number of each class: `3800000001:0.0.2.0.0 3:1.0.0.0.0`.
    Without a last one that is 0: versions before it read this, too."""
    before, parts = 0, []
    for until, counts in grants:
        shown = counts if counts[-1] else counts[:-1]
        parts.append(f"{(until - before) // TICK}:{'.'.join(map(str, shown))}")
        before = until
    return " ".join(parts)


def _unpacked(text: str) -> Iterator[tuple[int, tuple[int, ...]]]:
    until = 0
    for part in text.split():
        ticks, _, counts = part.partition(":")
        until += int(ticks) * TICK
        numbers = [int(number) for number in counts.split(".")]
        yield until, tuple((*numbers, *(0 for _ in CLASSES))[: len(CLASSES)])
