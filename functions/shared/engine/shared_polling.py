"""Shared polling: one process at a time reads Novita's list for all instances that wait."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
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
from functions.shared.domain.instance.record import Instance
from functions.shared.domain.instance.sightings import last_action_at, list_suffices
from functions.shared.platform.observability import logger
from functions.shared.stores.cache import Lease
from functions.shared.stores.table import Due, Table

if TYPE_CHECKING:
    from functions.shared.engine.step import StepRunner
    from functions.shared.novita.client import Novita
    from functions.shared.platform.invocation import TimeBudget
    from functions.shared.stores.cache import SharedCache
    from functions.shared.stores.instances import Instances


Machines = Mapping[str, Machine]

_OF_THE_LIMIT = 0.28  # what reads of the list may take of the calls that Novita allows
_APART = 1.02  # so that a minute never holds one read more than are meant
_OF_THE_TTL = 0.8  # read again a little before the list is too old, so that it hardly ever is


@dataclass(frozen=True)
class PollingPace:
    """How many share one read, and how often there may be one."""

    share_from: int  # with fewer, a get for each tells more and costs no more
    poll_seconds: float
    list_ttl: float
    calls_per_minute: int  # what Novita allows

    def pause(self, waiting: int, calls: int) -> float:
        """Seconds from one read to the next: never more calls than one for each instance and interval, nor
        more than a share of the limit, however many pages there are."""
        shortest = min(self.list_ttl * _OF_THE_TTL, self.poll_seconds)
        fair = self.poll_seconds / max(1, waiting)
        reads = max(1, int(self.calls_per_minute * _OF_THE_LIMIT / max(1, calls)))  # in any 60 s
        return max(shortest, fair, _APART * 60 / reads)


def count_coming_up(machines: Machines, deployment: str) -> int:
    """How many of our machines are on their way up."""
    return sum(
        machine_state(machine) is MachineState.ON_ITS_WAY and read_mark(machine.name, deployment) is not None
        for machine in machines.values()
    )


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

    def _read(self, within: float, newer_than: datetime | None) -> ListSnapshot | None:
        """None where another process is at it, or has just been."""
        lease = self._take(within)
        if lease is None:
            return None
        try:
            newest = self.newest()
            if newest and (newer_than is None or newest.began > newer_than):
                return None  # somebody was quicker
            began = self._clock()
            machines, calls = self._novita.list_counted(within=within)
            found = {machine.id: machine for machine in machines}
            listed = ListSnapshot(began, found, calls, self._novita.key_version())
            self._cache.put(LIST_KEY, _to_json(listed))
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
_SKEW = timedelta(seconds=0.05)  # of clocks, so that whoever comes in time to read does
_HORIZON = timedelta(seconds=20)  # for each second of the interval: what is due later is not counted


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
    _counted: tuple[datetime, int] | None = None  # how many are on their way in the list that began then

    def look(self, record: Instance, machine_id: str, within: float) -> Seen | None:
        """What the shared list shows of the machine; None where a get has to be asked instead."""
        if record.machine.needs_look:
            return None
        known, again_at = self.shared_list.newest(), None
        if self._is_worth_sharing():
            listed, again_at = self._current(known, machine_id, within)
        elif known and self._fresh(known) and known.began > (record.machine.seen_at or record.created_at):
            listed = known  # the last few that wait need no call of their own
            self.shared_list.count_hit()
        else:
            return None
        machine = listed.machines.get(machine_id)
        usable = listed.began - timedelta(seconds=self.list_lag_seconds) > last_action_at(record, machine_id)
        if machine is None or not usable or not list_suffices(record, machine):
            return None
        return Seen(machine, listed.began, again_at=again_at)

    def _is_worth_sharing(self) -> bool:
        """Whether so many wait that one read of the list costs less than a get for each."""
        until = self.clock() + _HORIZON * self.pace.poll_seconds
        return len(self.due.overdue("instance", until, self.pace.share_from)) >= self.pace.share_from

    def _current(
        self, known: ListSnapshot | None, own_id: str, within: float
    ) -> tuple[ListSnapshot, datetime | None]:
        """The list, and when this instance looks again: sooner for the one that read the list for all."""
        others_look = self.clock() + timedelta(seconds=self.pace.poll_seconds)
        if known and self.clock() + _SKEW < self._again_at(known):
            self.shared_list.count_hit()
            return known, others_look
        listed, mine = self.shared_list.shared(within, known.began if known else None)
        if not mine:
            return listed, others_look
        self._enqueue_changed(known, listed, own_id)
        return listed, self._again_at(listed) if self._waiting(listed) >= self.pace.share_from else None

    def _fresh(self, listed: ListSnapshot) -> bool:
        return self.clock() - listed.began < timedelta(seconds=self.pace.list_ttl)

    def _again_at(self, listed: ListSnapshot) -> datetime:
        return listed.began + timedelta(seconds=self.pace.pause(self._waiting(listed), listed.calls))

    def _waiting(self, listed: ListSnapshot) -> int:
        if self._counted is None or self._counted[0] != listed.began:
            self._counted = listed.began, count_coming_up(listed.machines, self.deployment())
        return self._counted[1]

    def _enqueue_changed(self, before: ListSnapshot | None, after: ListSnapshot, own_id: str) -> None:
        """Instances whose machine changed its state take their step now, with this very list."""
        if before is None:
            return
        changes = changed_machines(before.machines, after.machines, self.deployment())
        for number, (instance_id, machine) in enumerate(changes):
            if number >= _MOST_ENQUEUED or not self.budget.may_enqueue():
                logger.warning("not all changed instances enqueued", enqueued=number)
                return
            record = self.instances.get(instance_id)
            if record and record.machine.id == machine.id != own_id and record.next_check_at:
                self.steps.enqueue(record, record.next_check_at)
