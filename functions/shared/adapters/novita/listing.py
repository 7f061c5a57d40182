"""All pages of Novita's list, whether its pages are counted from 0 or from 1."""

from collections.abc import Callable
from dataclasses import dataclass

from functions.shared.domain.machine import Machine

# As few calls as can be: a list of 1,000 is two, and 500 machines of 16 kB are still an answer that is read.
LARGE_PAGE, SMALL_PAGE = 500, 100
MOST_PAGES = 1000
STALE_PAGES = 2  # in a row: there is nothing more


@dataclass(frozen=True)
class Page:
    machines: tuple[Machine, ...]
    entries: int  # unreadable ones too
    total: int | None


def every_page(read: Callable[[int], Page]) -> tuple[Machine, ...]:
    """Each machine once, as last seen. A list that shrank or grew between two pages is read once more."""
    found: dict[str, Machine] = {}
    if not _read_through(read, found):
        _read_through(read, found)
    return tuple(found.values())


def _read_through(read: Callable[[int], Page], found: dict[str, Machine]) -> bool:
    """Whether the list held still."""
    seen: set[str] = set()
    totals: set[int] = set()
    stale = 0
    for number in range(MOST_PAGES):
        page = read(number)
        new = {machine.id for machine in page.machines} - seen
        seen |= new
        found.update((machine.id, machine) for machine in page.machines)
        totals |= {page.total} if page.total is not None else set()
        # One page may repeat: page 1 what was answered for page 0, or any that new machines pushed back.
        stale = 0 if new else stale + 1
        at_the_end = stale and (page.entries == 0 or stale == STALE_PAGES)
        if (page.total is not None and len(seen) >= page.total) or (at_the_end and number > 0):
            break
    return len(totals) < 2
