"""A walk through Novita's list comes to its end, whatever way Novita counts its pages, and not before."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from functions.shared.domain.instance.list_walk import Walk, Walks, worth_a_look
from functions.shared.domain.instance.record import Action
from functions.shared.domain.instance.status import Status
from tests.unit.builders import NOW, OWN, ago, new_instance, new_task

SIZE = 10
Page = tuple[list[int], int | None]  # what it shows, and the total


def counted_from(first: int, *, total: bool, clamps: bool) -> Callable[[int, int], Page]:
    """Counted from 0 or 1; one that clamps answers the last page for any beyond."""

    def page(number: int, many: int) -> Page:
        last = max(0, (many - 1) // SIZE)
        place = max(number - first, 0)
        place = min(place, last) if clamps else place
        return list(range(many))[place * SIZE : (place + 1) * SIZE], many if total else None

    return page


@pytest.mark.parametrize("many", [1, 9, 10, 11, 20, 25, 40, 41])
@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("total", [True, False])
@pytest.mark.parametrize("clamps", [True, False])
def test_it_sees_every_machine_and_ends(many: int, first: int, total: bool, clamps: bool) -> None:
    page, walk = counted_from(first, total=total, clamps=clamps), Walk(NOW, SIZE)
    seen: set[int] = set()

    while not walk.ended:
        number = walk.page
        shown, told = page(number, many)
        walk = walk.read(number, len(shown), told, new=bool(set(shown) - seen))
        seen |= set(shown)
        assert number <= many // SIZE + 3

    assert seen == set(range(many))


def test_an_empty_page_before_the_total_is_not_the_end() -> None:
    walk = Walk(NOW, SIZE).read(0, 10, 45, new=True).read(1, 10, 45, new=True)

    assert not walk.read(2, 0, 45, new=False).ended
    assert walk.read(2, 0, None, new=False).ended


def test_one_page_is_read_again_by_the_next_sweep() -> None:
    assert [Walk(NOW, SIZE, page=number).starts_at() for number in (0, 1, 5)] == [0, 0, 4]


def test_what_began_long_ago_tells_nothing() -> None:
    walks = Walks(Walk(ago(60), SIZE), Walk(ago(3 * 3600 + 1), SIZE, ended=True), version=4)

    assert walks.at(NOW) == Walks(walks.now, None, version=4)
    assert walks.at(NOW + timedelta(hours=3)) == Walks(None, None, version=4)


def test_a_look_is_worth_it_where_nobody_has_looked_since() -> None:
    since = ago(600)
    quiet = {"next_check_at": None, "seen_at": ago(900)}

    assert worth_a_look(new_instance(Status.RUNNING, **quiet), since)
    assert not worth_a_look(new_instance(Status.RUNNING, **quiet | {"seen_at": ago(500)}), since)
    assert not worth_a_look(new_instance(Status.RUNNING, **quiet | {"needs_look": True}), since)
    assert not worth_a_look(new_instance(Status.STARTING, **quiet), since)
    leaving = new_instance(Status.DELETING, **quiet | {"tasks": (new_task(Action.DELETE, OWN),)})
    assert not worth_a_look(leaving, since)
