"""When two states are one: they differ only in names, and in times that no rule can tell apart."""

from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from datetime import datetime, timedelta
from functools import cache
from typing import Any

from functions.shared.domain.instance.limits import NEW_CLOCK, NO_LIMITS
from functions.shared.domain.instance.purchases import refused_offers
from functions.shared.domain.instance.reclaim import Recovery
from functions.shared.domain.instance.record import (
    CleanupTask,
    Instance,
    Operation,
    Purchase,
    PurchaseOutcome,
    PurchaseState,
    Refusal,
    RentedMachine,
)
from tests.explorer.world import POLICY, HeldKey, KeyState, Worker, World

_SETTLE = POLICY.settle.total_seconds()
_VANISHED = POLICY.vanished_after.total_seconds()
_ANY = (10.0, 30.0, 60.0, _SETTLE, 180.0, _VANISHED, 600.0, 1200.0, 3600.0)
# The intervals that rules compare each time with; a new one is compared with any.
_INTERVALS: dict[str, tuple[float, ...]] = {
    "ready_at": (),
    "visible_at": (),
    "updated_at": (_SETTLE,),
    "seen_at": (30.0, _SETTLE),
    "acted_at": (10.0, _SETTLE),
    "asked_at": (_SETTLE,),
    "ended_at": (60.0, _SETTLE),
    "unseen_at": (10.0,),
    "next_check_at": (15.0, _SETTLE),
    "deadline_at": (_SETTLE,),
    "lease_until": (_SETTLE,),
    "began": (30.0, 90.0),
    "hidden_since": (),
    "first_missed_at": (_SETTLE,),
    "last_missed_at": (30.0, 3600.0),
    "missing_since": (),
    "denied_since": (_SETTLE,),
    "denied_at": (3600.0,),
    "again_at": (),
    "since": (60.0, 600.0),
    "until": (),
    "try_at": (),
    "paused_at": (),
    "ran_at": (),
    "running_since": (300.0,),
    "ready_since": (),
    "off_since": (600.0,),
    "told_stop_at": (),
    "told_delete_at": (),
}
_MANY = 5  # attempts, rounds: more make no difference
_SPANS = (_SETTLE, _VANISHED)  # of time that has been counted
_NO_PART: dict[type, frozenset[str]] = {
    Instance: frozenset({"id", "name", "spec", "created_at", "actor", "correlation_id", "webhook_url"})
    | {"version", "token", "sequence", "waiting", "unknown", "last_used_at", "error"}
    | {"ledger"},  # no rule reads it
    # Those of looks are compared only with the step that set them.
    RentedMachine: frozenset({"looked_at", "bought_at", "price", "product_id", "region", "boot"}),
    PurchaseState: frozenset({"read_at", "count"}),
    KeyState: frozenset({"version", "first_used_at"}),
    Operation: frozenset({"id", "actor", "began_at", "phases", "error", "health_check"}),
    Purchase: frozenset({"instance_id", "number", "name", "intended_at", "fault"})
    | {"product_id", "region", "price", "unknown"},
    Worker: frozenset({"token", "call"}),
    CleanupTask: frozenset({"checked_at"}),
    Refusal: frozenset({"count"}),
    Recovery: frozenset({"lost_at", "checked_at"}),
    World: frozenset({"now", "budget", "terms"}),
}


def key(world: World) -> int:
    """Of what was refused only the offers matter that are not asked for again so soon."""
    refused = len(refused_offers(world.purchases, world.now))
    matter = tuple(one for one in world.purchases if one.outcome is not PurchaseOutcome.REFUSED)
    canonical = _canonical(replace(_without_clock(world), purchases=matter), world.now)
    overtaken = _comes_too_late(world, world.parked) if world.parked else ()
    return hash((canonical, world.record.queue, refused, overtaken))


def _without_clock(world: World) -> World:
    """Nothing is counted for one that is not limited, nor may be."""
    if world.limited or world.record.limits != NO_LIMITS:
        return world
    return replace(world, record=replace(world.record, clock=NEW_CLOCK, ended_by=None))


def _comes_too_late(world: World, worker: Worker) -> tuple[bool, ...]:
    """What of the interrupted function's knowledge has been overtaken."""
    record, machine = world.record, world.record.machine
    asked = [task.asked_at for task in record.cleanup.tasks if task.asked_at]
    times = [machine.acted_at, machine.seen_at, *asked]
    known = [one.version for one in worker.learned if isinstance(one, Instance)]
    keys = [one.state.version for one in worker.learned if isinstance(one, HeldKey)]
    return (
        worker.token == record.token,
        *[version == world.key.version for version in keys],
        *[version == record.version for version in known],
        *[at is not None and worker.began <= at for at in times],
    )


def _canonical(value: Any, now: datetime, intervals: tuple[float, ...] = _ANY) -> Any:
    kind = type(value)
    if kind is str or value is None or kind is bool:
        return value
    if kind is datetime:
        return _interval((now - value).total_seconds(), intervals)
    if kind is tuple or kind is list:
        return tuple([_canonical(one, now) for one in value])
    if parts := _parts(kind):  # type: ignore[arg-type]  # a type is hashable
        return (kind.__name__, *[_canonical(getattr(value, name), now, within) for name, within in parts])
    return _of_other_kinds(value, now)


def _of_other_kinds(value: Any, now: datetime) -> Any:
    match value:
        case str():  # an enum
            return value
        case int():
            return min(value, _MANY)
        case float():
            return bisect_right(_SPANS, value)
        case timedelta():
            return bisect_right(_SPANS, value.total_seconds())
        case frozenset():
            return tuple(sorted(value))
        case Mapping():
            return tuple(sorted((name, _canonical(one, now)) for name, one in value.items()))
    return type(value).__name__


@cache
def _parts(kind: type) -> tuple[tuple[str, tuple[float, ...]], ...]:
    """The fields of a dataclass that matter, each with its intervals."""
    without = _NO_PART.get(kind, frozenset())
    named = (one.name for one in fields(kind)) if is_dataclass(kind) else ()
    return tuple((name, _INTERVALS.get(name, _ANY)) for name in named if name not in without)


def _interval(age: float, intervals: tuple[float, ...]) -> int:
    """How many of them have passed since; below zero, how many are still to pass."""
    return bisect_right(intervals, age) if age >= 0 else -1 - bisect_left(intervals, -age)
