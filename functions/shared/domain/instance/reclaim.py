"""What is to be done when a spot machine is taken away, and how far that has come."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from functions.shared.domain.errors import FieldError, ValidationFailed
from functions.shared.domain.instance.limits import duration_text
from functions.shared.domain.instance.machine import Machine

_PERIOD = timedelta(hours=24)  # in which recoveries are counted
SPOT, ON_DEMAND = "spot", "onDemand"
UNTIMED = ("notified", "reclaiming")  # Novita's words for a notice


class ReclaimAction(StrEnum):
    NONE = "none"  # it stays exited
    RESTART = "restart"  # the same machine is started again
    REPLACE = "replace"  # another machine takes its place, where that one cannot be started


@dataclass(frozen=True)
class OnReclaim:
    """What a caller wants done, with defaults filled in."""

    action: ReclaimAction
    window: timedelta = timedelta(hours=2)  # how long room is waited for
    max_recoveries: int = 5  # within a day
    replace_after: timedelta = timedelta(minutes=10)  # until then only starts are tried
    fallback: str = ""  # how another is paid for where none is to be had as spot

    def as_json(self) -> dict[str, Any]:
        shown: dict[str, Any] = {
            "action": self.action.value,
            "window": duration_text(self.window),
            "maxRecoveries": self.max_recoveries,
        }
        if self.action is ReclaimAction.REPLACE:
            shown["replaceAfter"] = duration_text(self.replace_after)
        return shown | ({"fallback": self.fallback} if self.fallback else {})


def require_reclaimable(asked: OnReclaim | None, billing_mode: str, *, imported: bool = False) -> None:
    """Only what Novita takes away can be brought back, and only what was bought here can be bought again."""
    if asked is None:
        return
    replaces = asked.action is ReclaimAction.REPLACE
    rules = (
        (billing_mode == SPOT, "Only spot machines are taken away"),
        (not (replaces and imported), "What was imported cannot be bought again: none or restart"),
        (replaces or not asked.fallback, "A fallback means nothing unless the action is replace"),
        (not replaces or asked.replace_after < asked.window, "replaceAfter must be shorter than window"),
    )
    if wrong := [why for holds, why in rules if not holds]:
        raise ValidationFailed([FieldError("onReclaim", "INVALID_ON_RECLAIM", why) for why in wrong])


@dataclass(frozen=True)
class Recovery:
    """A machine was taken away, and is being brought back or replaced."""

    lost_at: datetime  # when that was seen
    since: datetime | None = None  # when this began; None: not yet, as while purchases are paused
    until: datetime | None = None
    refused: int = 0  # starts that came to nothing
    no_room: bool = False  # which is why the last of them was refused; or it did not come up
    try_at: datetime | None = None  # Novita is not asked before
    seeks_offer: bool = False  # starts had their time: another machine is looked for beside
    checked_at: datetime | None = None  # the step that last asked whether this may begin, or for an offer
    given_back: str = ""  # the machine whose place another takes
    held_since: datetime | None = None  # a cap or budget has not let it begin since
    paused_for: timedelta = timedelta()  # since it began


@dataclass(frozen=True)
class RecoveryCount:
    completed: int = 0
    begun: tuple[datetime, ...] = ()  # of the last day

    def lately(self, now: datetime) -> tuple[datetime, ...]:
        return tuple(at for at in self.begun if at > now - _PERIOD)


NO_RECOVERIES = RecoveryCount()


def reclaim_notice(machine: Machine) -> str:
    """The notice that Novita shows, or nothing. Without a time where Novita names none."""
    if machine.spot_reclaim_at:
        return machine.spot_reclaim_at.isoformat()
    return machine.spot_status if machine.spot_status in UNTIMED else ""
