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
    "starting": "on its way up",
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
    "NOT_SOLD_IN_REGION": "not sold",
}
# What happened, where neither an error nor a reason says more.
HAPPENED = {
    "instance.creating": "a machine is looked for",
    "instance.starting": "a machine is on its way up",
    "instance.running": "it runs",
    "instance.health_checking": "the application inside is being asked",
    "instance.ready": "the application inside answers",
    "instance.stopping": "told to stop",
    "instance.stopped": "stopped",
    "instance.exited": "stopped by Novita",
    "instance.migrating": "Novita moves it to another host",
    "instance.deleting": "told to go",
    "instance.terminated": "gone",
    "instance.found": "Novita shows it again",
    "instance.expiring": "its time is nearly over",
    "instance.failed": "it failed",
    "startup.initiated": "a start was asked for",
    "startup.completed": "it came up",
    "recovery.started": "Novita took it away; it is being brought back",
    "recovery.completed": "it is back",
}
# What stopped or ended it, where nobody here asked for it at that moment.
ENDED_BY = {
    "lifetime": "its time was over",
    "idle": "nobody used it",
    "stopped_too_long": "it was stopped for too long",
    "budget": "a budget was spent",
    "reclaim": "Novita took it away",
    "failure": "it failed",
    "vanished": "Novita did not find it any more",
    "novita": "by somebody at Novita",
}
AT_REST = frozenset({"stopped", "exited", "terminated"})
UP = frozenset({"running", "health_checking", "ready"})
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
    """Two decimals, below a dollar up to four; what is no number is shown as it is."""
    try:
        amount = Decimal(str(value))
    except InvalidOperation:
        return str(value)
    if abs(amount) >= 1:
        return f"{amount:.2f}"
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


def so_far(one: Any, sign: str = "") -> str:
    """`~0.31`: the tilde says that it is estimated."""
    cost = one.get("cost")
    return ("~" if cost.get("estimated") else "") + sign + usd(cost["soFarUsd"]) if cost else "-"


def ends(one: Any) -> str:
    expiry = one.get("expiry") or {}
    found = [
        f"{word} {in_words(expiry[name])}"
        for name, word in (("stopAt", "stops"), ("deleteAt", "deleted"))
        if name in expiry
    ]
    if one.get("givesUpAt") and one["status"] in ("creating", "starting", "health_checking"):
        found.append(f"gives up {in_words(one['givesUpAt'])}")
    return ", ".join(found) or "-"


def why(one: Any) -> str:
    """What it waits for or what went wrong, in the service's words."""
    if one.get("missingSince"):
        return f"Novita has not shown it for {span(ago(one['missingSince']))}"
    fault = one.get("error") or one.get("waitingFor")
    if recovering := one.get("recovering"):
        gone = f"Novita took it away {in_words(recovering['since'])}; it is being brought back"
        return f"{gone}: {fault['message'].rstrip('.')}" if fault else gone
    if not fault:
        return ENDED_BY.get(str(one.get("endedBy")), "") if one["status"] in AT_REST else ""
    again = one.get("nextCheckAt") if not one.get("error") else None
    told = reasons((fault.get("details") or {}).get("regions")) or str(fault["message"]).rstrip(".")
    return f"{told}; next try {in_words(again)}" if again and ago(again) <= -0.5 else told


def happened(one: Any) -> str:
    """What an event says, in one line."""
    if fault := one.get("error"):
        return str(fault["message"])
    data = one.get("data") or {}
    if changed := data.get("changed"):
        return ", ".join(_changed(str(name), (data.get("changes") or {}).get(name)) for name in changed)
    why = str(one.get("reason") or "")
    if one["type"] == "instance.exited" and why.startswith("reclaimed"):
        return "Novita took it away"
    return "; ".join(part for part in (HAPPENED.get(one["type"], ""), why) if part)


def _changed(name: str, change: Any) -> str:
    if not isinstance(change, dict) or any(isinstance(value, dict) for value in change.values()):
        return f"{name} changed"
    if change.get("to") is None:
        return f"{name} removed"
    before = "" if change.get("from") is None else f"{_yes_or_no(change['from'])} to "
    return f"{name} {before}{_yes_or_no(change['to'])}"


def _yes_or_no(value: Any) -> Any:
    return ("no", "yes")[value] if isinstance(value, bool) else value


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
