"""Time limits as they were asked for: durations, ceilings, and the clock that they are counted by."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from functions.shared.domain.errors import CallerError, FieldError, ValidationFailed
from functions.shared.domain.ids import timestamp
from functions.shared.domain.instance.status import OFF, Status


class EndedBy(StrEnum):
    """What ended or stopped an instance."""

    USER = "user"
    LIFETIME = "lifetime"
    IDLE = "idle"
    STOPPED_TOO_LONG = "stopped_too_long"
    BUDGET = "budget"
    RECLAIM = "reclaim"
    FAILURE = "failure"
    VANISHED = "vanished"
    NOVITA = "novita"  # stopped there by others


LEAST_IDLE = timedelta(minutes=5)
LONGEST = timedelta(seconds=999_999_999)
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
# As many digits as are below the longest in each unit.
DURATION = "[1-9][0-9]{0,8}s|[1-9][0-9]{0,6}m|[1-9][0-9]{0,4}h|[1-9][0-9]{0,3}d"


def read_duration(given: Any) -> timedelta:
    """From "90m", "8h", "3d", "45s" or a number of seconds."""
    seconds: float | None = None
    if isinstance(given, int | float) and not isinstance(given, bool):
        seconds = given
    elif isinstance(given, str) and re.fullmatch(DURATION, given):
        seconds = int(given[:-1]) * _UNITS[given[-1]]
    if seconds is None:
        raise ValueError('must be a duration like "90m", "8h" or "3d", or a number of seconds')
    if not 1 <= seconds <= LONGEST.total_seconds():
        raise ValueError("must be between a second and thirty years")
    return timedelta(seconds=round(seconds))


def duration_text(duration: timedelta) -> str:
    """In the largest unit that it is a whole number of."""
    seconds = round(duration.total_seconds())
    unit = next(unit for unit in reversed(_UNITS) if seconds % _UNITS[unit] == 0)
    return f"{seconds // _UNITS[unit]}{unit}"


@dataclass(frozen=True)
class Limits:
    """None: not limited so."""

    stop_after: timedelta | None = None  # from the first `running` of each start
    delete_after: timedelta | None = None  # from the first `running` ever
    idle_stop_after: timedelta | None = None  # from the last use
    delete_after_stopped: timedelta | None = None
    stop_at: datetime | None = None
    delete_at: datetime | None = None
    idle_gpu_below: float | None = None  # percent: what counts as idle, if GPUs are asked at all

    @classmethod
    def of_durations(cls, texts: Mapping[str, str]) -> "Limits":
        """By the names of the fields; an empty one is no limit."""
        read: dict[str, Any] = {name: read_duration(text) for name, text in texts.items() if text}
        return cls(**read)

    def as_json(self) -> dict[str, Any]:
        given = {LIMIT_NAMES[one.name]: getattr(self, one.name) for one in fields(self)}
        return {name: _shown(value) for name, value in given.items() if value is not None}


NO_LIMITS = Limits()
LIMIT_NAMES = {
    "stop_after": "stopAfter",
    "delete_after": "deleteAfter",
    "idle_stop_after": "idleStopAfter",
    "delete_after_stopped": "deleteAfterStopped",
    "stop_at": "stopAt",
    "delete_at": "deleteAt",
    "idle_gpu_below": "idleGpuBelow",
}


def _shown(value: timedelta | datetime | float) -> str | float:
    if isinstance(value, timedelta):
        return duration_text(value)
    return timestamp(value) if isinstance(value, datetime) else value


@dataclass(frozen=True)
class LimitChange:
    """What a request says of limits, by the names of the fields of `Limits`; None takes one away."""

    asked: Mapping[str, Any]
    rules: "LimitRules"
    only: bool = False  # all others are taken away

    def apply(self, limits: Limits, clock: "LimitClock", now: datetime) -> Limits:
        """The new ones, or a refusal: what has passed, what is above a ceiling, what makes no sense."""
        late = [name for name in _TIMES if (at := self.asked.get(name)) is not None and at <= now]
        if late:
            raise ValidationFailed([_bad(name, "Has passed already") for name in late])
        changed = replace(Limits() if self.only else limits, **self.asked)
        if changed.idle_gpu_below is not None and changed.idle_stop_after is None:
            raise ValidationFailed([_bad("idle_gpu_below", "Means nothing without idleStopAfter")])
        self.rules.require_allowed(self.asked, now, clock)
        return changed


_TIMES = ("stop_at", "delete_at")


def _bad(name: str, why: str) -> FieldError:
    return FieldError(f"limits.{LIMIT_NAMES[name]}", "INVALID_LIMITS", why)


@dataclass(frozen=True)
class LimitRules:
    """The deployment's: what counts where a request says nothing, and what no request may exceed."""

    defaults: Limits = Limits()
    ceilings: Limits = Limits()  # its durations

    def first(self, asked: Mapping[str, Any], now: datetime) -> Limits:
        """Of a new instance. None declines a default. A default never shortens what a time says."""
        instead = {"stop_after": "stop_at", "delete_after": "delete_at"}
        taken = {name for name in instead if asked.get(instead[name]) is not None} | asked.keys()
        defaults = replace(self.defaults, **dict.fromkeys(taken, None))
        return LimitChange(asked, self).apply(defaults, LimitClock(), now)

    def require_allowed(self, asked: Mapping[str, Any], now: datetime, clock: "LimitClock") -> None:
        """What a request sets, by the names of the fields of `Limits`: no later than the ceilings have it."""
        ends = {"stop_at": ("stop_after", clock.running_since), "delete_at": ("delete_after", clock.ran_at)}
        for name, value in asked.items():
            ceiling = getattr(self.ceilings, ends[name][0] if name in ends else name, None)
            if value is None or not isinstance(ceiling, timedelta):
                continue
            most = (ends[name][1] or now) + ceiling if name in ends else ceiling
            if value > most:
                shown = LIMIT_NAMES[name]
                raise CallerError(
                    "LIMIT_NOT_ALLOWED",
                    f"{shown} may be {_shown(most)} at most in this deployment",
                    details={"limit": shown, "most": _shown(most)},
                )


