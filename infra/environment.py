"""The environment of each function: of what the stack made and what people set, what it reads."""

from infra.budgets import BUDGETS
from infra.edge import Edge
from infra.options import ContextError, Options
from infra.queues import Queues
from infra.secrets import Secrets
from infra.table import Table
from infra.topic import Topic

_LOOKS = "create monitor"
_QUEUED = f"{_LOOKS} startup webhook"
_NOVITA = f"{_LOOKS} api reconcile"
_STEPS = f"{_NOVITA} startup"
_RULES = f"{_STEPS} dead_letters"

# What is watched says what is measured: a metric that nobody looks at costs as much as any other.
METRICS_OF = {"off": "off", "alarms": "alarms", "full": "all"}

# Who reads a setting; the same as the functions' own table, which is not imported here but compared.
READ_BY = {
    "TABLE_NAME": "all",
    "LOG_LEVEL": "all",
    "METRICS": "all",
    "SERVICE_NAME": "all",
    "TOPIC_ARN": "announce",
    "CREATE_QUEUE_URL": _RULES,
    "MONITOR_QUEUE_URL": _RULES,
    "STARTUP_QUEUE_URL": _RULES,
    "WEBHOOK_QUEUE_URL": "api webhook reconcile announce dead_letters",
    "DEAD_LETTER_QUEUE_URL": f"{_STEPS} webhook",
    "NOVITA_SECRET_ID": _NOVITA,
    "WEBHOOK_SECRET_ID": "api webhook",
    "NOVITA_API_BASE_URL": _NOVITA,
    "DEFAULT_REGION": "api create",
    "REGION_PRIORITY": "api create",
    "INSTANCE_POLL_INTERVAL": _RULES,
    "PURCHASE_MAX_WAIT": _RULES,
    "BOOT_MAX_WAIT": _RULES,
    "SETTLE_SECONDS": _RULES,
    "GONE_CONFIRM_SECONDS": _RULES,
    "VANISHED_AFTER": _RULES,
    "EXPIRY_NOTICE": _RULES,
    "DEFAULT_STOP_AFTER": "api",
    "DEFAULT_DELETE_AFTER": "api",
    "DEFAULT_IDLE_STOP_AFTER": "api",
    "DEFAULT_DELETE_AFTER_STOPPED": "api",
    "MAX_STOP_AFTER": "api",
    "MAX_LIFETIME": "api",
    "MAX_IDLE_STOP_AFTER": "api",
    "MAX_DELETE_AFTER_STOPPED": "api",
    "PURCHASE_LEASE_SECONDS": "create",
    "MAX_HOURLY_USD": _RULES,
    "SWEEP_GRACE_SECONDS": "api reconcile",
    "SWEEP_MAX_REPAIRS": "api reconcile",
    "SWEEP_AT_ONCE": "api reconcile",
    "RESEND_SECONDS": "api reconcile",
    "MAX_RETRY_ATTEMPTS": f"{_QUEUED} dead_letters",
    "RETRY_BASE_SECONDS": _QUEUED,
    "RETRY_CAP_SECONDS": _QUEUED,
    "NOVITA_CONNECT_TIMEOUT": _NOVITA,
    "NOVITA_READ_TIMEOUT": _NOVITA,
    "NOVITA_CREATE_TIMEOUT": _NOVITA,
    "NOVITA_RATE_LIMIT": _NOVITA,
    "LOOKUP_SECONDS": "api",
    "BREAKER_FAILURE_THRESHOLD": _NOVITA,
    "BREAKER_WINDOW": _NOVITA,
    "BREAKER_RECOVERY_TIMEOUT": _NOVITA,
    "BREAKER_SUCCESS_THRESHOLD": _NOVITA,
    "BREAKER_CACHE_SECONDS": _NOVITA,
    "PRODUCTS_TTL": "api create",
    "TEMPLATES_TTL": "api create",
    "DETAILS_TTL": "api",
    "LIST_TTL": f"api {_LOOKS}",
    "LIST_LAG_SECONDS": _LOOKS,
    "LOOK_INTERVAL": _LOOKS,
    "SHARE_LIST_FROM": _LOOKS,
    "MERGED_TTL": "api",
    "TOTAL_TTL": "api",
    "BALANCE_TTL": "api",
    "SILENCE_SECONDS": "api",
    "OFFER_MAX_AGE": "create",
    "WEBHOOK_TIMEOUT": "webhook",
    "WEBHOOK_WAITS": "webhook",
    "WEBHOOK_PER_RECEIVER": "webhook",
    "HEALTH_CHECK_TIMEOUT_MS": "api",
    "HEALTH_CHECK_RETRY_ATTEMPTS": "api",
    "HEALTH_CHECK_RETRY_DELAY_MS": "api",
    "HEALTH_CHECK_MAX_WAIT_TIME_MS": "api",
    "MAX_CONCURRENT_JOBS": "startup webhook",
    "OUTBOUND_ALLOW_CIDRS": "api startup webhook",
    "ORPHAN_POLICY": "api reconcile",
    "ORPHAN_AGE": "api reconcile",
    "AUTH": "api",
    "ORIGIN_SECRET_ID": "api",
    "JWT_SCOPE_PREFIX": "api",
    "REQUESTS_PER_CALLER": "api",
    "REQUESTS_PER_STRANGER": "api",
    "KEY_CACHE_SECONDS": "api",
    "SECRET_CACHE_SECONDS": f"{_NOVITA} webhook",
}

Environments = dict[str, dict[str, str]]  # by function


def environments(
    table: Table, queues: Queues, topic: Topic, secrets: Secrets, options: Options, edge: Edge | None
) -> Environments:
    made = {
        "TABLE_NAME": table.name,
        "TOPIC_ARN": topic.arn,
        "CREATE_QUEUE_URL": queues.url("create"),
        "MONITOR_QUEUE_URL": queues.url("monitor"),
        "STARTUP_QUEUE_URL": queues.url("startup"),
        "WEBHOOK_QUEUE_URL": queues.url("webhook"),
        "DEAD_LETTER_QUEUE_URL": queues.dead.queue_url,
        "NOVITA_SECRET_ID": secrets.novita_arn,
        "WEBHOOK_SECRET_ID": secrets.webhook_arn,
        "SERVICE_NAME": options.service,
        "METRICS": METRICS_OF[options.watch],
        "AUTH": options.auth,
        **({"ORIGIN_SECRET_ID": edge.secret_arn} if edge else {}),
    }
    for name in made.keys() & options.settings.keys():
        raise ContextError(f"settings.{name}", options.settings[name], "the stack sets this itself")
    for name in options.settings.keys() - READ_BY.keys():
        raise ContextError(f"settings.{name}", options.settings[name], "no function reads this")
    derived = {
        "MAX_RETRY_ATTEMPTS": str(options.max_retry_attempts),
        "MAX_CONCURRENT_JOBS": str(options.max_concurrent_jobs),
        # One receiver that hangs must leave workers for the others.
        "WEBHOOK_PER_RECEIVER": str(min(3, max(1, options.max_concurrent_jobs // 2))),
    }
    given = {**derived, **options.settings, **made}
    return {function: _read_by(function, given) for function in BUDGETS}


def _read_by(function: str, given: dict[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in given.items()
        if READ_BY[name] == "all" or function in READ_BY[name].split()
    }
