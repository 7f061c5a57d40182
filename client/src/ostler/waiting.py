"""Waiting for an instance: what it waits for, in words of a person, and what ends the wait."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ostler.errors import ApiError, InstanceFailed, OstlerError, Unavailable, Unreachable, WaitTimeout

if TYPE_CHECKING:
    from collections.abc import Callable

    from ostler.client import Ostler
    from ostler.models import Fault, Instance

_SHORTEST_PAUSE = 0.5
_SHORTEST_LOOK = 1.0  # an answer needs a moment, also where hardly any time is left

# What can be waited for: the statuses that are it, and those from which it does not come by itself.
GOALS: dict[str, tuple[frozenset[str], frozenset[str]]] = {
    "up": (
        frozenset({"ready"}),
        frozenset({"failed", "exited", "stopped", "stopping", "deleting", "terminated"}),
    ),
    "running": (
        frozenset({"running", "health_checking", "ready"}),
        frozenset({"failed", "exited", "stopped", "stopping", "deleting", "terminated"}),
    ),
    "ready": (
        frozenset({"ready"}),
        frozenset({"failed", "exited", "stopped", "stopping", "deleting", "terminated"}),
    ),
    "stopped": (frozenset({"stopped", "exited"}), frozenset({"failed", "deleting", "terminated"})),
    "gone": (frozenset({"terminated"}), frozenset()),
}


@dataclass(frozen=True)
class Progress:
    """What a look showed; `problem` where there was no answer, and `instance` is then the last one seen."""

    wanted: str
    seconds: float
    instance: Instance | None = None
    problem: OstlerError | None = None

    @property
    def waiting_for(self) -> str:
        """Why it is not there yet, as far as the service says; empty if there is no more to say."""
        fault = self.instance.get("waitingFor") if self.instance else None
        return fault["message"] if fault else ""


def wait_until(
    client: Ostler,
    instance_id: str,
    wanted: str = "up",
    *,
    timeout: float | None = None,
    interval: float = 2.0,
    on_progress: Callable[[Progress], None] | None = None,
) -> Instance:
    """Look until it is so. A lost connection or a service that is down for a moment only delays it."""
    goal, dead_ends = GOALS[wanted]
    clock, sleep = client.transport.clock, client.transport.sleep
    began, seen = clock(), None
    while True:
        problem: OstlerError | None = None
        # What is quick is noticed quickly; what takes minutes is not asked for every moment.
        pause = min(interval, max(_SHORTEST_PAUSE, (clock() - began) / 5))
        left = None if timeout is None else max(_SHORTEST_LOOK, timeout - (clock() - began))
        try:
            seen = client.get(instance_id, retry_for=0, timeout=left)
            if not _lost(seen):
                if _reached(client, seen, wanted, goal, left):
                    return seen
                if seen["status"] in dead_ends:
                    raise InstanceFailed(seen, wanted, _why(client, seen, left))
        except (Unreachable, Unavailable) as error:
            problem = error
            if isinstance(error, ApiError) and error.retry_after:
                pause = min(max(interval, error.retry_after), 60.0)
        seconds = clock() - began
        if on_progress:
            on_progress(Progress(wanted, seconds, seen, problem))
        if timeout is not None and seconds + pause > timeout:
            if seconds >= timeout:
                raise WaitTimeout(instance_id, wanted, timeout, seen)
            pause = max(0.0, timeout - seconds)
        sleep(pause)


def _lost(seen: Instance) -> bool:
    """Novita took its machine away, and it is being brought back: the status is of what is gone."""
    return "recovering" in seen and (seen["status"] == "exited" or "missingSince" in seen)


def _why(client: Ostler, seen: Instance, seconds: float | None) -> Fault | None:
    """What a start or restart failed with, after which the instance itself is as it was before."""
    operation = seen.get("operationId")
    if not operation or seen.get("error") or seen["status"] not in ("stopped", "exited"):
        return None
    with suppress(OstlerError):
        return client.operation(operation, retry_for=0, timeout=seconds).get("error")
    return None


def _reached(
    client: Ostler, seen: Instance, wanted: str, goal: frozenset[str], seconds: float | None
) -> bool:
    if seen["status"] in goal:
        return True
    if wanted != "up" or seen["status"] != "running" or "readyAt" not in seen:
        return False
    # Without a health check `running` is the end of it, but a start or restart may be about to check.
    operation = seen.get("operationId")
    if not operation:
        return True
    return client.operation(operation, retry_for=0, timeout=seconds)["status"] in ("completed", "failed")
