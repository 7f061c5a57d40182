"""`bench/RESULTS.md`: every row that was measured, beside its bound; read again to say what has changed."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from bench.table import Row

RESULTS = Path(__file__).with_name("RESULTS.md")
HEADER = ("", "group", "measured", "value", "unit", "bound", "spread", "beside")
INTRODUCTION = """\
# What was measured

Written by `make bench`, never by hand: ratios and counts, which say the same on another machine. NO is a
bound that does not hold. The spread is how far a value moves within one run; what moved by more than both
runs' spreads is better or worse.
"""
GIVEN_UP = "## What would have to be given up for the bounds that do not hold"
PARTS = """\
## Where it goes

What the times and bills above are made up of. Times are those of this run's machine: their shares say the
same on another one, they do not.
"""
_GIVEN_UP = re.compile(r"- \*\*(.+?): (.+)\*\*: (.+)")


def number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def line(row: Row) -> str:
    verdict = "" if row.bound is None else "ok" if row.holds else "NO"
    bound = "" if row.bound is None else f"{'≥' if row.least else '≤'} {number(row.bound)}"
    spread = number(row.spread) if row.spread else ""
    cells = (verdict, row.group, row.name, number(row.value), row.unit, bound, spread, row.anchor)
    return f"| {' | '.join(cells)} |"


def written(rows: Iterable[Row]) -> str:
    all_of_them = list(rows)
    sections = [INTRODUCTION, _table(row for row in all_of_them if not row.is_part)]
    missed = [row for row in all_of_them if not row.holds and row.given_up]
    if missed:
        reasons = [f"- **{row.group}: {row.name}**: {row.given_up}" for row in missed]
        sections += [f"{GIVEN_UP}\n", "\n".join(reasons) + "\n"]
    parts = [row for row in all_of_them if row.is_part]
    if parts:
        sections += [PARTS, _table(parts)]
    return "\n".join(sections)


def _table(rows: Iterable[Row]) -> str:
    lines = [f"| {' | '.join(HEADER)} |", "|---|---|---|---:|---|---:|---:|---|", *map(line, rows)]
    return "\n".join(lines) + "\n"


def read(text: str) -> list[Row]:
    """As far as it is written: of a row without a bound it is not known whether more is better."""
    whole, _, parts = text.partition(PARTS)
    given_up = {(group, name): reason for group, name, reason in _GIVEN_UP.findall(whole)}
    rows = [replace(row, given_up=given_up.get((row.group, row.name), "")) for row in _rows(whole)]
    return [*rows, *(replace(row, is_part=True) for row in _rows(parts))]


def _rows(text: str) -> Iterator[Row]:
    lines = [one for one in text.splitlines() if one.startswith("|")]
    return (_row([cell.strip() for cell in one.strip("|").split("|")]) for one in lines[2:])


def _row(cells: list[str]) -> Row:
    _, group, name, value, unit, bound, spread, anchor = cells
    least, most = bound.partition(" ")[::2]
    return Row(
        group,
        name,
        _read_number(value),
        unit,
        _read_number(most) if bound else None,
        least=least == "≥",
        anchor=anchor,
        spread=_read_number(spread) if spread else 0.0,
    )


def _read_number(text: str) -> float:
    return float(text.replace(",", ""))


def merged(before: Sequence[Row], now: Sequence[Row]) -> list[Row]:
    """Groups that were not measured stay as they are."""
    measured = {row.group for row in now}
    kept = [row for row in before if row.group not in measured]
    return sorted([*kept, *now], key=lambda row: row.group)  # stable: within a group as it was measured


def changes(before: Iterable[Row], now: Iterable[Row]) -> Iterator[str]:
    """What is better or worse by more than both runs moved by themselves."""
    known = {(row.group, row.name): row for row in before}
    for row in (_rounded(row) for row in now if not row.is_part):
        old = known.get((row.group, row.name))
        if old is None or abs(row.value - old.value) <= old.spread + row.spread:
            continue
        better = (row.value > old.value) == row.least
        verdict = "better" if better else "worse"
        yield f"{verdict:<7}{row.group}: {row.name}: {number(old.value)} → {number(row.value)} {row.unit}"


def _rounded(row: Row) -> Row:
    """As the one that was read; but which direction is better only the row itself knows."""
    value, spread = (_read_number(number(one)) for one in (row.value, row.spread))
    return replace(row, value=value, spread=spread)
