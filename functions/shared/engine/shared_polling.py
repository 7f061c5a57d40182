"""Shared polling: one process at a time reads Novita's list for all instances that wait."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from functions.shared.domain.errors import NotNow, NovitaForNow, NovitaRefused
from functions.shared.domain.ids import read_mark
from functions.shared.domain.instance.machine import (
    Endpoint,
    Machine,
    MachineState,
    Mount,
    machine_state,
)
from functions.shared.domain.instance.observations import Seen
from functions.shared.domain.instance.progress import booting, earliest_up
from functions.shared.domain.instance.record import Instance, Queue
from functions.shared.domain.instance.sightings import last_action_at, list_suffices
from functions.shared.domain.messages import LONGEST_DELAY, LookMessage
from functions.shared.platform.observability import logger
from functions.shared.stores.cache import Lease
from functions.shared.stores.table import Due, Item, Table

if TYPE_CHECKING:
    from functions.shared.engine.step import StepRunner
    from functions.shared.novita.client import Novita
    from functions.shared.platform.aws import Queues
    from functions.shared.platform.invocation import TimeBudget
    from functions.shared.stores.cache import SharedCache
    from functions.shared.stores.instances import Instances
    from functions.shared.stores.machines import PlannedLooks


Machines = Mapping[str, Machine]

_OF_THE_LIMIT = 0.29  # what looks may take of the calls that Novita allows
_APART = 1.02  # so that a minute never holds one look more than are meant
_HORIZON = timedelta(seconds=20)  # for each second of the interval: what is due later is not counted


@dataclass(frozen=True)
class PollingPace:
    """How many share one read of the list, and how often Novita is asked."""

    share_from: int  # with fewer, a get for each tells more and costs no more
    poll_seconds: float  # from one step of an instance to its next
    list_ttl: float  # how old the list may be for a step
    look_seconds: float  # at least so long between two looks
    calls_per_minute: int  # what Novita allows

    @property
    def apart(self) -> float:
        """Seconds from one moment for a look to the next, each of which takes one call."""
        calls = max(1, int(self.calls_per_minute * _OF_THE_LIMIT))  # in any 60 s
        return max(self.look_seconds, _APART * 60 / calls)

    def list_age(self, record: Instance) -> float:
        """How old the list may be for a step. One that boots may use any that is not older than its step
        before: looks tell it of what has changed since."""
        looks = self.apart < self.poll_seconds and booting(record)
        return max(self.list_ttl, self.poll_seconds) if looks else self.list_ttl

    @property
    def horizon(self) -> timedelta:
        """What is due within this time counts as waiting."""
        return _HORIZON * self.poll_seconds


def changed_machines(before: Machines, after: Machines, deployment: str) -> Iterator[tuple[str, Machine]]:
    """Ours that are no longer what they were, with the instance that the mark names."""
    for machine in after.values():
        known = before.get(machine.id)
        failing = bool(machine.error) and not (known and known.error)
        if failing or machine_state(machine) is not (
            machine_state(known) if known else MachineState.ON_ITS_WAY
        ):
            mark = read_mark(machine.name, deployment)
            if mark:
                yield mark.instance_id, machine


LIST_KEY = "list"
_PATIENCE = (0.0, 0.3, 0.7, 1.0)  # seconds that are spent on waiting for another process's read
_LEASE = ("lease#list", "lease")


@dataclass(frozen=True)
class ListSnapshot:
    """The whole list as one read showed it. `began` is when that read was begun."""

    began: datetime
    machines: Mapping[str, Machine]
    calls: int  # what it took: one for each page
    key_version: str  # of the key that it was read with


class SharedList:
    def __init__(
        self,
        novita: Novita,
        cache: SharedCache,
        table: Table,
        clock: Callable[[], datetime],
        wait: Callable[[float], None],
    ) -> None:
        self._novita = novita
        self._cache = cache
        self._lease = Lease(table, clock, _LEASE)
        self._clock = clock
        self._wait = wait
        self._known: tuple[str, ListSnapshot] | None = None

    def newest(self) -> ListSnapshot | None:
        """What the last read showed, however old; one look at the table, no call to Novita. What another key
        has shown may be another account's: while functions change theirs, they share nothing."""
        held = self._cache.newest(LIST_KEY)
        if held is None:
            return None
        if self._known is None or self._known[0] != held.stamp:
            try:
                self._known = (held.stamp, _from_json(held.value))
            except (KeyError, TypeError, ValueError) as error:  # written by another version
                logger.warning("shared list not read", error=type(error).__name__)
                return None
        return self._known[1] if self._is_of_our_key(self._known[1]) else None

    def _is_of_our_key(self, listed: ListSnapshot) -> bool:
        try:
            return listed.key_version == self._novita.key_version()
        except (NovitaForNow, NovitaRefused):  # it cannot be read
            return False

    def count_hit(self) -> None:
        """What is known was new enough."""
        self._cache.count(LIST_KEY, hit=True)

    def shared(self, within: float, newer_than: datetime | None) -> tuple[ListSnapshot, bool]:
        """A list newer than that, and whether it was read here: one process reads, the others wait a moment.

        NotNow where they would have to wait longer.
        """
        listed = self._read(within, newer_than)
        if listed:
            return listed, True
        for pause in _PATIENCE:
            self._wait(pause)
            found = self.newest()
            if found and (newer_than is None or found.began > newer_than):
                self.count_hit()
                return found, False
            if pause and (listed := self._read(within, newer_than)):  # whoever was at it had no slot
                return listed, True
        raise NotNow("RATE_LIMIT_EXCEEDED", "Novita's list is being read; it is shared", retry_after=2.0)

    def read(self, within: float) -> ListSnapshot:
        """As it is now, for nobody else."""
        began = self._clock()
        machines, calls = self._novita.list_counted(within=within)
        found = {machine.id: machine for machine in machines}
        return ListSnapshot(began, found, calls, self._novita.key_version())

    def share(self, listed: ListSnapshot) -> None:
        self._cache.put(LIST_KEY, _to_json(listed))

    def _read(self, within: float, newer_than: datetime | None) -> ListSnapshot | None:
        """None where another process is at it, or has just been."""
        lease = self._take(within)
        if lease is None:
            return None
        try:
            newest = self.newest()
            if newest and (newer_than is None or newest.began > newer_than):
                return None  # somebody was quicker
            listed = self.read(within)
            self.share(listed)
            self._cache.count(LIST_KEY, hit=False)
            return listed
        finally:
            self._release(lease)

    def _take(self, within: float) -> str | None:
        return self._lease.take(within + 1)

    def _release(self, lease: str) -> None:
        self._lease.release(lease)


