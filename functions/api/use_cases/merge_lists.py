"""Everything that is known here and everything that Novita shows, fetched at once and merged."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, replace
from datetime import datetime
from math import inf
from typing import TYPE_CHECKING, Any

from functions.api.responses import how_many_fit
from functions.api.views import entry_view
from functions.shared.domain.errors import NotNow, NovitaForNow, NovitaRefused, lacks_slots
from functions.shared.domain.ids import read_mark, timestamp
from functions.shared.domain.instance.comparison import compare
from functions.shared.domain.instance.decision import Policy
from functions.shared.domain.instance.expiry import idle_window
from functions.shared.domain.instance.merge import Merged, Source, merge, without_novita
from functions.shared.domain.instance.record import Instance
from functions.shared.platform.observability import logger
from functions.shared.stores.table import UNREADABLE

if TYPE_CHECKING:
    from functions.api.cursors import Cursors
    from functions.shared.engine.repair import Repair
    from functions.shared.engine.shared_polling import ListSnapshot, SharedList
    from functions.shared.stores.cache import SharedCache
    from functions.shared.stores.instances import Instances
    from functions.shared.stores.last_sweep import LastSweep
    from functions.shared.stores.last_used import LastUsed
    from functions.shared.stores.machines import KeyTrust
    from functions.shared.stores.recent_outage import RecentOutage

_KEY = "merged"
_LISTING = "comprehensive"


@dataclass(frozen=True)
class MergedList:
    """The merged list as it is cached: entries as callers see them, newest first, each with its position."""

    entries: list[tuple[str, dict[str, Any]]]
    stale: bool
    took: dict[str, int]  # milliseconds


@dataclass(frozen=True)
class MergeLists:
    instances: Instances
    last_used: LastUsed
    last_sweep: LastSweep
    shared_list: SharedList
    repair: Repair
    cache: SharedCache
    recent_outage: RecentOutage
    key_trust: KeyTrust
    cursors: Cursors
    deployment: Callable[[], str]
    policy: Policy
    clock: Callable[[], datetime]
    list_ttl: float
    merged_ttl: float
    stopwatch: Callable[[], float] = time.perf_counter
    within: float = 5.0  # seconds that Novita's list may take while somebody waits for it

    def __call__(
        self, *, include_novita_only: bool, sync_local_state: bool, limit: int, cursor: str | None
    ) -> dict[str, Any]:
        began = self.stopwatch()
        after = self.cursors.read(cursor, _LISTING) if cursor else None
        whole = (None if sync_local_state else self._cached()) or self._fetched(sync_local_state)
        entries = [
            (position, entry)
            for position, entry in whole.entries
            if include_novita_only or entry["source"] != Source.NOVITA
        ]
        following = [(position, entry) for position, entry in entries if after is None or position < after]
        page = following[: how_many_fit([entry for _, entry in following[:limit]])]
        counts = Counter(str(entry["source"]) for _, entry in entries)
        view: dict[str, Any] = {
            "instances": self._with_last_used([entry for _, entry in page]),
            "total": len(entries),
            "sources": {str(source): counts[str(source)] for source in Source},
            "performance": {
                "totalRequestTime": _milliseconds(self.stopwatch() - began),
                **whole.took,
                "cacheHitRatio": self.cache.hit_ratio,
            },
        }
        if len(following) > len(page):
            view["nextCursor"] = self.cursors.make(page[-1][0], _LISTING)
        if whole.stale:
            view["stale"] = True
        return view

    def _with_last_used(self, page: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Read now and only for this page: last used changes more often than the list is cached."""
        used = self.last_used.of(entry["instanceId"] for entry in page if "instanceId" in entry)
        return [
            {**entry, "lastUsedAt": timestamp(used[entry["instanceId"]])}
            if entry.get("instanceId") in used
            else entry
            for entry in page
        ]

    def _cached(self) -> MergedList | None:
        found = self.cache.get(_KEY, self.merged_ttl)
        nothing = {"novitaApiTime": 0, "localDataTime": 0, "mergeProcessingTime": 0}
        return (
            MergedList([(position, entry) for position, entry in found], False, nothing)
            if found is not None
            else None
        )

    def _fetched(self, sync: bool) -> MergedList:
        with ThreadPoolExecutor(2) as pool:
            here = pool.submit(copy_context().run, self._timed, self.instances.not_terminated)
            there = pool.submit(copy_context().run, self._timed, self._believed)
        (records, local_time), (listed, novita_time) = here.result(), there.result()
        began = self.stopwatch()
        merged = self._merged(records, listed, sync)
        entries = sorted(
            ((_position(one), entry_view(one, self.clock())) for one in self._shown(merged)),
            key=_by_position,
            reverse=True,
        )
        took = {
            "novitaApiTime": novita_time,
            "localDataTime": local_time,
            "mergeProcessingTime": _milliseconds(self.stopwatch() - began),
        }
        if listed is not None:  # an answer without Novita is not kept: it may be back at once
            self.cache.put(_KEY, [[position, entry] for position, entry in entries])
        return MergedList(entries, listed is None, took)

    def _shown(self, merged: list[Merged]) -> Iterator[Merged]:
        """With the last time that its machine was listed, where this list lacks it or could not be read; and
        with the last use, where that says when it is stopped."""
        limited = (one.record.id for one in merged if one.record and idle_window(one.record))
        used = self.last_used.of(limited)
        for one in merged:
            record = one.record and self.last_sweep.last_shown(one.record, self.list_ttl)
            if record and record.id in used:
                record = replace(record, last_used_at=used[record.id])
            yield replace(one, record=record)

    def _timed(self, work: Callable[[], Any]) -> tuple[Any, int]:
        began = self.stopwatch()
        return work(), _milliseconds(self.stopwatch() - began)

    def _believed(self) -> ListSnapshot | None:
        """What another account's key shows, and lacks, is no answer."""
        listed = self._listed()
        if listed is None or self.key_trust.believes(listed.key_version):
            return listed
        logger.warning("merged without novita", code="NOVITA_AUTHENTICATION_FAILED")
        return None

    def _listed(self) -> ListSnapshot | None:
        """None where Novita cannot be asked."""
        if self.recent_outage.is_on():
            return None
        newest = self.shared_list.newest()
        age = (self.clock() - newest.began).total_seconds() if newest else inf
        if age < self.list_ttl:
            self.shared_list.count_hit()
            return newest
        try:
            return self.shared_list.shared(self.within, newest.began if newest else None)[0]
        except (NovitaForNow, NovitaRefused) as error:
            if isinstance(error, NovitaForNow) and not isinstance(error, NotNow):
                self.recent_outage.note()
            if lacks_slots(error) and age < self.merged_ttl:  # as old as what is cached may be
                return newest
            logger.info("merged without novita", code=error.code)
            return None

    def _merged(self, records: list[Instance], listed: ListSnapshot | None, sync: bool) -> list[Merged]:
        if listed is None:
            return list(without_novita(records))
        deployment, machines = self.deployment(), listed.machines.values()
        marks = {mark.instance_id for one in machines if (mark := read_mark(one.name, deployment))}
        by_id = {record.id: record for record in records}
        marked = {id_: by_id.get(id_) or self._marked(id_) for id_ in marks}
        if sync:
            stored = self._synced(records, listed, marked, deployment)
            records = [stored.get(record.id, record) for record in records]
            marked |= {id_: stored[id_] for id_ in stored.keys() & marked.keys()}
        return merge(machines, records, marked, deployment, listed.began, self.clock(), self.policy)

    def _marked(self, instance_id: str) -> Instance | None:
        """None, too, where it cannot be read: its machine is shown as one that has no record."""
        try:
            return self.instances.get(instance_id)
        except UNREADABLE:
            logger.exception("item not read", key=instance_id)
            return None

    def _synced(
        self,
        records: list[Instance],
        listed: ListSnapshot,
        marked: dict[str, Instance | None],
        deployment: str,
    ) -> dict[str, Instance]:
        """The records that followed, as they are now; none is made and none is adopted."""
        machines, since = listed.machines.values(), listed.began - self.policy.settle
        found = compare(machines, records, marked, deployment, missed_since=since)
        done = [self.repair.matched(record, machine, listed.began) for record, machine in found.matched]
        done += [self.repair.unlisted(record, listed.began) for record in found.unlisted]
        changed = (self.instances.get(one.instance_id) for one in done if one and one.done)
        return {record.id: record for record in changed if record}


def _position(one: Merged) -> str:
    """What the list is sorted by, newest first; it never changes, so that a cursor can go on below it."""
    if one.record is not None:
        return f"{_moment(one.record.created_at)}.{one.record.id}"
    if one.machine is not None:
        return f"{_moment(one.machine.created_at)}.{one.machine.id}"
    raise ValueError("neither a record nor a machine")


def _by_position(entry: tuple[str, Any]) -> str:
    return entry[0]


def _moment(at: datetime | None) -> str:
    return f"{int(at.timestamp() * 1000) if at else 0:015d}"


def _milliseconds(seconds: float) -> int:
    return round(seconds * 1000)
