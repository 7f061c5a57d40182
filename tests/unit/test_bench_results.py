"""The table of what was measured can be read again, and tells what has changed."""

import sys
from collections.abc import Iterator
from dataclasses import replace
from types import ModuleType

import pytest

from bench.groups import measured
from bench.results import changes, merged, read, written
from bench.table import Row, half_spread

COLD = Row("cold", "api", 1.204, "times", 1.25, anchor="a bare handler", spread=0.05)
CREATES = Row("burst", "accepted", 12345.0, "a second", 9000, least=True)
FREE = Row("bill", "a thousand lives", 0.3521, "USD")
ACCEPTED = Row("burst", "without a bound", 187.7, "creates", least=True, spread=21.55)
PART = Row("cold", "api: importing pydantic", 40.0, "ms", anchor="38 bare", is_part=True)
ROWS = [FREE, CREATES, COLD]


def test_what_is_written_can_be_read_again() -> None:
    assert read(written(ROWS)) == ROWS


def test_what_a_row_is_made_up_of_stands_apart() -> None:
    text = written([COLD, PART, FREE])

    assert read(text) == [COLD, FREE, PART]
    assert text.index("## Where it goes") < text.index("importing pydantic")


def test_a_bound_that_does_not_hold_says_what_would_have_to_be_given_up() -> None:
    missed = replace(COLD, value=1.4, given_up="validation: of bodies")

    assert "- **cold: api**: validation: of bodies" in written([missed])
    assert read(written([missed, PART])) == [missed, PART]
    assert "validation" not in written([replace(missed, value=1.2)])


def test_a_bound_that_does_not_hold_says_no() -> None:
    broken = replace(COLD, value=1.26)

    assert "| NO | cold | api | 1.26 |" in written([broken])
    assert "| ok | cold | api |" in written([COLD])
    assert "|  | bill | a thousand lives |" in written([FREE])


def test_groups_that_were_not_measured_are_kept_and_rows_that_are_no_more_are_not() -> None:
    now = [replace(COLD, value=1.1), replace(COLD, name="create", value=1.2)]

    assert merged([*ROWS, replace(COLD, name="gone")], now) == [FREE, CREATES, *now]


def test_better_and_worse_are_told_beyond_the_spreads_of_both_runs() -> None:
    slower = replace(COLD, value=1.32)
    fewer = replace(CREATES, value=12000.0)

    assert list(changes(ROWS, [replace(COLD, value=1.3), FREE])) == []
    assert list(changes(ROWS, [slower])) == ["worse  cold: api: 1.204 → 1.32 times"]
    assert list(changes(ROWS, [fewer])) == ["worse  burst: accepted: 12,345 → 12,000 a second"]
    assert list(changes([slower, fewer], ROWS)) == [
        "better burst: accepted: 12,000 → 12,345 a second",
        "better cold: api: 1.32 → 1.204 times",
    ]


def test_more_is_better_where_it_is_wanted_also_without_a_bound() -> None:
    before = read(written([ACCEPTED]))

    assert list(changes(before, [replace(ACCEPTED, value=250.0)])) == [
        "better burst: without a bound: 187.7 → 250 creates"
    ]
    assert list(changes(before, [replace(ACCEPTED, value=140.0)])) == [
        "worse  burst: without a bound: 187.7 → 140 creates"
    ]


def test_a_group_has_rows_of_its_own_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def rows() -> Iterator[Row]:
        yield COLD

    module = ModuleType("bench.bill")
    module.rows = rows  # type: ignore[attr-defined]  # what a group is
    monkeypatch.setitem(sys.modules, "bench.bill", module)

    with pytest.raises(ValueError, match="bill has a row of cold"):
        measured("bill")


def test_the_spread_is_half_of_where_the_middle_half_lies() -> None:
    assert half_spread([1, 2, 3, 4, 5, 6, 7]) == 2
