"""Every route there is, as the API describes itself, and a request that gets as far as its work."""

import re
from typing import Any

from functions.api.handler import _app as app

CREATE = {"name": "test", "productName": "RTX 4090 24GB", "templateId": "107672"}
# A request for each route, with what it needs to get as far as the table; `{id}` is an instance's.
REQUESTS: dict[tuple[str, str], tuple[str, Any]] = {
    ("GET", "/health"): ("/health?deep=true", None),
    ("POST", "/api/instances"): ("/api/instances", CREATE),
    ("GET", "/api/instances"): ("/api/instances?name=test&status=running&limit=1", None),
    ("GET", "/api/instances/comprehensive"): ("/api/instances/comprehensive?syncLocalState=true", None),
    ("POST", "/api/instances/import"): ("/api/instances/import", {"novitaInstanceId": "nobody"}),
    ("POST", "/api/instances/start"): ("/api/instances/start", {"instanceName": "test"}),
    ("POST", "/api/instances/stop"): ("/api/instances/stop", {"instanceName": "test"}),
    ("POST", "/api/instances/delete"): ("/api/instances/delete", {"instanceName": "other"}),
    ("PATCH", "/api/instances/{instance_id}"): ("/api/instances/{id}", {"tags": {"team": "b"}}),
    ("PUT", "/api/instances/{instance_id}/last-used"): ("/api/instances/{id}/last-used", {}),
    ("GET", "/api/budgets/{budget_name}"): ("/api/budgets/unknown", None),
    ("PUT", "/api/budgets/{budget_name}"): ("/api/budgets/all", {"limitUsd": "1000", "period": "month"}),
    ("DELETE", "/api/budgets/{budget_name}"): ("/api/budgets/all", None),
    ("POST", "/api/quotes"): ("/api/quotes", CREATE),
    ("POST", "/api/sync"): ("/api/sync", {"dryRun": False}),
    ("POST", "/api/jobs/dead/cleanup"): ("/api/jobs/dead/cleanup", {"olderThanHours": 1}),
    ("GET", "/api/webhooks/deliveries"): ("/api/webhooks/deliveries?instanceId={id}", None),
    ("GET", "/api/webhooks/secret"): ("/api/webhooks/secret?url=https://example.com", None),
    ("GET", "/api/templates/{template_id}"): ("/api/templates/107672", None),
}


def routes() -> list[tuple[str, str]]:
    paths = app.get_openapi_schema().paths or {}
    methods = ("get", "patch", "post", "put", "delete")
    return [
        (method.upper(), path) for path, item in paths.items() for method in methods if getattr(item, method)
    ]


def request(method: str, path: str) -> tuple[str, Any]:
    plain = re.sub(r"\{instance_id\}", "{id}", path)
    plain = re.sub(r"\{\w+_id\}", "unknown", plain) if "{id}" not in plain else plain
    return REQUESTS.get((method, path), (plain, None))
