"""How long to wait before trying again."""

import random
from collections.abc import Callable


def retry_wait(
    attempt: int, *, base: float, cap: float, chance: Callable[[], float] = random.random
) -> float:
    """After the given failed attempt (from 1): eightfold each time, and up to a quarter more or less, but
    never more than the cap."""
    wait = min(cap, base * 8.0 ** min(attempt - 1, 100))
    return min(cap, wait * (0.75 + chance() / 2))
