"""Tables: columns that fit a terminal, tabs to a pipe."""

from __future__ import annotations

from shutil import get_terminal_size
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
    spare: Sequence[str] = (),
    numbers: Sequence[str] = (),
    colours: Sequence[tuple[int, str | None]] = (),
) -> list[str]:
    """The first row is the head. To a pipe: tabs, nothing cut or left out. To a terminal: what fits.

    `spare` names columns that may be left out, the first one first; `numbers` those that end at the right;
    `notes` go below their rows; `colours` are a column and a colour for each row.
    """
    if plain:
        return ["\t".join(row) for row in rows]
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
        lines.append(line if number else click.style(line, bold=True))
        if number and number <= len(notes) and notes[number - 1]:
            lines.append(click.style(_fit(f"  {notes[number - 1]}", room).rstrip(), dim=True))
    return lines


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
