"""`bench/RESULTS.md`: every row that was measured, beside its bound; read again to say what has changed."""

from collections.abc import Iterable, Iterator, Sequence
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


def number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def line(row: Row) -> str:
    verdict = "" if row.bound is None else "ok" if row.holds else "NO"
    bound = "" if row.bound is None else f"{'≥' if row.least else '≤'} {number(row.bound)}"
    spread = number(row.spread) if row.spread else ""
    cells = (verdict, row.group, row.name, number(row.value), row.unit, bound, spread, row.anchor)
    return f"| {' | '.join(cells)} |"


def written(rows: Iterable[Row]) -> str:
    table = [f"| {' | '.join(HEADER)} |", "|---|---|---|---:|---|---:|---:|---|", *map(line, rows)]
    return INTRODUCTION + "\n" + "\n".join(table) + "\n"


def read(text: str) -> list[Row]:
    lines = [one for one in text.splitlines() if one.startswith("|")]
    return [_row([cell.strip() for cell in one.strip("|").split("|")]) for one in lines[2:]]


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
    for row in read(written(now)):  # rounded as the other is
        old = known.get((row.group, row.name))
        if old is None or abs(row.value - old.value) <= old.spread + row.spread:
            continue
        better = (row.value > old.value) == row.least
        verdict = "better" if better else "worse"
        yield f"{verdict:<7}{row.group}: {row.name}: {number(old.value)} → {number(row.value)} {row.unit}"
