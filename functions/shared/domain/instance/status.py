"""The statuses of an instance, and the one table of which may follow which."""

from enum import StrEnum


class Status(StrEnum):
    CREATING = "creating"
    STARTING = "starting"
    RUNNING = "running"
    HEALTH_CHECKING = "health_checking"
    READY = "ready"
    STOPPING = "stopping"
    STOPPED = "stopped"
    EXITED = "exited"
    MIGRATING = "migrating"
    FAILED = "failed"
    DELETING = "deleting"
    TERMINATED = "terminated"


MEANING: dict[Status, str] = {
    Status.CREATING: "accepted; a machine is being bought",
    Status.STARTING: "bought or told to start; on its way up",
    Status.RUNNING: "Novita says it runs, and its endpoints are known",
    Status.HEALTH_CHECKING: "running; the application inside is being asked",
    Status.READY: "the application inside answered",
    Status.STOPPING: "told to stop; Novita has not confirmed it yet",
    Status.STOPPED: "stopped because somebody asked here",
    Status.EXITED: "stopped or reclaimed by Novita itself",
    Status.MIGRATING: "Novita is moving it to another host",
    Status.FAILED: "it did not come up; `error` says why, `cleanup` what is still to be given back",
    Status.DELETING: "told to go; not confirmed yet, or a purchase may still turn up",
    Status.TERMINATED: "gone, confirmed by Novita; or not found for VANISHED_AFTER; or released",
}

_LIVE_ENDS = {Status.EXITED, Status.MIGRATING, Status.STOPPING, Status.DELETING}
# A machine that was off can be seen on again: somebody started it at Novita's console.
_OFF_ENDS = {Status.STARTING, Status.RUNNING, Status.MIGRATING, Status.DELETING, Status.TERMINATED}

# A machine that vanishes before it was of use has failed; one that vanishes later, or was kept after a
# failure, is terminated.
NEXT: dict[Status, frozenset[Status]] = {
    Status.CREATING: frozenset({Status.STARTING, Status.FAILED, Status.DELETING}),
    # Stopped again, where Novita had no room for its start.
    Status.STARTING: frozenset({Status.RUNNING, Status.FAILED, Status.STOPPED} | _LIVE_ENDS),
    Status.RUNNING: frozenset(
        {Status.HEALTH_CHECKING, Status.READY, Status.STARTING, Status.TERMINATED} | _LIVE_ENDS
    ),
    Status.HEALTH_CHECKING: frozenset({Status.READY, Status.STARTING, Status.FAILED} | _LIVE_ENDS),
    Status.READY: frozenset({Status.STARTING, Status.TERMINATED} | _LIVE_ENDS),
    Status.STOPPING: frozenset({Status.STOPPED, Status.DELETING, Status.TERMINATED}),
    Status.STOPPED: frozenset(_OFF_ENDS),
    # Replaced by another machine; or stopped while it was to be brought back.
    Status.EXITED: frozenset({Status.CREATING, Status.STOPPING} | _OFF_ENDS),
    Status.MIGRATING: frozenset({Status.RUNNING, Status.FAILED, Status.TERMINATED} | _LIVE_ENDS)
    - {Status.MIGRATING},
    Status.FAILED: frozenset(
        {Status.CREATING, Status.STARTING, Status.STOPPING, Status.DELETING, Status.TERMINATED}
    ),
    Status.DELETING: frozenset({Status.TERMINATED}),
    Status.TERMINATED: frozenset(),
}

# What each status counts as. Whatever asks for a group of statuses asks here.
OFF = frozenset({Status.STOPPED, Status.EXITED})
UP = frozenset({Status.RUNNING, Status.HEALTH_CHECKING, Status.READY})
COMING_UP = frozenset({Status.STARTING, Status.MIGRATING})
OVER = frozenset({Status.DELETING, Status.FAILED, Status.TERMINATED})
# Nothing is due for these on their own account; a clean-up still may be.
AT_REST = frozenset({Status.RUNNING, Status.READY, Status.FAILED, Status.TERMINATED}) | OFF
# Novita is asked in every step how far the machine is.
ON_THE_MOVE = COMING_UP | {Status.STOPPING}
# A boot deadline ends these, after a look that was made later than the deadline.
WITH_BOOT_DEADLINE = COMING_UP | {Status.HEALTH_CHECKING}
# There is no machine yet, or none any more.
WITHOUT_MACHINE = frozenset({Status.CREATING, Status.TERMINATED})
# Our call is on its way, so that Novita may show what was before it.
BEING_ENDED = frozenset({Status.STOPPING, Status.DELETING})
# What is exited is only stopped while it is to be brought back.
STOPPABLE = frozenset(status for status, following in NEXT.items() if Status.STOPPING in following) - {
    Status.EXITED
}
RESTARTABLE = UP
STARTABLE = frozenset(status for status, following in NEXT.items() if Status.STARTING in following) - (
    UP | {Status.CREATING}
)
