"""docs/migrating.md: what it calls ours is there, and nothing of the earlier system is left out."""

import json
import re
from dataclasses import fields
from functools import cache
from typing import Any

import pytest

from functions.api.app import build
from functions.api.openapi import _description
from functions.api.requests import field_code
from functions.shared.domain.errors import CODES
from functions.shared.domain.instance.status import Status
from functions.shared.platform.settings import Settings
from local.paths import ROOT

TEXT = (ROOT / "docs" / "migrating.md").read_text()
CODE = re.compile(r"`([^`]+)`")

# What the documents of the earlier system name.
ROUTES_BEFORE = {
    "POST /api/instances",
    "GET /api/instances",
    "GET /api/instances/:id",
    "GET /api/instances/comprehensive",
    "POST /api/instances/:id/start",
}
# ... and what these routes, and those of its methods that callers could want, are here.
ROUTES_WANTED = {
    "POST /api/instances",
    "GET /api/instances",
    "GET /api/instances/{instance_id}",
    "GET /api/instances/comprehensive",
    "POST /api/instances/{instance_id}/start",
    "POST /api/instances/start",
    "DELETE /api/instances/{instance_id}",
    "GET /api/operations/{operation_id}",
    "GET /api/cache/stats",
    "POST /api/cache/clear",
    "POST /api/cache/cleanup",
    "GET /api/jobs/stats",
    "POST /api/jobs/dead/cleanup",
    "POST /api/jobs/dead/{letter_id}/redrive",
    "POST /api/pause",
    "POST /api/resume",
    "GET /api/circuits",
    "POST /api/quotes",
    "POST /api/sync",
    "GET /api/products",
    "GET /api/templates/{template_id}",
}
METHODS_BEFORE = {
    *("getInstanceStatus()", "startInstance", "updateInstanceState()", "getCacheStats()", "clearCache()"),
    *("clearExpiredCache()", "getHitRatio()", "getAllStats()", "cleanupExpired()", "cleanupAllExpired()"),
    *("JobQueueService.addJob()", "JobQueueService.getJob(id)", "getJobs(filter)"),
    *("JobQueueService.getStats()", "startProcessing()", "stopProcessing()", "shutdown()"),
    *("JobQueueService.cleanup(olderThanMs)", "productService.getProducts()"),
    *("productService.getOptimalProductWithFallback()", "templateService.getTemplateConfiguration()"),
    *("novitaApiService.getRegistryAuth()", "listInstancesComprehensive(syncLocalState)"),
}
SETTINGS_BEFORE = {
    "INSTANCE_POLL_INTERVAL",
    "MAX_RETRY_ATTEMPTS",
    "MAX_CONCURRENT_JOBS",
    "REQUEST_TIMEOUT",
    "HEALTH_CHECK_*",
    "maxWaitTime",
    "maxRetryDelay",
    "processingIntervalMs",
}
# Those that its documents name by what they are for.
OTHER_SETTINGS_BEFORE = {
    *("the Novita key in the environment", "Novita's address", "default region CN-HK-01"),
    *("regions and their priorities", "recovery time-out of the breaker, 1 min", "rate limit of the client"),
    *("test requests that close the breaker", "first retry delay, 100 ms", "details cache, 30 s"),
    *("states cache, 1 min", "products cache, 5 min", "templates cache, 10 min", "merged list cache"),
    *("cache clean-up intervals", "client retries, 1 s doubled to 30 s", "log level"),
}
# What it documents of them, and is the same here.
SAME_DEFAULTS = {
    "INSTANCE_POLL_INTERVAL": 30,
    "MAX_RETRY_ATTEMPTS": 3,
    "MAX_CONCURRENT_JOBS": 10,
    "DEFAULT_REGION": "CN-HK-01",
    "REGION_PRIORITY": "AS-SGP-02,CN-HK-01,AS-IN-01",
    "BREAKER_RECOVERY_TIMEOUT": 60,
    "RETRY_CAP_SECONDS": 300,
    "DETAILS_TTL": 30,
    "PRODUCTS_TTL": 300,
    "TEMPLATES_TTL": 600,
}
CODES_BEFORE = {
    *("INVALID_INSTANCE_NAME", "PRODUCT_NOT_FOUND", "NO_OPTIMAL_PRODUCT_ANY_REGION", "ValidationError"),
    *("StartupOperationInProgressError", "StartupFailedError", "ResourceConstraintsError", "NetworkError"),
    *("TimeoutError", "RateLimitError", "retryAfter", "CircuitBreakerError", "NovitaApiClientError"),
}
FIELDS_BEFORE = {
    *("name", "productName", "templateId", "gpuNum", "rootfsSize", "region", "webhookUrl", "imageAuth"),
    *("identifier", "searchBy", "healthCheckConfig", "targetPort", "maxWaitTime", "instanceId"),
    *("novitaInstanceId", "status", "message", "estimatedReadyTime", "operationId", "portMappings"),
    *("createdAt", "readyAt", "startTime", "includeNovitaOnly", "syncLocalState", "cachedInstanceIds"),
    *("healthCheck", "attempts", "maxAttempts", "nextRetryAt", "processedAt", "completedAt", "priority"),
    *("error", "jobId", "type", "payload", "size", "hits", "misses", "sets", "evictions", "hitRatio"),
    "totalSize",
}
JOBS_BEFORE = {"CREATE_INSTANCE", "MONITOR_INSTANCE", "MONITOR_STARTUP", "SEND_WEBHOOK"}


