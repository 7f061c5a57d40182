"""When limits end an instance: what was asked, resolved to times for the status it is in."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from functions.shared.domain.ids import timestamp
from functions.shared.domain.instance.limits import EndedBy, Limits
from functions.shared.domain.instance.record import Instance
from functions.shared.domain.instance.status import OFF, Status

_ENDING = (Status.STOPPING, Status.DELETING, Status.TERMINATED)
_EXITED = "exited"  # Novita's word


@dataclass(frozen=True)
class Deadline:
    at: datetime
    reason: EndedBy
    told_as: datetime  # the time that its notice is for: asking again later is no other time


@dataclass(frozen=True)
class Expiry:
    """What time will bring; the earlier of two limits wins."""

    stop: Deadline | None = None
    delete: Deadline | None = None

    def as_json(self) -> dict[str, Any]:
        shown: dict[str, Any] = {}
        for name, deadline in (("stop", self.stop), ("delete", self.delete)):
            if deadline:
                shown |= {f"{name}At": timestamp(deadline.at), f"{name}Reason": deadline.reason.value}
        return shown


def resolve(record: Instance) -> Expiry:
    """Only what can act: a machine that does not run is not stopped, a protected instance not deleted."""
    return Expiry(_first(_stops(record)), _first(_deletes(record)))


def shown(record: Instance, now: datetime) -> Expiry:
    """With the `stopAt` of one that does not run: to come, or, while it comes up, for when it is up."""
    expiry, stop_at = resolve(record), _stop_at(record)
    if stop_at is None or runs_since(record) is not None or record.status in _ENDING:
        return expiry
    if stop_at <= now and record.status not in (Status.CREATING, Status.STARTING, Status.MIGRATING):
        return expiry
    return Expiry(_first(_at(stop_at, EndedBy.LIFETIME)), expiry.delete)


def expected_expiry(limits: Limits, ceilings: Limits, runs_at: datetime) -> Expiry:
    """Of one that is not bought yet, if nobody used it."""
    stops = [
        *_at(limits.stop_at, EndedBy.LIFETIME),
        *_at(_after(runs_at, limits.stop_after, ceilings.stop_after), EndedBy.LIFETIME),
        *_at(_after(runs_at, limits.idle_stop_after, ceilings.idle_stop_after), EndedBy.IDLE),
    ]
    lived = _after(runs_at, limits.delete_after, ceilings.delete_after)
    deletes = [*_at(limits.delete_at, EndedBy.LIFETIME), *_at(lived, EndedBy.LIFETIME)]
    return Expiry(_first(stops), _first(deletes))


def next_due(record: Instance, notice: timedelta) -> datetime | None:
    """When the next notice is to be given, or the first limit acts."""
    expiry, clock = resolve(record), record.clock
    told = ((expiry.stop, clock.told_stop_at), (expiry.delete, clock.told_delete_at))
    times = [
        deadline.at if deadline.told_as == told_at else deadline.told_as - notice
        for deadline, told_at in told
        if deadline
    ]
    return min(times, default=None)


def idle_window(record: Instance) -> timedelta | None:
    return _shorter(record.limits.idle_stop_after, record.ceilings.idle_stop_after)


def idle_since(record: Instance) -> datetime | None:
    """Since when nobody is known to have used it; None where that does not count."""
    clock = record.clock
    if record.status not in (Status.RUNNING, Status.READY) or clock.running_since is None:
        return None
    if record.recovery:  # nobody can use what was taken away
        return None
    uses = (clock.ready_since or clock.running_since, clock.used_at, record.last_used_at)
    return max(use for use in uses if use)


def _first(deadlines: list[Deadline]) -> Deadline | None:
    return min(deadlines, key=lambda one: one.at, default=None)


def _at(at: datetime | None, reason: EndedBy) -> list[Deadline]:
    return [Deadline(at, reason, at)] if at else []


def _shorter(asked: timedelta | None, ceiling: timedelta | None) -> timedelta | None:
    return min((one for one in (asked, ceiling) if one is not None), default=None)


def _after(start: datetime | None, asked: timedelta | None, ceiling: timedelta | None) -> datetime | None:
    length = _shorter(asked, ceiling)
    return start + length if start and length is not None else None


def _stops(record: Instance) -> list[Deadline]:
    limits, since = record.limits, runs_since(record)
    if since is None or record.status in _ENDING:
        return []
    stop_after = _after(since, limits.stop_after, record.ceilings.stop_after)
    return [
        *_at(_stop_at(record), EndedBy.LIFETIME),
        *_at(stop_after, EndedBy.LIFETIME),
        *_at(record.clock.budget_stop_at, EndedBy.BUDGET),
        *_idle(record),
    ]


def _stop_at(record: Instance) -> datetime | None:
    """None where it is spent."""
    stop_at = record.limits.stop_at
    return None if stop_at is None or record.clock.spends(stop_at) else stop_at


def runs_since(record: Instance) -> datetime | None:
    """None where it does not run, or is on its way up after a start. What is being brought back counts as
    running: nobody wants it back after its time."""
    machine, clock = record.machine, record.clock
    if record.recovery:
        return clock.running_since
    if record.live_machine_id is None or record.leaving or record.status in (Status.CREATING, *OFF):
        return None
    if record.status is not Status.FAILED:
        return clock.running_since
    kept = not record.cleanup.tasks and machine.novita_status != _EXITED
    began = clock.running_since or (machine.acted_at if clock.ran_at else machine.bought_at)
    return began if kept else None


def _idle(record: Instance) -> list[Deadline]:
    at = _after(idle_since(record), idle_window(record), None)
    return [Deadline(max(at, record.clock.ask_again_at or at), EndedBy.IDLE, at)] if at else []


def _deletes(record: Instance) -> list[Deadline]:
    limits, most, clock = record.limits, record.ceilings, record.clock
    if record.protected or record.status in (Status.DELETING, Status.TERMINATED):
        return []
    kept = record.machine.bought_at if record.status is Status.FAILED and record.live_machine_id else None
    lived = _after(clock.ran_at or kept, limits.delete_after, most.delete_after)
    off_since = clock.off_since if record.status in OFF and record.recovery is None else None
    off = _after(off_since, limits.delete_after_stopped, most.delete_after_stopped)
    return [
        *_at(limits.delete_at, EndedBy.LIFETIME),
        *_at(lived, EndedBy.LIFETIME),
        *_at(off, EndedBy.STOPPED_TOO_LONG),
    ]