def _to_json(listed: ListSnapshot) -> Any:
    """Without what is empty: most machines have no error and no reclaim time."""
    return {
        "began": listed.began.timestamp(),
        "calls": listed.calls,
        "keyVersion": listed.key_version,
        "machines": [_machine_to_json(machine) for machine in listed.machines.values()],
    }


_TIMES = ("spot_reclaim_at", "created_at", "started_at", "stopped_at", "ends_at")
_PRICES = ("price", "storage_price")


def _machine_to_json(machine: Machine) -> Any:
    facts = {name: value for name, value in vars(machine).items() if value not in ("", None, ())}
    for name in _TIMES:
        if name in facts:
            facts[name] = facts[name].timestamp()
    for name in _PRICES:
        if name in facts:
            facts[name] = str(facts[name])
    if machine.endpoints:
        facts["endpoints"] = [[end.port, end.type, end.address] for end in machine.endpoints]
    if machine.mounts:
        facts["mounts"] = [[mount.type, mount.path, mount.id, mount.size] for mount in machine.mounts]
    return facts


def _from_json(stored: Any) -> ListSnapshot:
    machines = [_machine_from_json(facts) for facts in stored["machines"]]
    began = datetime.fromtimestamp(stored["began"], UTC)
    found = {machine.id: machine for machine in machines}
    return ListSnapshot(began, found, stored["calls"], stored["keyVersion"])


def _machine_from_json(facts: Any) -> Machine:
    times = {name: datetime.fromtimestamp(facts[name], UTC) for name in _TIMES if name in facts}
    prices = {name: Decimal(facts[name]) for name in _PRICES if name in facts}
    endpoints = tuple(Endpoint(*end) for end in facts.get("endpoints", ()))
    mounts = tuple(Mount(*mount) for mount in facts.get("mounts", ()))
    read = {**times, **prices, "endpoints": endpoints, "mounts": mounts}
    return Machine(**{"name": "", "status": "", **facts, **read})


_MOST_ENQUEUED = 200  # instances after one read of the list; the others are due by themselves


