"""Counters of what is committed, one for each cap: changed in the transaction that commits it."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from functions.shared.domain.instance.fleet import FleetEntry
from functions.shared.domain.instance.record import Instance
from functions.shared.domain.money.caps import (
    DEPLOYMENT,
    NO_CAPS,
    NOTHING,
    CapLimits,
    Commitment,
    committed,
    counters,
    require_room,
)
from functions.shared.platform.observability import logger
from functions.shared.stores.table import NEW, ConditionFailed, Item, ItemUpdate, Table, Write, millis, moment

_SORT = "counter"
_CHECKED_EVERY = timedelta(minutes=5)
_TRUSTED = timedelta(minutes=15)  # after its check was due: nobody may have counted for a while
_LOOK_AGAIN = timedelta(minutes=1)  # after a difference was seen for the first time
_TRIES = 5
# A change of what is in use. Whole numbers: they add up exactly.
_ADD = "SET kind = :kind ADD instancesInUse :instances, hourlyInUse :hourly, changeCount :one"
# There is room for it, and somebody has made sure that the numbers are right.
_ROOM = "hourlyInUse <= :hourlyRoom AND instancesInUse <= :instancesRoom AND attribute_exists(dueAt)"
# Nobody has counted since it was read.
_SAME = "changeCount = :seen"
_NO_LIMIT = 10**15


@dataclass(frozen=True)
class Counter:
    in_use: Commitment
    changes: int  # how often it was changed
    limits: CapLimits
    check_at: datetime | None  # None: nobody keeps it
    doubt: Commitment | None = None  # by how much it seemed wrong when it was last checked

    def trusted(self, now: datetime) -> bool:
        return self.check_at is not None and now < self.check_at + _TRUSTED


class Caps:
    """`fleet` reads every instance that has or may have a machine, consistently."""

    def __init__(
        self,
        table: Table,
        clock: Callable[[], datetime],
        deployment: CapLimits,
        fleet: Callable[[], Iterable[FleetEntry]],
    ) -> None:
        self._table = table
        self._clock = clock
        self._deployment = deployment
        self._fleet = fleet

    def updates(self, record: Instance, *, commits: bool) -> list[ItemUpdate]:
        """For the transaction that stores the record; SpendingRefused where a cap leaves no room for what it
        is about to commit. Nothing where no cap is set."""
        before, wanted = record.counted, committed(record)
        names = counters(record, deployment=bool(self._deployment))
        if not commits:
            names = names if wanted != before else ()
            return [_add(name, wanted - before) for name in names]
        found = (self._with_room(name, before, wanted) for name in names)
        return [update for update in found if update]

    def let(self, key_id: str, limits: CapLimits) -> None:
        """What a key may commit, for all who count for it."""
        counter = self.read(key_id)
        if counter is None or counter.limits != limits:
            self._recount(key_id, limits)

    def read(self, name: str) -> Counter | None:
        item = self._table.get(_pk(name), _SORT)
        return _read(item) if item else None

    def _with_room(self, name: str, before: Commitment, wanted: Commitment) -> ItemUpdate | None:
        counter = self.read(name)
        if counter is None or not counter.trusted(self._clock()):
            counter = self._recount(name)
        limits, change = self._limits(name, counter), wanted - before
        require_room(name, limits, counter.in_use, before, wanted)
        if change == NOTHING:
            return None
        applied = CapLimits(
            limits.instances if change.instances > 0 else None, limits.hourly if wanted.hourly else None
        )
        return _add(name, change, applied)

    def _limits(self, name: str, counter: Counter) -> CapLimits:
        return self._deployment if name == DEPLOYMENT else counter.limits

    def _count(self, *names: str) -> dict[str, Commitment]:
        """Of all of them at once: going through the fleet is what takes time."""
        counts = dict.fromkeys(names, NOTHING)
        for entry in self._fleet():
            known = entry.read()
            whose = (DEPLOYMENT if self._deployment else "", known.key if known.capped else "")
            for name in counts.keys() & whose:
                counts[name] += known.commits
        return counts

    def _recount(self, name: str, limits: CapLimits | None = None) -> Counter:
        """A counter that is missing, or that nobody has kept for a while: one that is kept knows better than
        an index, which may lag."""
        for _ in range(_TRIES):
            before, now = self.read(name), self._clock()
            kept = before is not None and before.trusted(now)
            if before and kept and limits in (None, before.limits):
                return before
            counter = Counter(
                before.in_use if before and kept else self._count(name)[name],
                before.changes + 1 if before else 1,
                limits or (before.limits if before else NO_CAPS),
                now + _CHECKED_EVERY,
            )
            seen = {":seen": before.changes} if before else None
            with suppress(ConditionFailed):
                self._table.put(Write(_item(name, counter), _SAME if before else NEW, seen))
                logger.info("cap counted", cap=name, instances=counter.in_use.instances)
                return counter
        raise ConditionFailed

    def check(self, names: Iterable[str]) -> None:
        """Put right what a crash, another version or a changed setting left wrong. An index may lag: a
        difference counts when two sweeps have seen the same one, and nobody has counted meanwhile."""
        known = {name: counter for name in names if (counter := self.read(name))}
        counted = self._count(*known) if known else {}
        for name, counter in known.items():
            self._check(name, counter, counted[name])

    def _check(self, name: str, counter: Counter, counted: Commitment) -> None:
        now, wrong = self._clock(), counted - counter.in_use
        if wrong == NOTHING:
            kept = counted != NOTHING and not (name == DEPLOYMENT and not self._deployment)
            self._keep(name, counter, now + _CHECKED_EVERY if kept else None)
        elif wrong != counter.doubt:
            self._keep(name, counter, now + _LOOK_AGAIN, doubt=wrong)
        else:
            logger.warning("cap put right", cap=name, instances=wrong.instances, hourly=wrong.hourly)
            right = Counter(counted, counter.changes + 1, counter.limits, now + _CHECKED_EVERY)
            self._put(name, right, counter)

    def _keep(
        self, name: str, counter: Counter, check_at: datetime | None, doubt: Commitment | None = None
    ) -> None:
        self._put(name, Counter(counter.in_use, counter.changes, counter.limits, check_at, doubt), counter)

    def _put(self, name: str, after: Counter, before: Counter) -> None:
        with suppress(ConditionFailed):  # somebody has counted meanwhile: the next sweep checks
            self._table.put(Write(_item(name, after), _SAME, {":seen": before.changes}))


def no_caps(table: Table) -> Caps:
    return Caps(table, lambda: datetime.now(UTC), NO_CAPS, list)


def _add(name: str, change: Commitment, within: CapLimits | None = None) -> ItemUpdate:
    values = {":kind": "cap", ":one": 1, ":instances": change.instances, ":hourly": change.hourly}
    if within is None:
        return ItemUpdate(_pk(name), _SORT, _ADD, values)
    most = Commitment(
        _NO_LIMIT if within.instances is None else within.instances,
        _NO_LIMIT if within.hourly is None else within.hourly,
    )
    room = most - change
    values |= {":instancesRoom": room.instances, ":hourlyRoom": room.hourly}
    return ItemUpdate(_pk(name), _SORT, _ADD, values, _ROOM)


def _pk(name: str) -> str:
    return f"cap#{name}"


def _read(item: Item) -> Counter:
    doubt = item.get("doubt")
    return Counter(
        Commitment(item["instancesInUse"], item["hourlyInUse"]),
        item["changeCount"],
        CapLimits(item.get("maxInstances"), item.get("maxHourly")),
        moment(item["dueAt"]) if "dueAt" in item else None,
        Commitment(*doubt) if doubt else None,
    )


def _item(name: str, counter: Counter) -> Item:
    due = {"due": "cap", "dueAt": millis(counter.check_at)} if counter.check_at else {}
    return {
        "pk": _pk(name),
        "sk": _SORT,
        "kind": "cap",
        "cap": name,
        "instancesInUse": counter.in_use.instances,
        "hourlyInUse": counter.in_use.hourly,
        "changeCount": counter.changes,
        "maxInstances": counter.limits.instances,
        "maxHourly": counter.limits.hourly,
        "doubt": [counter.doubt.instances, counter.doubt.hourly] if counter.doubt else None,
        **due,
    }
