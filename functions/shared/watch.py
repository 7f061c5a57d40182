"""Watching many machines at the price of one: whoever is due reads Novita's list for all."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from functions.shared.adapters.due import Due
from functions.shared.adapters.instances import Instances
from functions.shared.adapters.listing import Listed, Listing
from functions.shared.domain import crowd
from functions.shared.domain.crowd import Pace
from functions.shared.domain.instance import Instance
from functions.shared.domain.observation import Seen
from functions.shared.log import logger

_MOST_TOLD = 200  # instances that one read sets going at once; the others are due on their own account
_SPARE_SECONDS = 15.0
_SKEW = timedelta(seconds=0.05)  # of clocks, so that whoever comes in time to read does
_HORIZON = timedelta(seconds=20)  # for each second of the interval: who is due later is as good as at rest


@dataclass
class Watch:
    listing: Listing
    due: Due
    instances: Instances
    nudge: Callable[[Instance, datetime], None]
    deployment: Callable[[], str]
    clock: Callable[[], datetime]
    time_left: Callable[[], float]
    pace: Pace
    list_lag: timedelta  # what a list shows may be this much older than the request for it
    _counted: tuple[datetime, int] | None = None  # how many are on their way in the list that began then

    def look(self, record: Instance, machine_id: str, within: float) -> Seen | None:
        """What the shared list shows of the machine; None where a get has to be asked instead."""
        if record.doubted:
            return None
        known, again_at = self.listing.newest(), None
        if self._crowded():
            listed, again_at = self._current(known, machine_id, within)
        elif known and self._fresh(known) and known.began > (record.seen_at or record.created_at):
            listed = known  # the last of a crowd need no call of their own
        else:
            return None
        machine = listed.machines.get(machine_id)
        usable = listed.began - self.list_lag > crowd.since(record, machine_id)
        if machine is None or not usable or not crowd.tells(record, machine):
            return None
        return Seen(machine, listed.began, again_at=again_at)

    def _crowded(self) -> bool:
        """So many are waited for, whenever each is due, that one list costs less than a get for each."""
        until = self.clock() + _HORIZON * self.pace.poll_seconds
        return len(self.due.overdue("instance", until, self.pace.share_from)) >= self.pace.share_from

    def _current(self, known: Listed | None, own_id: str, within: float) -> tuple[Listed, datetime | None]:
        """The list, and when this instance's step looks again: who read it reads it the next time, too."""
        others_look = self.clock() + timedelta(seconds=self.pace.poll_seconds)
        if known and self.clock() + _SKEW < self._again_at(known):
            return known, others_look
        listed, mine = self.listing.shared(within, known.began if known else None)
        if not mine:
            return listed, others_look
        self._tell(known, listed, own_id)
        return listed, self._again_at(listed) if self._waiting(listed) >= self.pace.share_from else None

    def _fresh(self, listed: Listed) -> bool:
        return self.clock() - listed.began < timedelta(seconds=self.pace.list_ttl)

    def _again_at(self, listed: Listed) -> datetime:
        return listed.began + timedelta(seconds=self.pace.pause(self._waiting(listed), listed.calls))

    def _waiting(self, listed: Listed) -> int:
        if self._counted is None or self._counted[0] != listed.began:
            self._counted = listed.began, crowd.on_their_way(listed.machines, self.deployment())
        return self._counted[1]

    def _tell(self, before: Listed | None, after: Listed, own_id: str) -> None:
        """Those whose machine is seen in another state look now: at this very list, each on its own."""
        if before is None:
            return
        news = crowd.news(before.machines, after.machines, self.deployment())
        for told, (instance_id, machine) in enumerate(news):
            if told >= _MOST_TOLD or self.time_left() < _SPARE_SECONDS:
                logger.warning("not all were told", told=told)
                return
            record = self.instances.get(instance_id)
            if record and record.machine_id == machine.id != own_id and record.next_check_at:
                self.nudge(record, record.next_check_at)