@dataclass
class SharedPolling:
    shared_list: SharedList
    due: Due
    instances: Instances
    steps: StepRunner
    deployment: Callable[[], str]
    clock: Callable[[], datetime]
    budget: TimeBudget
    pace: PollingPace
    list_lag_seconds: float  # what a list shows may be this much older than the request for it

    def look(self, record: Instance, machine_id: str, within: float) -> Seen | None:
        """What the shared list shows of the machine; None where a get has to be asked instead."""
        if record.machine.needs_look:
            return None
        known = self.shared_list.newest()
        if self.worth_sharing(known, self.waiting(known)):
            listed = self._current(known, record, within)
        elif (
            known
            and self._fresh(known, record)
            and known.began > (record.machine.seen_at or record.created_at)
        ):
            listed = known  # the last few that wait need no call of their own
            self.shared_list.count_hit()
        else:
            return None
        machine = listed.machines.get(machine_id)
        usable = listed.began - timedelta(seconds=self.list_lag_seconds) > last_action_at(record, machine_id)
        if machine is None or not usable or not list_suffices(record, machine):
            return None
        return Seen(machine, listed.began)

    def waiting(self, known: ListSnapshot | None) -> Sequence[Item]:
        """Keys of instances that are due soon: no more than it takes to be worth a read of the list."""
        until = self.clock() + self.pace.horizon
        return self.due.overdue("instance", until, self._enough(known))

    def worth_sharing(self, known: ListSnapshot | None, waiting: Sequence[Item]) -> bool:
        """Whether so many wait that one read of the list costs less than a get for each."""
        return len(waiting) >= self._enough(known)

    def _enough(self, known: ListSnapshot | None) -> int:
        return max(self.pace.share_from, pages(known))

    def _current(self, known: ListSnapshot | None, record: Instance, within: float) -> ListSnapshot:
        if known and self._fresh(known, record):
            self.shared_list.count_hit()
            return known
        listed, mine = self.shared_list.shared(within, known.began if known else None)
        if mine:
            self._tell_changed(known, listed, record.machine.id)
        return listed

    def _fresh(self, listed: ListSnapshot, record: Instance) -> bool:
        """A deadline that has passed is judged by what was asked for later."""
        now, deadline = self.clock(), record.deadline_at
        unjudged = deadline is not None and listed.began < deadline <= now
        return not unjudged and now - listed.began < timedelta(seconds=self.pace.list_age(record))

    def read_for_changes(self, known: ListSnapshot | None, within: float) -> None:
        """Nothing is written where there are none."""
        listed = self.shared_list.read(within)
        if known is None or self._changes(known, listed) or pages(known) != pages(listed):
            self.shared_list.share(listed)
            self._tell_changed(known, listed)

    def _changes(self, before: ListSnapshot | None, after: ListSnapshot) -> list[tuple[str, Machine]]:
        known = before.machines if before else {}
        return list(changed_machines(known, after.machines, self.deployment()))

    def _tell_changed(
        self, before: ListSnapshot | None, after: ListSnapshot, own_id: str | None = None
    ) -> None:
        """Instances whose machine changed its state take their step now, with this very list."""
        changes = self._changes(before, after)
        for number, (instance_id, machine) in enumerate(changes):
            if number >= _MOST_ENQUEUED or not self.budget.may_enqueue():
                logger.warning("not all changed instances enqueued", enqueued=number)
                return
            record = self.instances.get(instance_id)
            if record and record.machine.id == machine.id != own_id and not record.at_rest:
                self.tell(record)

    def tell(self, record: Instance) -> None:
        """It takes its step now instead of when it is due."""
        self.steps.enqueue(record, record.next_check_at or self.clock())


def pages(listed: ListSnapshot | None) -> int:
    """What a read of the list takes, as far as anybody knows."""
    return listed.calls if listed else 1


_FEWEST = 3  # looks that are worth a write


@dataclass(frozen=True)
class PlanLooks:
    """Looks between the steps of those that boot: see `looks`."""

    planned: PlannedLooks
    queues: Queues
    clock: Callable[[], datetime]
    pace: PollingPace

    def __call__(self, record: Instance) -> None:
        """Fill the time until the record's next step."""
        now, due = self.clock(), record.next_check_at
        if not may_be_up(record, now) or due is None or self.pace.apart >= self.pace.poll_seconds:
            return
        last = math.ceil(min(due, now + LONGEST_DELAY).timestamp() / self.pace.apart) - 1
        until = self.planned.until(self._moment(last - _FEWEST + 1))
        if until is None:
            return
        planned = round(until.timestamp() / self.pace.apart)
        first = max(planned, math.floor(now.timestamp() / self.pace.apart)) + 1
        if last - first + 1 < _FEWEST or not self.planned.extend(self._moment(last)):
            return
        looks = [self._look(record, number) for number in range(first, last + 1)]
        self.queues.send_looks(Queue.MONITOR, looks, now)

    def _look(self, record: Instance, number: int) -> LookMessage:
        return LookMessage(record.id, record.correlation_id, self._moment(number), number)

    def _moment(self, number: int) -> datetime:
        return datetime.fromtimestamp(number * self.pace.apart, UTC)


def may_be_up(record: Instance, now: datetime) -> bool:
    earliest = earliest_up(record)
    return booting(record) and (earliest is None or now >= earliest)
