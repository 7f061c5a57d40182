"""When the next call may be sent, so that all environments together stay under Novita's limit.

Two lanes of slots on one time line, in whole microseconds so that the table's own arithmetic is exact.
The normal lane gives one slot after another, a little slower than the limit. The urgent lane is a reserve
for stop and delete that does not queue behind it: a short burst, then a tenth of the limit. What the reserve
gives out is taken from the slots that the normal lane has still to give, so it does not add up over time.
"""

from dataclasses import dataclass
from typing import Literal

Kind = Literal["normal", "urgent"]

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
class Pace:
    normal_gap: int
    urgent_gap: int
    urgent_burst: int
    batch: int  # the most slots that one write may take

    @classmethod
    def of(cls, per_minute: int) -> "Pace":
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
class Move:
    """A lane that moves by so much: from the start if it stood idle, else from wherever it is by then."""

    lane: Kind
    idle: bool
    by: int


@dataclass(frozen=True)
class Plan:
    lane: Kind  # the lane that gives the slot
    start: int
    slot: int  # no sooner than this
    moves: tuple[Move, ...]


def plan(kind: Kind, lanes: Lanes, now: int, pace: Pace, batch: int = 1) -> Plan:
    start = max(now, lanes.paused_until)
    normal_slot = max(lanes.normal_at, start)
    reserve_slot = max(lanes.urgent_at - pace.urgent_lead, start)
    if kind == "normal" or normal_slot <= reserve_slot:
        idle = lanes.normal_at <= start
        return Plan("normal", start, normal_slot, (Move("normal", idle, batch * pace.normal_gap),))
    take = Move("urgent", lanes.urgent_at <= start, pace.urgent_gap)
    pay = Move("normal", False, pace.normal_gap)
    return Plan("urgent", start, reserve_slot, (take, pay))


def granted(plan: Plan, after: Lanes, pace: Pace) -> int:
    """The (first) slot that a plan was given, read off the lanes as its write left them."""
    if plan.lane == "normal":
        return after.normal_at - plan.moves[0].by
    return max(plan.start, after.urgent_at - pace.urgent_gap - pace.urgent_lead)
