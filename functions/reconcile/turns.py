"""What not every sweep does: a read each minute costs money, also where there is nothing to read."""

from datetime import datetime

_SWEEP = 60  # seconds from one to the next


def is_turn(now: datetime, every: int) -> bool:
    """Whether it is the turn of this minute's sweep, of so many."""
    return int(now.timestamp()) // _SWEEP % every == 0