@dataclass(frozen=True)
class LimitClock:
    """The moments that limits are counted from, and which notices were given."""

    ran_at: datetime | None = None  # the first `running` ever; of an imported machine its import
    running_since: datetime | None = None  # the first `running` of the last start
    ready_since: datetime | None = None  # since then it may be idle; None: since it runs
    used_at: datetime | None = None  # its last use, as it was last read
    ask_again_at: datetime | None = None  # whether its GPUs are idle could not be told
    off_since: datetime | None = None  # in `stopped` or `exited`, with nobody bringing it back
    budget_stop_at: datetime | None = None  # a budget is passed that stops what runs
    told_stop_at: datetime | None = None  # the time that the last notice named
    told_delete_at: datetime | None = None
    start_at: datetime | None = None  # when its last start was asked for; None: only by its create or import

    def moved(self, before: Status, after: Status, now: datetime) -> "LimitClock":
        """By a change of status. A restart, and a machine that Novita moves, are no starts."""
        if before in OFF and after in (Status.RUNNING, Status.MIGRATING):  # started at Novita's console
            return self.started(now).moved(Status.STARTING, after, now)
        if after is Status.RUNNING:
            return replace(self, ran_at=self.ran_at or now, running_since=self.running_since or now)
        if after is Status.READY:
            return replace(self, ready_since=self.ready_since or now)
        if after is Status.STARTING and before in (Status.RUNNING, Status.READY):  # a restart
            return replace(self, ready_since=self.ready_since or self.running_since)
        return replace(self, off_since=now) if after in OFF else self

    def started(self, now: datetime) -> "LimitClock":
        """A start was asked for: what counts from each start counts anew, when it runs."""
        anew = ("running_since", "ready_since", "ask_again_at", "off_since", "budget_stop_at")
        return replace(self, **dict.fromkeys(anew), start_at=now)

    def brought_back(self, now: datetime) -> "LimitClock":
        """Which is no start: only whether it is idle counts anew, as nobody could use it meanwhile."""
        return replace(self, ready_since=now, ask_again_at=None)

    def spends(self, stop_at: datetime) -> bool:
        """Whether it passed before its start was asked for. One that passes while it comes up acts when it
        is up: nobody else would stop it."""
        return self.start_at is not None and stop_at <= self.start_at

    def changed(self) -> "LimitClock":
        """Its limits are others now."""
        return replace(self, ask_again_at=None)


NEW_CLOCK = LimitClock()