def rows(chapter: str) -> list[list[str]]:
    """Before, here and the note, of every table in the chapter."""
    part = TEXT.split(f"\n## {chapter}\n")[1].split("\n## ")[0]
    lines = [line for line in part.splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [row for row in cells if row[0] != "before"]


def named(chapter: str, column: int) -> set[str]:
    return {name for row in rows(chapter) for name in CODE.findall(row[column])}


@cache
def description() -> dict[str, Any]:
    described: dict[str, Any] = json.loads(_description(build()))
    return described


def our_routes() -> set[str]:
    paths = description()["paths"].items()
    return {f"{method.upper()} {path}" for path, methods in paths for method in methods}


def our_fields() -> set[str]:
    schemas = description()["components"]["schemas"].values()
    return {name for schema in schemas for name in schema.get("properties", {})}


def our_codes() -> set[str]:
    return CODES.keys() | {field_code(name) for name in our_fields()}


def test_every_route_named_as_ours_is_there() -> None:
    assert named("Routes", 1) - our_routes() == set()


def test_every_route_of_the_earlier_system_is_named_with_ours() -> None:
    assert ROUTES_BEFORE - {row[0].partition(",")[0] for row in rows("Routes")} == set()
    assert named("Routes", 1) >= ROUTES_WANTED
    assert METHODS_BEFORE - named("Routes", 0) == set()


def test_every_setting_named_as_ours_is_there() -> None:
    assert named("Settings", 1) - {item.name.upper() for item in fields(Settings)} == set()


def test_every_setting_of_the_earlier_system_is_named() -> None:
    assert SETTINGS_BEFORE - named("Settings", 0) == set()
    assert OTHER_SETTINGS_BEFORE - {row[0] for row in rows("Settings")} == set()


def test_what_was_kept_of_its_settings_has_the_same_default() -> None:
    defaults = {item.name.upper(): item.default for item in fields(Settings)}

    assert {name: defaults[name] for name in SAME_DEFAULTS} == SAME_DEFAULTS
    assert SAME_DEFAULTS.keys() <= named("Settings", 1)


def test_every_code_is_named_and_ours_are_there() -> None:
    assert CODES_BEFORE - named("Errors", 0) == set()
    assert named("Errors", 1) - our_codes() == set()


def test_every_field_is_named_and_ours_are_there() -> None:
    assert FIELDS_BEFORE - named("Fields", 0) == set()
    assert named("Fields", 1) - our_fields() == set()


def test_every_status_and_job_is_named() -> None:
    assert named("Statuses", 1) <= set(Status)
    assert {job for row in rows("Jobs") for job in JOBS_BEFORE if job in row[0]} == JOBS_BEFORE


@pytest.mark.parametrize("chapter", ["Routes", "Fields", "Statuses", "Errors", "Jobs", "Settings"])
def test_whatever_has_no_equal_here_says_why(chapter: str) -> None:
    found = rows(chapter)

    assert found
    assert [row for row in found if not row[1] and not row[2]] == []
