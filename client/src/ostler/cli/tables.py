"""Tables: columns that fit a terminal, tabs to a pipe."""

from __future__ import annotations

from shutil import get_terminal_size
from textwrap import wrap
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Sequence

_GAP = 2
_NARROWEST = 8


def table(
    rows: Sequence[Sequence[str]],
    notes: Sequence[str] = (),
    *,
    plain: bool,
    head: bool = True,
    spare: Sequence[str] = (),
    numbers: Sequence[str] = (),
    colours: Sequence[tuple[int, str | None]] = (),
) -> list[str]:
    """To a pipe: tabs, nothing cut or left out. To a terminal: what fits.

    The first row is the head, if there is one;
    `spare` names columns that may be left out, the first one first; `numbers` those that end at the right;
    `notes` go below their rows; `colours` are a column and a colour for each row.
    """
    if plain:
        return ["\t".join(row) for row in rows]
    rows = _with_points_aligned(rows, numbers)
    room = get_terminal_size().columns
    shown = _columns_that_fit(rows, spare, room)
    widths = _widths(rows, shown, room)
    lines = []
    for number, row in enumerate(rows):
        cells = [
            _fit(row[column], width, right=rows[0][column] in numbers)
            for column, width in zip(shown, widths, strict=True)
        ]
        cells[-1] = cells[-1].rstrip()
        if number and number <= len(colours) and colours[number - 1][0] in shown:
            column, colour = colours[number - 1]
            cells[shown.index(column)] = click.style(cells[shown.index(column)], fg=colour)
        line = (" " * _GAP).join(cells).rstrip()
        lines.append(line if number or not head else click.style(line, bold=True))
        if number and number <= len(notes) and notes[number - 1]:
            lines.append(click.style(_fit(f"  {notes[number - 1]}", room).rstrip(), dim=True))
    return lines


def beside(head: str, text: str, *, plain: bool) -> str:
    """Both in one line; in a terminal too narrow for that, the text goes on below itself, by whole words."""
    if plain:
        return f"{head}{text}"
    indent = _cells(click.unstyle(head))
    room = max(_NARROWEST, get_terminal_size().columns - indent)
    lines = wrap(text, room, break_long_words=False, break_on_hyphens=False)
    return head + f"\n{' ' * indent}".join(lines)


def _with_points_aligned(rows: Sequence[Sequence[str]], numbers: Sequence[str]) -> list[list[str]]:
    """0.18 above 0.0015: the columns that end at the right, but for what has no point, and the head."""
    aligned = [list(row) for row in rows]
    for column in (rows[0].index(name) for name in numbers):
        most = max((len(row[column].partition(".")[2]) for row in rows[1:]), default=0)
        for row in aligned[1:]:
            whole, point, rest = row[column].partition(".")
            row[column] = f"{whole}{point or ' ' * bool(most)}{rest:{most}}"
    return aligned


def _columns_that_fit(rows: Sequence[Sequence[str]], spare: Sequence[str], room: int) -> list[int]:
    shown = list(range(len(rows[0])))
    leaving = [rows[0].index(name) for name in spare]
    while leaving and sum(_natural(rows, shown)) + _GAP * (len(shown) - 1) > room:
        shown.remove(leaving.pop(0))
    return shown


def _natural(rows: Sequence[Sequence[str]], shown: Sequence[int]) -> list[int]:
    return [max(_cells(row[column]) for row in rows) for column in shown]


def _widths(rows: Sequence[Sequence[str]], shown: Sequence[int], room: int) -> list[int]:
    widths = _natural(rows, shown)
    while sum(widths) + _GAP * (len(widths) - 1) > room and max(widths) > _NARROWEST:
        widths[widths.index(max(widths))] -= 1
    return widths


def _cells(text: str) -> int:
    """How many places it takes: some characters take two."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def _fit(text: str, width: int, *, right: bool = False) -> str:
    size = _cells(text)
    if size <= width:
        space = " " * (width - size)
        return space + text if right else text + space
    while _cells(text) > width - 1:
        text = text[:-1]
    return text + "…" + " " * (width - 1 - _cells(text))
