"""All pages of Novita's list, whether its pages are counted from 0 or from 1."""

from collections.abc import Callable
from dataclasses import dataclass

from functions.shared.domain.machine import Machine

PAGE_SIZE = 100
MOST_PAGES = 1000


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
    for number in range(MOST_PAGES):
        page = read(number)
        before = len(seen)
        seen.update(machine.id for machine in page.machines)
        found.update((machine.id, machine) for machine in page.machines)
        totals |= {page.total} if page.total is not None else set()
        if page.total is not None and len(seen) >= page.total:
            break
        if len(seen) == before and not _may_be_the_first(number, page):
            break
    return len(totals) < 2


def _may_be_the_first(number: int, page: Page) -> bool:
    """Page 0 may not exist, and page 1 may be what was answered for page 0: more can follow either."""
    return number == 0 or (number == 1 and page.entries > 0)
