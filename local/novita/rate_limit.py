"""Novita's rate limit: so many calls in any 60 seconds of the simulator's time."""

import math
from collections import deque
from dataclasses import dataclass, field

from local.novita.errors import ApiError

WINDOW_SECONDS = 60


@dataclass
class RateLimiter:
    taken: deque[float] = field(default_factory=deque)

    def take(self, now: float, per_minute: int, say_when: bool) -> None:
        """Refused calls do not count against the limit."""
        if per_minute == 0:
            return
        while self.taken and not now - WINDOW_SECONDS < self.taken[0] <= now:
            self.taken.popleft()
        if len(self.taken) >= per_minute:
            wait = max(math.ceil(self.taken[0] + WINDOW_SECONDS - now), 1)
            raise ApiError("RATE_LIMIT_EXCEEDED", "rate limit exceeded", wait if say_when else None)
        self.taken.append(now)
