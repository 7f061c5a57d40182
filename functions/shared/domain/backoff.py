"""How long to wait before trying again."""

import random
from collections.abc import Callable


def retry_wait(
    attempt: int, *, base: float, cap: float, chance: Callable[[], float] = random.random
) -> float:
    """After the given failed attempt (from 1): eightfold each time, and up to a quarter more or less."""
    return min(cap, base * 8.0 ** (attempt - 1)) * (0.75 + chance() / 2)
