"""The environment of every function: what the stack made, and what people set."""

from infra.options import ContextError, Options
from infra.queues import Queues
from infra.secrets import Secrets
from infra.table import Table
from infra.topic import Topic


def environment(
    table: Table, queues: Queues, topic: Topic, secrets: Secrets, options: Options
) -> dict[str, str]:
    made = {
        "TABLE_NAME": table.name,
        "TOPIC_ARN": topic.arn,
        "CREATE_QUEUE_URL": queues.url("create"),
        "MONITOR_QUEUE_URL": queues.url("monitor"),
        "STARTUP_QUEUE_URL": queues.url("startup"),
        "WEBHOOK_QUEUE_URL": queues.url("webhook"),
        **{f"{name.upper()}_DEAD_QUEUE_URL": queues.dead_url(name) for name in queues.dead},
        "NOVITA_SECRET_ID": secrets.novita_arn,
        "WEBHOOK_SECRET_ID": secrets.webhook_arn,
        "POWERTOOLS_SERVICE_NAME": "ostler",
        "AUTH": options.auth,
    }
    for name in made.keys() & options.settings.keys():
        raise ContextError(f"settings.{name}", options.settings[name], "the stack sets this itself")
    derived = {
        "MAX_RETRY_ATTEMPTS": str(options.max_retry_attempts),
        # One receiver that hangs must leave workers for the others.
        "WEBHOOK_PER_RECEIVER": str(min(3, max(1, options.max_concurrent_jobs // 2))),
    }
    return {**derived, **options.settings, **made}
