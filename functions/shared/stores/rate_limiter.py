"""When the next call may be sent, so that all environments together stay under Novita's limit.

Two lanes of slots on one time line, in whole microseconds so that the table's own arithmetic is exact.
The normal lane gives one slot after another, a little slower than the limit. The urgent lane is a reserve
for stop and delete that does not queue behind it: a short burst, then a tenth of the limit. What the reserve
gives out is taken from the slots that the normal lane has still to give, so it does not add up over time.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from threading import Lock
from typing import TYPE_CHECKING, Literal, cast

from botocore.exceptions import ClientError

from functions.shared.domain.errors import NotNow
from functions.shared.platform.observability import LIMITER_REFUSALS, LIMITER_WAIT, logger, measure
from functions.shared.stores.table import TABLE_FAILED, Item, marshal, unmarshal

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient


Lane = Literal["normal", "urgent"]

SECOND = 1_000_000
MINUTE = 60 * SECOND

NORMAL_SHARE = 0.96  # leaves room for the reserve's burst within 105 % in any 60 s
URGENT_SHARE = 0.10
URGENT_BURST = 0.05

# Nobody waits longer for a slot: the message comes back instead. It also bounds how many slots are given
# out ahead, which is what the reserve cannot take back.
LONGEST_WAIT = 15 * SECOND
# Slots are taken several at a time where that many pass in this time, and may be used this late.
BATCH_TIME = SECOND // 4


@dataclass(frozen=True)
class LanePace:
    normal_gap: int
    urgent_gap: int
    urgent_burst: int
    batch: int  # the most slots that one write may take

    @classmethod
    def of(cls, per_minute: int) -> "LanePace":
        normal_gap = round(MINUTE / (per_minute * NORMAL_SHARE))
        return cls(
            normal_gap=normal_gap,
            urgent_gap=round(MINUTE / (per_minute * URGENT_SHARE)),
            urgent_burst=max(1, round(per_minute * URGENT_BURST)),
            batch=max(1, BATCH_TIME // normal_gap),
        )

    @property
    def urgent_lead(self) -> int:
        """How far ahead of now the urgent lane may be and still give a slot at once."""
        return (self.urgent_burst - 1) * self.urgent_gap


@dataclass(frozen=True)
class Lanes:
    """The next free slot of each lane, and the end of a pause that Novita asked for; none goes back."""

    normal_at: int = 0
    urgent_at: int = 0
    paused_until: int = 0


@dataclass(frozen=True)
class LaneMove:
    """A lane that moves by so much: from the start if it stood idle, else from wherever it is by then."""

    lane: Lane
    idle: bool
    by: int


@dataclass(frozen=True)
class SlotPlan:
    lane: Lane  # the lane that gives the slot
    start: int
    slot: int  # no sooner than this
    moves: tuple[LaneMove, ...]


def plan_slot(kind: Lane, lanes: Lanes, now: int, pace: LanePace, batch: int = 1) -> SlotPlan:
    start = max(now, lanes.paused_until)
    normal_slot = max(lanes.normal_at, start)
    reserve_slot = max(lanes.urgent_at - pace.urgent_lead, start)
    if kind == "normal" or normal_slot <= reserve_slot:
        idle = lanes.normal_at <= start
        return SlotPlan("normal", start, normal_slot, (LaneMove("normal", idle, batch * pace.normal_gap),))
    take = LaneMove("urgent", lanes.urgent_at <= start, pace.urgent_gap)
    pay = LaneMove("normal", False, pace.normal_gap)
    return SlotPlan("urgent", start, reserve_slot, (take, pay))


def granted_slot(plan: SlotPlan, after: Lanes, pace: LanePace) -> int:
    """The (first) slot that a plan was given, read off the lanes as its write left them."""
    if plan.lane == "normal":
        return after.normal_at - plan.moves[0].by
    return max(plan.start, after.urgent_at - pace.urgent_gap - pace.urgent_lead)


KEY = marshal({"pk": "limiter#novita", "sk": "limiter"})
ATTRIBUTE = {"normal": "normalAt", "urgent": "urgentAt"}

# Nobody has called yet.
NO_ITEM_YET = "attribute_not_exists(pk)"
# The lane stands idle as we think, so it starts from now and not from its last slot.
LANE_IDLE = "{lane} <= :start"
# Others hold slots ahead of us: ours follows the last of them, however many came in since we looked.
LANE_BUSY = "{lane} > :start"
# So many came in that the slot would be later than the caller may wait: none is taken.
WITHIN_REACH = "{lane} <= :reach"
# Novita asked for a pause since we looked: no slot before its end.
SAME_PAUSE = "pausedUntil = :paused"
# A shorter pause never ends a longer one.
LONGER_PAUSE = "pausedUntil < :until"

# Once for each thing that others may have changed since we looked: the item is there, a lane is no longer
# idle, a pause. A busy lane never fails us, however many write to it, so nobody starves.
ATTEMPTS = 6

LONGEST_PAUSE = 3600.0
WITHOUT_TABLE = 5.0  # seconds after which a purchase may ask again


class RateLimiter:
    def __init__(
        self,
        client: "DynamoDBClient",
        table_name: str,
        per_minute: int,
        clock: Callable[[], datetime],
    ) -> None:
        self._client = client
        self._table = table_name
        self._pace = LanePace.of(per_minute)
        self._clock = clock
        self._lanes: Lanes | None = None
        self._lock = Lock()
        self._allotment: deque[int] = deque()
        self._batch, self._since, self._used = 1, 0, 0  # slots of the last write, its time, how many are used

    def enter(
        self, kind: Lane, wait_at_most: float, wait: Callable[[float], object], *, buying: bool = False
    ) -> None:
        """Returns when the call may be sent: `take`, wait, and take again if a pause came in between."""
        left = wait_at_most
        while delay := self._taken(kind, left, buying):
            measure(LIMITER_WAIT, 1000 * delay)
            wait(delay)
            if not self.paused():
                return
            left = max(0.0, left - delay)

    def _taken(self, kind: Lane, wait_at_most: float, buying: bool) -> float:
        try:
            return self.take(kind, wait_at_most, buying=buying)
        except NotNow:
            measure(LIMITER_REFUSALS)
            raise

    def take(self, kind: Lane, wait_at_most: float, *, buying: bool = False) -> float:
        """Seconds to wait before sending. Whoever waits looks at `paused` before sending: `enter` does both.

        Raises NotNow if that would be longer than the caller may wait, or if the table fails a purchase.
        """
        now = _micros(self._clock())
        latest = now + min(round(max(0.0, wait_at_most) * SECOND), LONGEST_WAIT)
        slot = self._allotted(now, latest) if kind == "normal" else None
        if slot is None:
            slot = self._reserved(kind, now, latest, buying)
        return max(0, slot - now) / SECOND

    def pause(self, seconds: float) -> None:
        """Novita said 429: nobody sends before that time is over."""
        until = _micros(self._clock()) + round(min(max(0.0, seconds), LONGEST_PAUSE) * SECOND)
        with self._lock:
            self._allotment.clear()
        known = self._lanes or Lanes()
        self._lanes = replace(known, paused_until=max(until, known.paused_until))
        try:
            self._client.update_item(
                TableName=self._table,
                Key=KEY,
                UpdateExpression=(
                    "SET pausedUntil = :until, normalAt = if_not_exists(normalAt, :zero), "
                    "urgentAt = if_not_exists(urgentAt, :zero)"
                ),
                ConditionExpression=f"{NO_ITEM_YET} OR {LONGER_PAUSE}",
                ExpressionAttributeValues=marshal({":until": until, ":zero": 0}),
            )
        except TABLE_FAILED as error:
            if not _is_condition(error):
                self._table_failed(error)

    def paused(self) -> bool:
        try:
            response = self._client.get_item(TableName=self._table, Key=KEY, ConsistentRead=True)
            self._lanes = _lanes(response.get("Item"))
        except TABLE_FAILED as error:
            self._table_failed(error)
        return self._lanes is not None and self._lanes.paused_until > _micros(self._clock())

    def _reserved(self, kind: Lane, now: int, latest: int, buying: bool) -> int:
        try:
            return self._reserve(kind, now, latest)
        except TABLE_FAILED as error:
            self._table_failed(error)
            if buying:
                raise NotNow(
                    "NOVITA_UNAVAILABLE",
                    "Nothing is bought while calls to Novita cannot be counted",
                    retry_after=WITHOUT_TABLE,
                ) from error
            # As if alone, but not through a pause that this process knows of.
            slot = max(now, self._lanes.paused_until if self._lanes else 0)
            return self._in_time(slot, now, latest)

    def _reserve(self, kind: Lane, now: int, latest: int) -> int:
        batch = self._wanted(now) if kind == "normal" else 1
        for _ in range(ATTEMPTS):
            lanes = self._lanes
            plan = plan_slot(kind, lanes or Lanes(), now, self._pace, batch)
            # Lanes only move on, so what was too far away when we last looked still is: no write needed.
            self._in_time(plan.slot, now, latest)
            try:
                after = self._write(plan, lanes, latest)
            except ClientError as error:
                if not _is_condition(error):
                    raise
                self._lanes = _lanes(cast(Item, error.response).get("Item"))
                continue
            self._lanes = after
            slot = granted_slot(plan, after, self._pace)
            if kind == "normal":
                self._allot(slot, batch, now)
            return slot
        raise _not_now(self._pace.normal_gap)

    def _write(self, plan: SlotPlan, lanes: Lanes | None, latest: int) -> Lanes:
        if lanes is None:
            first = Lanes(normal_at=plan.start + plan.moves[0].by)
            self._client.put_item(
                TableName=self._table,
                Item=KEY | marshal(_item(first)),
                ConditionExpression=NO_ITEM_YET,
                ReturnValuesOnConditionCheckFailure="ALL_OLD",
            )
            return first
        lead = self._pace.urgent_lead if plan.lane == "urgent" else 0
        conditions = [SAME_PAUSE, WITHIN_REACH.format(lane=ATTRIBUTE[plan.lane])]
        updates: list[str] = []
        values = {":paused": lanes.paused_until, ":start": plan.start, ":reach": latest + lead}
        for move in plan.moves:
            lane = ATTRIBUTE[move.lane]
            conditions.append((LANE_IDLE if move.idle else LANE_BUSY).format(lane=lane))
            updates.append(f"{lane} = :{lane}" if move.idle else f"{lane} = {lane} + :{lane}")
            values[f":{lane}"] = plan.start + move.by if move.idle else move.by
        response = self._client.update_item(
            TableName=self._table,
            Key=KEY,
            UpdateExpression=f"SET {', '.join(updates)}",
            ConditionExpression=" AND ".join(conditions),
            ExpressionAttributeValues=marshal(values),
            ReturnValues="ALL_NEW",
            ReturnValuesOnConditionCheckFailure="ALL_OLD",
        )
        return _lanes(cast(Item, response["Attributes"])) or Lanes()

    def _in_time(self, slot: int, now: int, latest: int) -> int:
        if slot > latest:
            raise _not_now(slot - now)
        return slot

    def _wanted(self, now: int) -> int:
        """As many slots as this process uses in the time they keep, and at most twice the last number."""
        with self._lock:
            using = self._used * BATCH_TIME // max(1, now - self._since)
            return max(1, min(using, self._batch * 2, self._pace.batch))

    def _allot(self, slot: int, batch: int, now: int) -> None:
        with self._lock:
            self._batch, self._since, self._used = batch, now, 1
            self._allotment.extend(slot + number * self._pace.normal_gap for number in range(1, batch))

    def _allotted(self, now: int, latest: int) -> int | None:
        with self._lock:
            while self._allotment and self._allotment[0] < now - BATCH_TIME:
                self._allotment.popleft()
            if self._lanes and self._lanes.paused_until > now:
                self._allotment.clear()
            if self._allotment and self._allotment[0] <= latest:
                self._used += 1
                return self._allotment.popleft()
            return None

    def _table_failed(self, error: Exception) -> None:
        logger.warning("rate limiter not read or written", extra={"error": type(error).__name__})


def _not_now(micros: int) -> NotNow:
    return NotNow(
        "RATE_LIMIT_EXCEEDED",
        "No call to Novita is free within the time that this one may wait",
        retry_after=micros / SECOND,
    )


def _is_condition(error: Exception) -> bool:
    lost = "ConditionalCheckFailedException"
    return isinstance(error, ClientError) and error.response["Error"]["Code"] == lost


def _item(lanes: Lanes) -> Item:
    return {
        "kind": "limiter",
        "normalAt": lanes.normal_at,
        "urgentAt": lanes.urgent_at,
        "pausedUntil": lanes.paused_until,
    }


def _lanes(attributes: Item | None) -> Lanes | None:
    if not attributes:
        return None
    item = unmarshal(attributes)
    return Lanes(item["normalAt"], item["urgentAt"], item["pausedUntil"])


def _micros(at: datetime) -> int:
    return (at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
