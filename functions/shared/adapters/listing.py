"""Novita's list, read by one process at a time and shared by all."""

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from functions.shared.adapters.cache import SharedCache
from functions.shared.adapters.items import millis
from functions.shared.adapters.table import TABLE_FAILED, ConditionFailed, Item, Table, Write
from functions.shared.domain.errors import NotNow
from functions.shared.domain.machine import Endpoint, Machine
from functions.shared.log import logger

if TYPE_CHECKING:
    from functions.shared.adapters.novita.client import Novita

KEY = "list"
_PATIENCE = (0.0, 0.3, 0.7, 1.0)  # seconds that are spent on waiting for another process's read
_LEASE = ("lease#list", "lease")
# Nobody is reading, or whoever was has been at it for longer than a read may take.
_FREE = "attribute_not_exists(pk) OR leaseUntil <= :now"
# It was not taken over meanwhile.
_MINE = "holder = :holder"


@dataclass(frozen=True)
class Listed:
    """The whole list as one read showed it. `began` is when that read was begun."""

    began: datetime
    machines: Mapping[str, Machine]
    calls: int  # what it took: one for each page


class Listing:
    def __init__(
        self,
        novita: "Novita",
        cache: SharedCache,
        table: Table,
        clock: Callable[[], datetime],
        wait: Callable[[float], None],
    ) -> None:
        self._novita = novita
        self._cache = cache
        self._table = table
        self._clock = clock
        self._wait = wait
        self._known: tuple[str, Listed] | None = None

    def newest(self) -> Listed | None:
        """What the last read showed, however old; one look at the table, no call to Novita."""
        held = self._cache.newest(KEY)
        if held is None:
            return None
        if self._known is None or self._known[0] != held.stamp:
            try:
                self._known = (held.stamp, _from_json(held.value))
            except (KeyError, TypeError, ValueError) as error:  # written by another version
                logger.warning("shared list not read", error=type(error).__name__)
                return None
        return self._known[1]

    def shared(self, within: float, newer_than: datetime | None) -> tuple[Listed, bool]:
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
                return found, False
        raise NotNow("RATE_LIMIT_EXCEEDED", "Novita's list is being read; it is shared", retry_after=2.0)

    def _read(self, within: float, newer_than: datetime | None) -> Listed | None:
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
            listed = Listed(began, {machine.id: machine for machine in machines}, calls)
            self._cache.put(KEY, _to_json(listed))
            return listed
        finally:
            self._give_back(lease)

    def _take(self, within: float) -> Item | None:
        now = self._clock()
        until = now + timedelta(seconds=within + 1)
        item: Item = {
            "pk": _LEASE[0],
            "sk": _LEASE[1],
            "kind": "lease",
            "holder": secrets.token_hex(6),
            "leaseUntil": millis(until),
        }
        try:
            self._table.put(Write(item, _FREE, {":now": millis(now)}))
        except ConditionFailed:
            return None
        except TABLE_FAILED as error:
            logger.warning("list lease not reached", error=type(error).__name__)
        return item

    def _give_back(self, lease: Item) -> None:
        try:
            self._table.put(Write({**lease, "leaseUntil": 0}, _MINE, {":holder": lease["holder"]}))
        except ConditionFailed:
            return
        except TABLE_FAILED as error:
            logger.warning("list lease not given back", error=type(error).__name__)


def _to_json(listed: Listed) -> Any:
    """Without what is empty: most machines have no error and no reclaim time."""
    return {
        "began": listed.began.timestamp(),
        "calls": listed.calls,
        "machines": [_machine_to_json(machine) for machine in listed.machines.values()],
    }


def _machine_to_json(machine: Machine) -> Any:
    facts = {name: value for name, value in vars(machine).items() if value not in ("", None, ())}
    for name in ("spot_reclaim_at", "created_at"):
        if name in facts:
            facts[name] = facts[name].timestamp()
    if machine.endpoints:
        facts["endpoints"] = [[end.port, end.type, end.address] for end in machine.endpoints]
    return facts


def _from_json(stored: Any) -> Listed:
    machines = [_machine_from_json(facts) for facts in stored["machines"]]
    began = datetime.fromtimestamp(stored["began"], UTC)
    return Listed(began, {machine.id: machine for machine in machines}, stored["calls"])


def _machine_from_json(facts: Any) -> Machine:
    times = {
        name: datetime.fromtimestamp(facts[name], UTC)
        for name in ("spot_reclaim_at", "created_at")
        if name in facts
    }
    endpoints = tuple(Endpoint(*end) for end in facts.get("endpoints", ()))
    return Machine(**{"name": "", "status": "", **facts, **times, "endpoints": endpoints})
