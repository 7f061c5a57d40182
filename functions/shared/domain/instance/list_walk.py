"""Going through Novita's list a few pages at a time, where it is too long for one sweep."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from functions.shared.domain.instance.record import Instance

_LIVES = timedelta(hours=3)  # what began earlier tells nothing of today any more


@dataclass(frozen=True)
class Walk:
    began: datetime
    page_size: int  # that is asked for
    page: int = 0  # the next one
    longest: int = 0  # entries of the longest page: what Novita really gives
    ended: bool = False
    parts: int = 0  # of what it has shown, that are stored
    ours: int = 0  # machines of ours
    orphans: int = 0
    doomed: int = 0  # orphans that are to be deleted, by policy and age

    def is_over(self, now: datetime) -> bool:
        return now - self.began > _LIVES

    def starts_at(self) -> int:
        """One page is read again: what was before it and is gone has moved the others up."""
        return max(0, self.page - 1)

    def read(self, number: int, entries: int, total: int | None, *, new: bool) -> "Walk":
        """That page was read; `new` is whether it showed anything that those right before it did not."""
        longest = max(self.longest, entries)
        walk = replace(self, page=number + 1, longest=longest)
        return replace(walk, ended=walk._is_last(number, entries, total, new))

    def _is_last(self, number: int, entries: int, total: int | None, new: bool) -> bool:
        """Novita may count its pages from 1, and then page 0 is empty, or the same as page 1. Where it tells
        the total, an empty page before that is a mistake."""
        if total is not None:
            whole = self.longest * (number + 1) >= total and entries < self.longest
            return whole or self.longest * number >= total or (number == 0 and total <= entries)
        return number > 0 and (entries < self.longest or not entries or (not new and number > 1))

    def found(self, *, ours: int = 0, orphans: int = 0, doomed: int = 0) -> "Walk":
        return replace(
            self, ours=self.ours + ours, orphans=self.orphans + orphans, doomed=self.doomed + doomed
        )

    def stored(self) -> "Walk":
        return replace(self, parts=self.parts + 1)


@dataclass(frozen=True)
class Walks:
    """The one under way, and the last one that came to the list's end."""

    now: Walk | None = None
    last: Walk | None = None
    version: int = 0
    deletions_until: datetime | None = None  # an admin's word that orphans go, however many there are

    def at(self, now: datetime) -> "Walks":
        """Without those that are too old to tell anything."""
        under_way = self.now if self.now and not self.now.is_over(now) else None
        return replace(
            self, now=under_way, last=self.last if self.last and not self.last.is_over(now) else None
        )

    def went_on(self, walk: Walk) -> "Walks":
        if walk.ended:
            return replace(self, now=None, last=walk)
        return replace(self, now=walk)


def worth_a_look(record: Instance, since: datetime) -> bool:
    """A list that was begun then and lacks its machine makes a get by id due; what is on the move has one."""
    seen_at = record.machine.seen_at or record.created_at
    return bool(record.live_machine_id) and record.at_rest and not record.leaving and seen_at <= since
