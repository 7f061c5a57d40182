"""Hooks of schemathesis: what there is, in place of what is made up and cannot be there.

Only what already looks as it should is replaced, so that bad input stays bad.
"""

import json
import os
import re
from datetime import date, timedelta
from typing import Any
from uuid import uuid4

import schemathesis
from hypothesis import strategies
from schemathesis.generation.meta import CoverageScenario

KNOWN: dict[str, Any] = json.loads(os.environ["OSTLER_KNOWN"])
_ID = re.compile(r"(inst|op)_[0-9A-HJKMNP-TV-Z]{26}|dlv_[0-9A-HJKMNP-TV-Z]{26}_[0-9]{6}(_op)?")
_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T")
_CURSOR = re.compile(r"[A-Za-z0-9_-]{24,2000}")
_REGION = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,63}")
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
# How far apart they may be is more than a schema can tell.
_DAYS = {"from": date.today() - timedelta(days=30), "to": date.today()}  # noqa: DTZ011  # any will do

# Which addresses are public is more than a schema can tell.
schemathesis.openapi.format("uri", strategies.just(KNOWN["url"]))


@schemathesis.hook
def before_call(_: Any, case: Any, __: Any) -> None:
    change = "delete" if case.method == "DELETE" else case.operation.path.rpartition("/")[2]
    real = {**KNOWN["ids"], "instance_id": KNOWN["by_change"].get(change, KNOWN["ids"]["instance_id"])}
    for name, value in (case.path_parameters or {}).items():
        shaped = name in ("template_id", "letter_id") or _ID.fullmatch(str(value))
        if name in real and shaped and not _made_here(case):
            case.path_parameters[name] = real[name]
    query = case.query or {}
    if _ID.fullmatch(str(query.get("instanceId"))):
        query["instanceId"] = KNOWN["ids"]["instance_id"]
    if _CURSOR.fullmatch(str(query.get("cursor"))):
        del query["cursor"]  # one that nobody has made
    for name, day in _DAYS.items():
        if _DAY.fullmatch(str(query.get(name))):
            query[name] = day.isoformat()
    headers = case.headers or {}
    if 0 < len(str(headers.get("idempotency-key", ""))) <= 255 and not _lacks_a_header(case):
        headers["idempotency-key"] = uuid4().hex  # the same for two bodies is refused
    if isinstance(case.body, dict):
        _mend(case.body, change)


def _lacks_a_header(case: Any) -> bool:
    """On purpose: one whose headers are touched would be given it again."""
    data = case.meta.phase.data if case.meta else None
    return getattr(data, "scenario", None) == CoverageScenario.MISSING_PARAMETER


def _made_here(case: Any) -> bool:
    """By a link: from an answer of this service."""
    return case.meta is not None and case.meta.phase.name.value == "stateful"


def _is_region(value: Any) -> bool:
    return isinstance(value, str) and bool(_REGION.fullmatch(value))


def _mend(body: dict[str, Any], change: str) -> None:
    known = {
        "productName": "RTX 4090 24GB",
        "templateId": "107672",
        "instanceName": f"by-name-{change}",
        "novitaInstanceId": KNOWN["theirs"],
        "lastUsedAt": "2026-01-31T12:00:00Z",
    }
    for name, value in known.items():
        if isinstance(body.get(name), str) and body[name]:
            body[name] = value
    if isinstance(body.get("webhookUrl"), str) and body["webhookUrl"].startswith("http"):
        body["webhookUrl"] = KNOWN["url"]
    if _is_region(body.get("region")):
        body["region"] = "CN-HK-01"  # where there is something to be had
    regions = body.get("regions")
    if isinstance(regions, list) and regions and all(map(_is_region, regions)):
        regions[0] = "CN-HK-01"
    price = body.get("maxPricePerGpuHour")
    if isinstance(price, float | int) and not isinstance(price, bool) and 0 < price <= 10_000:
        body["maxPricePerGpuHour"] = 10
    if isinstance(body.get("olderThanHours"), int) and body["olderThanHours"] == 0:
        body["olderThanHours"] = 1  # what is known stays
    limits = body.get("limits")
    if isinstance(limits, dict):
        for name in ("stopAt", "deleteAt"):  # not in the past
            if isinstance(limits.get(name), str) and _TIME.match(limits[name]):
                limits[name] = "2098-01-31T12:00:00Z"
        if limits.get("idleGpuBelow") is not None and limits.get("idleStopAfter") is None:
            limits["idleStopAfter"] = "30m"  # without which it means nothing
    reclaim = body.get("onReclaim")
    if isinstance(reclaim, dict) and reclaim.get("action") in ("restart", "replace"):
        # Which fields go together, and with which machines, is more than a schema can tell.
        body["onReclaim"] = "restart"
    if "onReclaim" in body and ("novitaInstanceId" in body or body.get("billingMode") == "onDemand"):
        body["onReclaim"] = "none"
    for name in ("envs", "networkVolumes"):  # no two of the same name: more than a schema can tell
        if isinstance(body.get(name), list):
            body[name] = body[name][:1]
