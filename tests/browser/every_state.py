"""Answers of the API in which everything happens at once: what the page can show, in the API's own shape.

A test holds them against the API's description, so that the page is not tried with what never comes.
"""

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import Page, Route

from tests.browser import money

Json = dict[str, Any]

KEY = "key_3f9a52c0de41"
COMFY = "inst_01M7R22RC5H2N4E9NT297S8EJH"
MACHINES = ("1729a75dd57602dc", "f0290a840ea21597")
_REGIONS = {"CN-HK-01": "NOT_SOLD_IN_REGION", "AS-SGP-02": "NOT_AVAILABLE", "AS-IN-01": "NOT_AVAILABLE"}


def ago(**units: float) -> str:
    return _timestamp(datetime.now(UTC) - timedelta(**units))


def ahead(**units: float) -> str:
    return _timestamp(datetime.now(UTC) + timedelta(**units))


def moment(timestamp: str) -> datetime:
    return datetime.fromisoformat(timestamp)


def _timestamp(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"


def _instance(number: int, name: str, status: str, **more: Any) -> Json:
    made: Json = {"instanceId": f"inst_{number:026d}", "name": name, "status": status, "owner": KEY}
    made |= {"productName": "RTX 4090 24GB", "templateId": "107672", "gpuNum": 1, "rootfsSize": 60}
    made |= {"billingMode": "spot", "createdAt": ago(hours=number), "updatedAt": ago(minutes=number)}
    made |= {"region": "CN-HK-01", "novitaInstanceId": f"{number:016x}", "hasMachine": True}
    made |= {"lastSyncedAt": ago(seconds=20), "cost": {"soFarUsd": "0.58", "perHourUsd": "0.18"}}
    return made | more


def instances() -> list[Json]:
    """One for everything that an instance can be."""
    nothing = {"soFarUsd": "0.00", "perHourUsd": "0.00"}
    unbought: Json = {"region": "", "novitaInstanceId": "", "lastSyncedAt": "", "hasMachine": False}
    unbought["cost"] = nothing
    no_room = {"code": "NO_OPTIMAL_PRODUCT_ANY_REGION", "message": "None to be had"}
    fault = {"code": "IMAGE_PULL_FAILED", "message": "Novita says: pulling: denied: no right to pull it"}
    gone = {"since": ago(minutes=4), "until": ahead(hours=2), "action": "replace"}
    notice = {"status": "notified", "reclaimTime": ahead(minutes=5)}
    kept: Json = {"protected": True, "expiry": {"deleteAt": ahead(hours=20)}}
    ends = {"stopAt": ahead(minutes=48), "stopReason": "lifetime", "deleteAt": ahead(days=3)}
    checked = {"port": 8188, "endpoint": "https://app.example/", "type": "http", "responseTime": 41}
    checked |= {"lastChecked": ago(minutes=3)}
    late = {"category": "connection_refused", "message": "nobody listens"}
    health = [{**checked, "status": "healthy"}, {**checked, "port": 80, "status": "unhealthy", "error": late}]
    found = [
        _instance(
            3,
            "comfy-eu-2",
            "ready",
            instanceId=COMFY,
            novitaInstanceId=MACHINES[1],
            pricePerGpuHour="0.18",
            readyAt=ago(hours=2.9),
            lastUsedAt=ago(minutes=9),
            webhookUrl="https://hooks.example/gpu",
            tags={"team": "art", "project": "posters"},
            limits={"stopAfter": "4h", "deleteAfterStopped": "1d", "idleStopAfter": "30m"},
            expiry=ends,
            portMappings=[
                {"port": 8188, "type": "http", "endpoint": "https://f0290a840ea21597-8188.cn-hk-1.example/"},
                {"port": 22, "type": "tcp", "endpoint": "ssh.cn-hk-1.example:31022"},
            ],
            onReclaim={"action": "replace", "window": "2h", "maxRecoveries": 5, "replaceAfter": "10m"},
            recoveries=1,
            envNames=["MODEL", "HF_TOKEN"],
            networkVolumes=[{"id": "vol-1", "mountPath": "/data"}],
            healthCheck={"overall": "partial", "endpoints": health},
        ),
        _instance(
            1, "train-llama-7", "starting", productName="H100 SXM 80GB", gpuNum=4, billingMode="onDemand",
            createdAt=ago(minutes=2), givesUpAt=ahead(minutes=18), novitaStatus="pulling",
        ),
        _instance(
            2, "render-19", "creating", **unbought, createdAt=ago(minutes=6), givesUpAt=ahead(minutes=54),
            waitingFor={**no_room, "details": {"regions": _REGIONS}}, nextCheckAt=ahead(seconds=22),
            regionReasons=_REGIONS,
        ),
        _instance(4, "api-canary", "failed", error=fault, statusError="denied", endedBy="failure"),
        _instance(5, "lost-at-sea", "running", missingSince=ago(hours=1), lastSyncedAt=ago(hours=1)),
        _instance(6, "phoenix", "exited", recovering=gone),
        _instance(7, "going-soon", "running", spot=notice),
        _instance(8, "notebook-mia", "stopped", endedBy="idle", **kept),
        _instance(9, "checking", "health_checking", givesUpAt=ahead(minutes=4)),
        _instance(10, "unseen", "running", lastSyncedAt=ago(minutes=12), stale=True),
        _instance(11, "stopping-now", "stopping"),
        _instance(12, "moved", "migrating"),
        _instance(13, "on-its-way-out", "deleting", cleanup=[{"novitaInstanceId": "d", "action": "delete"}]),
        _instance(14, "gone", "terminated", hasMachine=False, endedBy="lifetime"),
    ]  # fmt: skip
    return [{key: value for key, value in one.items() if value != ""} for one in found]


def events() -> list[Json]:
    """Bought, ready, taken away, not to be had again, replaced, ready: three hours of comfy-eu-2."""
    regions = {"regions": _REGIONS}
    told: list[tuple[float, str, str, Json]] = [
        (180, "instance.creating", "creating", {"actor": KEY, "data": regions}),
        (176, "instance.starting", "starting", {"novitaInstanceId": MACHINES[0]}),
        (174, "instance.running", "running", {}),
        (174, "instance.health_checking", "health_checking", {}),
        (173, "instance.ready", "ready", {}),
        (100, "instance.updated", "ready", {"actor": KEY, "data": _changes()}),
        (85, "instance.reclaim_notified", "ready", {"reason": "Novita will take the machine away"}),
        (80, "instance.exited", "exited", {"reason": "reclaimed by Novita"}),
        (80, "recovery.started", "exited", {}),
        (70, "instance.creating", "creating", {"reason": "replaced", "data": regions}),
        (66, "instance.starting", "starting", {"novitaInstanceId": MACHINES[1]}),
        (63, "instance.running", "running", {}),
        (63, "instance.health_checking", "health_checking", {}),
        (62, "instance.ready", "ready", {}),
        (62, "recovery.completed", "ready", {"data": {"recoveries": 1}}),
        (20, "instance.machine_error", "ready", {"error": {"code": "OOM", "message": "out of memory"}}),
    ]
    return [
        {"id": f"evt_{COMFY}_{number}", "type": type_, "sequence": number, "timestamp": ago(minutes=minutes)}
        | {"status": status, "actor": "system", "correlationId": f"cor-{number}", **more}
        for number, (minutes, type_, status, more) in enumerate(told, 1)
    ]


def _changes() -> Json:
    return {"changed": ["limits.stopAfter"], "changes": {"limits.stopAfter": {"from": "2h", "to": "4h"}}}


def cost() -> Json:
    first: Json = {"novitaInstanceId": MACHINES[0], "productId": "4090.16c62g", "region": "CN-HK-01"}
    second: Json = {**first, "novitaInstanceId": MACHINES[1]}
    running = {"kind": "running", "usdPerHour": "0.18"}
    billed = {"totalUsd": "0.34", "oursUsd": "0.31", "from": ago(days=1)[:10], "through": ago(days=1)[:10]}
    return {
        "instanceId": COMFY,
        "asOf": ago(seconds=5),
        "totalUsd": "0.58",
        "perHourUsd": "0.18",
        "estimated": True,
        "billed": {**billed, "asOf": ago(hours=5), "differs": True},
        "intervals": [
            {**first, **running, "from": ago(minutes=175), "to": ago(minutes=80), "amountUsd": "0.285"},
            {
                **first,
                "kind": "storage",
                "from": ago(minutes=80),
                "to": ago(minutes=70),
                "amountUsd": "0.001",
            },
            {**second, **running, "from": ago(minutes=65), "amountUsd": "0.2", "estimated": True},
        ],
    }


def operations() -> Json:
    phases = [{"status": "initiated", "at": ago(minutes=80)}, {"status": "failed", "at": ago(minutes=70)}]
    made: Json = {"operationId": "op_1", "instanceId": COMFY, "kind": "start", "actor": KEY, "attempts": 2}
    fault = {"code": "STARTUP_FAILED", "message": "Novita refused it"}
    return {
        "instanceId": COMFY,
        "operations": [
            {**made, "status": "failed", "phases": phases, "error": fault},
            {**made, "operationId": "op_2", "kind": "stop", "status": "completed", "phases": phases[:1]},
        ],
    }


def deliveries() -> Json:
    made: Json = {"instanceId": COMFY, "eventId": "evt_1", "url": "https://hooks.example/gpu"}
    made |= {"createdAt": ago(minutes=62)}
    bad = {"attempt": 1, "at": ago(minutes=62), "tookMs": 81, "status": 500, "answer": "<h1>Oops</h1>"}
    lost = {"attempt": 2, "at": ago(minutes=57), "error": "connection_refused"}
    return {
        "deliveries": [
            {
                **made,
                "id": "dlv_3",
                "eventType": "instance.ready",
                "state": "pending",
                "attempts": [bad, lost],
            }
            | {"nextAttemptAt": ahead(minutes=25)},
            {**made, "id": "dlv_2", "eventType": "instance.running", "state": "ended", "attempts": [bad]},
            {**made, "id": "dlv_1", "eventType": "instance.starting", "state": "delivered"}
            | {"attempts": [{"attempt": 1, "at": ago(minutes=66), "tookMs": 12, "status": 204}]},
        ],
        "nextCursor": "more",
    }


def connection() -> Json:
    secret = {"username": "root", "password": "hunter2"}
    return {
        "instanceId": COMFY,
        "ssh": {"command": "ssh -p 31022 root@ssh.cn-hk-1.example", **secret},
        "jupyter": {"address": "https://jupyter.example/?token=t", "password": "t"},
        "webTerminal": {"address": "https://terminal.example/", **secret},
        "logs": {"system": "https://logs.example/system", "instance": "https://logs.example/instance"},
    }


def status() -> Json:
    fault = {"code": "NOVITA_UNAVAILABLE", "message": "Novita does not answer"}
    return {
        "purchasesPaused": True,
        "pausedAt": ago(minutes=12),
        "pausedBy": KEY,
        "lastSweepAt": ago(seconds=31),
        "lastComparedAt": ago(minutes=9),
        "comparisonComplete": False,
        "comparisonError": fault,
        "machines": 11,
        "missing": 1,
        "orphans": 2,
        "orphanDeletionsHeld": 1,
        "stuckCleanups": 1,
        "keyProven": False,
        "rateLimit": {"limit": 100, "windowSeconds": 60, "used": 97, "usedBy": {"looks": 30, "work": 67}}
        | {"pausedUntil": ahead(seconds=20)},
        "balance": {"availableUsd": "100.00", "asOf": ago(minutes=1)},
    }


def circuits() -> Json:
    made = {"failures": 0, "epoch": 3, "openings": 1}
    return {
        "circuits": [
            {**made, "name": "reads", "state": "OPEN", "failures": 5, "openUntil": ahead(seconds=40)},
            {**made, "name": "buys", "state": "HALF_OPEN"},
            {**made, "name": "actions", "state": "CLOSED"},
        ]
    }


def jobs() -> Json:
    queue = {"depth": 3, "inFlight": 1, "delayed": 4, "dead": 0, "oldestAgeSeconds": 0}
    job = {"pending": 1, "inProgress": 1, "done": 214, "refused": 2, "gaveUp": 1, "retried": 9, "dead": 0}
    names = ("create", "monitor", "startup", "webhook")
    return {
        "since": ago(days=1),
        "queues": dict.fromkeys(names, queue) | {"webhook": {**queue, "dead": 2, "oldestAgeSeconds": 812}},
        "jobs": dict.fromkeys(names, job),
        "deadLettersNotStored": 1,
        "sweeps": {"incomplete": 0},
    }


def letters() -> Json:
    reason = {"code": "INTERNAL_ERROR", "message": "A step failed for the last time"}
    made: Json = {"queue": "monitor", "reason": reason, "attempts": 4, "diedAt": ago(hours=3)}
    return {
        "deadLetters": [
            {**made, "id": "let_1", "instanceId": COMFY, "error": "KeyError: 'x'", "body": '{"v": 1}'},
            {**made, "id": "let_2", "queue": "webhook", "deliveryId": "dlv_2", "redrivenAt": ago(hours=2)},
        ],
        "nextCursor": "more",
    }


def caches() -> Json:
    one: Json = {
        "size": 4,
        "bytes": 900,
        "hits": 85,
        "misses": 2,
        "sets": 2,
        "hitRatio": 0.977,
        "evictions": 0,
    }
    one |= {"ids": ["a"]}
    side = {**one, "caches": {"products": one, "details": {**one, "hits": 0, "misses": 0, "hitRatio": 0.0}}}
    return {"shared": side, "process": side}


def products() -> Json:
    made: Json = {"id": "p1", "name": "RTX 4090 24GB", "regions": ["CN-HK-01"], "available": True}
    made |= {"billingMethods": ["spot"], "cpuPerGpu": 16, "memoryPerGpu": 62, "minRootfsSize": 10}
    return {"products": [{**made, "spotPricePerGpuHour": "0.18", "pricePerGpuHour": "0.35"}]}


def template() -> Json:
    ports = [{"port": 8188, "type": "http"}]
    return {
        "id": "107672",
        "name": "ComfyUI",
        "image": "ghcr.io/x/comfy",
        "private": True,
        "ports": ports,
        "envs": [],
    }


def quote() -> Json:
    made = {"productId": "p1", "productName": "RTX 4090 24GB", "region": "CN-HK-01", "billingMode": "spot"}
    other = {
        "productId": "p2",
        "productName": "RTX 4090 24GB",
        "region": "AS-SGP-02",
        "pricePerGpuHour": "0.17",
    }
    return made | {
        "gpuNum": 2,
        "pricePerGpuHour": "0.18",
        "pricePerHour": "0.36",
        "perHourUsd": "0.36",
        "perDayUsd": "8.64",
        "alternatives": [other],
        "regions": {"CN-HK-01": "OFFERED", "AS-SGP-02": "OFFERED", "AS-IN-01": "NOT_AVAILABLE"},
        "expiry": {"stopAt": ahead(hours=4), "stopReason": "lifetime"},
    }


def event_page() -> Json:
    return {"instanceId": COMFY, "events": events()}


# By the form of its path: the name of what the API calls it, and what is answered.
ANSWERS: dict[str, tuple[str, Callable[[], Any]]] = {
    r"/api/instances": ("InstancesView", lambda: {"instances": instances(), "total": len(instances())}),
    rf"/api/instances/{COMFY}/events": ("EventsView", event_page),
    rf"/api/instances/{COMFY}/operations": ("OperationsView", operations),
    rf"/api/instances/{COMFY}/cost": ("InstanceCostView", cost),
    rf"/api/instances/{COMFY}/connection": ("ConnectionView", connection),
    r"/api/webhooks/deliveries": ("DeliveriesView", deliveries),
    r"/api/status": ("StatusView", status),
    r"/api/circuits": ("CircuitsView", circuits),
    r"/api/jobs/stats": ("JobStatsView", jobs),
    r"/api/jobs/dead": ("DeadLettersView", letters),
    r"/api/cache/stats": ("CacheStatsView", caches),
    r"/api/products": ("ProductsView", products),
    r"/api/templates/[^/]+": ("TemplateView", template),
    r"/api/quotes": ("QuoteView", quote),
    r"/api/budgets": ("BudgetsView", money.budgets),
}
_SCOPES = ["read", "write", "admin"]
_ONE = re.compile(r"/api/instances/(inst_[^/]+)(?:/(events|operations|cost))?$")


def answer_to(path: str, query: str = "") -> Any:
    if path == "/api/costs":
        return money.costs(query)
    for form, (_, make) in ANSWERS.items():
        if re.fullmatch(form, path):
            return make()
    found = _ONE.fullmatch(path)
    assert found, path
    one = next(one for one in instances() if one["instanceId"] == found[1])
    if found[2] == "events":
        shown = {"id": "evt_1", "type": f"instance.{one['status']}", "sequence": 1, "status": one["status"]}
        shown |= {"timestamp": one["createdAt"], "actor": KEY, "correlationId": "cor-1"}
        told = [shown]
        if since := one.get("missingSince"):
            told.append(
                shown | {"id": "evt_2", "type": "instance.missing", "sequence": 2, "timestamp": since}
            )
        return {"instanceId": found[1], "events": told}
    if found[2] == "operations":
        return {"instanceId": found[1], "operations": []}
    if found[2] == "cost":
        return {"instanceId": found[1], "asOf": ago(), "totalUsd": "0", "perHourUsd": "0", "intervals": []}
    return one


def serve(page: Page, changed: Callable[[Any], Any] = lambda body: body, scope: str = "") -> None:
    """In place of the API, for everything but who is looking, unless that is said."""

    def answer(route: Route) -> None:
        parts = urlsplit(route.request.url)
        if parts.path == "/api/me":
            if scope:
                route.fulfill(json={"id": KEY, "scopes": _SCOPES[: _SCOPES.index(scope) + 1]})
            else:
                route.continue_()
            return
        body = json.dumps(changed(answer_to(parts.path, parts.query)))
        route.fulfill(status=200, content_type="application/json", body=body)

    page.route(re.compile(r"/api/"), answer)
