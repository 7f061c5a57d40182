"""Times, money and tables as people read them."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

COLOURS = {
    "ready": "green", "running": "green", "failed": "red", "exited": "yellow", "stopped": "bright_black",
    "terminated": "bright_black", "creating": "cyan", "starting": "cyan", "health_checking": "cyan",
}  # fmt: skip
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def seconds_of(text: str) -> int:
    """`90m`, `1h30m`, `45` (seconds)."""
    if text.isdecimal() and int(text) > 0:
        return int(text)
    if not re.fullmatch(r"(\d+[smhd])+", text):
        raise ValueError(f"{text!r} is no duration: write 90m, 8h, 3d or 1h30m")
    return sum(int(number) * _UNITS[unit] for number, unit in re.findall(r"(\d+)([smhd])", text))


def span(seconds: float) -> str:
    """The two largest units at most: `2 min 4 s`, `3 h`."""
    left = round(abs(seconds))
    parts: list[str] = []
    for name, size in (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1)):
        if (many := left // size) and len(parts) < 2:
            parts.append(f"{many} {name}")
            left -= many * size
        elif parts:
            break
    return " ".join(parts) or "0 s"


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def now() -> datetime:
    return datetime.now(UTC)


def ago(text: str) -> float:
    return (now() - moment(text)).total_seconds()


def per_hour(one: Any) -> str:
    if cost := one.get("cost"):
        return str(cost["perHourUsd"])
    return str(one.get("pricePerGpuHour", "-"))


def ends(one: Any) -> str:
    expiry = one.get("expiry") or {}
    for name, word in (("stopAt", "stops"), ("deleteAt", "is deleted")):
        if name in expiry:
            return f"{word} in {span(-ago(expiry[name]))}"
    return "-"


def why(one: Any) -> str:
    """What it waits for or what went wrong, in the service's words."""
    fault = one.get("error") or one.get("waitingFor")
    if one.get("missingSince"):
        return f"Novita has not shown it for {span(ago(one['missingSince']))}"
    return str(fault["message"]) if fault else ""


def table(rows: Sequence[Sequence[str]], notes: Sequence[str] = (), *, plain: bool) -> list[str]:
    """The first row is the head. To a pipe: tabs, nothing cut. To a terminal: columns that fit it."""
    if plain:
        return ["\t".join(row) for row in rows]
    widths = [max(len(row[n]) for row in rows) for n in range(len(rows[0]))]
    room = get_terminal_size().columns - 2 * (len(widths) - 1)
    while sum(widths) > room and max(widths) > 8:
        widths[widths.index(max(widths))] -= 1
    lines = []
    for number, row in enumerate(rows):
        cells = (_fit(cell, width) for cell, width in zip(row, widths, strict=True))
        lines.append("  ".join(cells).rstrip())
        if number and number <= len(notes) and notes[number - 1]:
            indent = widths[0] + 2
            lines.append(" " * indent + _fit(notes[number - 1], max(20, room - indent)).rstrip())
    return lines


def _fit(text: str, width: int) -> str:
    return text.ljust(width) if len(text) <= width else text[: width - 1] + "…"
