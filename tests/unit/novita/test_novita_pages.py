"""Every machine of the list once, however Novita counts its pages."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.shared.domain.instance.machine import Machine
from functions.shared.novita.client import ListPage, every_page


def machines(count: int) -> list[Machine]:
    return [Machine(id=f"m{number}", name="", status="running") for number in range(count)]


def novita(
    held: Callable[[int], list[Machine]],
    *,
    first: int,
    size: int,
    with_total: bool,
    zero: str,
    calls: list[int],
) -> Callable[[int], ListPage[Machine]]:
    def read(number: int) -> ListPage[Machine]:
        calls.append(number)
        assert len(calls) < 100, "it never ends"
        everything = held(len(calls))
        index = number - first
        if index < 0:
            index = 0 if zero == "first" else 10**6
        shown = tuple(everything[index * size : (index + 1) * size])
        return ListPage(shown, len(shown), len(everything) if with_total else None)

    return read


@given(
    count=st.integers(0, 35),
    size=st.integers(1, 12),
    first=st.sampled_from([0, 1]),
    zero=st.sampled_from(["first", "empty"]),
    with_total=st.booleans(),
)
def test_all_pages_are_read_whatever_the_first_is_called(
    count: int, size: int, first: int, zero: str, with_total: bool
) -> None:
    everything = machines(count)
    calls: list[int] = []
    read = novita(lambda _: everything, first=first, size=size, with_total=with_total, zero=zero, calls=calls)

    assert every_page(read) == tuple(everything)
    assert len(calls) <= count // size + 3


@pytest.mark.parametrize("count", [0, 1, 100])
def test_with_a_total_one_page_is_one_call(count: int) -> None:
    calls: list[int] = []
    everything = machines(count)
    read = novita(lambda _: everything, first=0, size=100, with_total=True, zero="empty", calls=calls)

    every_page(read)

    assert calls == [0]


@given(
    count=st.integers(2, 35),
    size=st.integers(1, 12),
    first=st.sampled_from([0, 1]),
    after=st.integers(1, 5),
    gone=st.integers(0, 34),
)
def test_a_machine_that_vanishes_between_pages_hides_no_other(
    count: int, size: int, first: int, after: int, gone: int
) -> None:
    everything = machines(count)
    left = [machine for machine in everything if machine.id != f"m{gone}"]
    read = novita(
        lambda call: left if call > after else everything,
        first=first,
        size=size,
        with_total=True,
        zero="first",
        calls=[],
    )

    assert {machine.id for machine in every_page(read)} >= {machine.id for machine in left}


@given(
    count=st.integers(1, 30),
    size=st.integers(1, 12),
    after=st.integers(1, 5),
    with_total=st.booleans(),
    end=st.booleans(),
)
def test_a_machine_that_appears_between_pages_doubles_and_hides_none(
    count: int, size: int, after: int, with_total: bool, end: bool
) -> None:
    everything = machines(count)
    new = Machine(id="new", name="", status="toCreate")
    more = [*everything, new] if end else [new, *everything]
    read = novita(
        lambda call: more if call > after else everything,
        first=0,
        size=size,
        with_total=with_total,
        zero="first",
        calls=[],
    )

    found = [machine.id for machine in every_page(read)]

    assert len(found) == len(set(found))
    assert set(found) >= {machine.id for machine in everything}


def test_a_server_that_knows_no_pages_is_asked_three_times_at_most() -> None:
    calls: list[int] = []
    shown = tuple(machines(5))

    def read(number: int) -> ListPage[Machine]:
        calls.append(number)
        return ListPage(shown, 5, 12)

    assert every_page(read) == shown
    assert len(calls) == 3
