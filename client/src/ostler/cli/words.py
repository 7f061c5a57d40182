"""Times, money and statuses as people read them."""

from __future__ import annotations

import re
from datetime import datetime, timezone
from decimal import Decimal, InvalidOperation
from typing import Any

# The status is always written out; the colour only helps the eye.
COLOURS = {
    "ready": "green", "running": "green", "failed": "red", "exited": "yellow", "migrating": "yellow",
    "stopped": "bright_black", "terminated": "bright_black", "deleting": "bright_black",
    "stopping": "cyan", "creating": "cyan", "starting": "cyan", "health_checking": "cyan",
}  # fmt: skip
DOING = {
    "creating": "a machine is being bought",
    "starting": "bought; on its way up",
    "running": "it runs",
    "health_checking": "it runs; the application inside is being asked",
    "ready": "the application inside answers",
    "stopping": "told to stop",
    "stopped": "stopped",
    "exited": "stopped by Novita",
    "migrating": "Novita moves it to another host",
    "failed": "it did not come up",
    "deleting": "told to go; Novita has not confirmed it yet",
    "terminated": "gone",
}
REASONS = {
    "OFFERED": "to be had",
    "NOT_AVAILABLE": "no room",
    "RESOURCE_CONSTRAINTS": "no room",
    "PRICE_CAP_EXCEEDED": "too dear",
    "BILLING_MODE_NOT_OFFERED": "not in this billing mode",
    "ROOTFS_SIZE_OUT_OF_BOUNDS": "not with such a disk",
    "NO_PRICE": "has no price",
    "UNKNOWN_CLUSTER": "not known",
}
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def seconds_of(text: str) -> int:
    """`90m`, `1h30m`, `45` (seconds)."""
    found = re.findall(r"(\d+)([smhd])", text) if re.fullmatch(r"(\d+[smhd])+", text) else [(text, "s")]
    total = sum(int(number) * _UNITS[unit] for number, unit in found) if found[0][0].isdecimal() else 0
    if not total:
        raise ValueError(f"{text!r} is no duration: write 90m, 8h, 3d or 1h30m")
    return total


def duration_of(seconds: int) -> str:
    """As the API writes it: in the largest unit that leaves nothing over."""
    for unit, size in (("d", 86_400), ("h", 3600), ("m", 60)):
        if seconds % size == 0:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


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
    return datetime.now(timezone.utc)  # noqa: UP017  # datetime.UTC is not in Python 3.10


def ago(text: str) -> float:
    return (now() - moment(text)).total_seconds()


def clock_time(text: str) -> str:
    """In UTC, to the second."""
    return f"{moment(text):%Y-%m-%d %H:%M:%SZ}"


def in_words(text: str) -> str:
    """A moment as distance: `in 2 h`, `5 min ago`."""
    seconds = ago(text)
    return f"{span(seconds)} ago" if seconds > 0 else f"in {span(seconds)}"


def usd(value: Any) -> str:
    """At least two decimals, at most four; what is no number is shown as it is."""
    try:
        amount = Decimal(str(value))
    except InvalidOperation:
        return str(value)
    text = f"{amount:.4f}"
    return text[:-2] if text.endswith("00") else text.rstrip("0") if text.endswith("0") else text


def per_hour(one: Any) -> str:
    """What an instance costs an hour now, as far as it is known."""
    if cost := one.get("cost"):
        return usd(cost["perHourUsd"])
    if "pricePerGpuHour" not in one:
        return "-"
    if one["status"] in ("stopped", "exited", "terminated"):
        return "0.00"
    return usd(Decimal(one["pricePerGpuHour"]) * one.get("gpuNum", 1))


def so_far(one: Any) -> str:
    cost = one.get("cost")
    return ("~" if cost.get("estimated") else "") + usd(cost["soFarUsd"]) if cost else "-"


def ends(one: Any) -> str:
    expiry = one.get("expiry") or {}
    found = [
        f"{word} {in_words(expiry[name])}"
        for name, word in (("stopAt", "stops"), ("deleteAt", "deleted"))
        if name in expiry
    ]
    return ", ".join(found) or "-"


def why(one: Any) -> str:
    """What it waits for or what went wrong, in the service's words."""
    if one.get("missingSince"):
        return f"Novita has not shown it for {span(ago(one['missingSince']))}"
    fault = one.get("error") or one.get("waitingFor")
    if not fault:
        return ""
    again = one.get("nextCheckAt") if not one.get("error") else None
    told = reasons((fault.get("details") or {}).get("regions")) or str(fault["message"]).rstrip(".")
    return f"{told}; next try {in_words(again)}" if again and ago(again) <= -0.5 else told


def reason(code: str) -> str:
    return REASONS.get(code, code.replace("_", " ").lower())


def reasons(regions: Any) -> str:
    """`no room in CN-HK-01, AS-SGP-02; too dear in US-CA-06`."""
    if not isinstance(regions, dict):
        return ""
    by_reason: dict[str, list[str]] = {}
    for region, code in regions.items():
        by_reason.setdefault(reason(str(code)), []).append(region)
    return "; ".join(f"{words} in {', '.join(where)}" for words, where in by_reason.items())
