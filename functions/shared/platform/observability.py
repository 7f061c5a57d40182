"""What an operator sees: logs that carry the correlation id, metrics in lines of their own beside, and where
the time of a request went."""

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import wraps
from typing import Any, TypeVar

from aws_lambda_powertools import Logger
from aws_lambda_powertools.metrics.provider.cloudwatch_emf.cloudwatch import AmazonCloudWatchEMFProvider

logger = Logger(service="ostler", serialize_stacktrace=False)


def name_service(name: str) -> None:
    """Whose logs and metrics these are, where an account has several deployments."""
    logger.append_keys(service=name)
    COMMON["service"] = name


def choose_metrics(which: str) -> None:
    """Each metric costs money in every hour in which it is written: all, those of alarms, or none."""
    global _written
    _written = {"all": METRICS, "alarms": tuple(one for one in METRICS if one.alarm), "off": ()}[which]


def are_measured() -> bool:
    """Whether any metric is written: what nobody is told need not be found out."""
    return bool(_written)


_keys: ContextVar[dict[str, str]] = ContextVar("keys")


def correlation_id() -> str:
    return _keys.get({}).get("correlation_id", "")


@contextmanager
def correlated(value: str, **keys: str) -> Iterator[None]:
    """Everything logged or sent within carries this correlation id (and these keys in the log).

    What was carried before is carried again afterwards, which Powertools' own context keys are not.
    """
    outer = _keys.get({})
    inner = {**outer, "correlation_id": value, **keys}
    token = _keys.set(inner)
    logger.append_keys(**inner)
    try:
        yield
    finally:
        _keys.reset(token)
        logger.remove_keys(inner.keys() - outer.keys())
        logger.append_keys(**outer)


_spent: ContextVar[dict[str, float] | None] = ContextVar("spent", default=None)
_SHOWN_AS = {"dynamodb": "table", "sqs": "queue", "secretsmanager": "secrets"}


@contextmanager
def timing() -> Iterator[dict[str, float]]:
    """The seconds that each part of what is done within took; those of parts at the same time add up."""
    spent: dict[str, float] = {}
    token = _spent.set(spent)
    try:
        yield spent
    finally:
        _spent.reset(token)


@contextmanager
def timed(part: str) -> Iterator[None]:
    began = time.monotonic()
    try:
        yield
    finally:
        _add_time(part, began)


def time_calls(client: Any, service: str) -> Any:
    """The same of an AWS client's calls, with the SDK's own retries."""
    part = _SHOWN_AS.get(service, service)

    def begin(context: dict[str, Any], **_: Any) -> None:
        context["began"] = time.monotonic()

    def end(context: dict[str, Any], **_: Any) -> None:
        _add_time(part, context["began"])

    client.meta.events.register(f"before-call.{service}", begin)
    for ending in ("after-call", "after-call-error"):
        client.meta.events.register(f"{ending}.{service}", end)
    return client


def _add_time(part: str, began: float) -> None:
    spent = _spent.get()
    if spent is not None:
        spent[part] = spent.get(part, 0.0) + time.monotonic() - began


Result = TypeVar("Result")

NAMESPACE = "Ostler"
COMMON = {"service": "ostler"}
COUNT, SECONDS, MILLISECONDS = "Count", "Seconds", "Milliseconds"


@dataclass(frozen=True)
class Metric:
    """One with a dimension is written twice: as a whole, and by that dimension, which has few values."""

    name: str
    unit: str
    asks: str
    dimension: str = ""
    alarm: bool = False  # an alarm judges it


INSTANCES_ACCEPTED = Metric("InstancesAccepted", COUNT, "How many creates were accepted?")
PURCHASES = Metric("Purchases", COUNT, "What became of create calls to Novita?", "outcome")
ILLEGAL_MOVES = Metric(
    "IllegalMoves", COUNT, "Did a rule ask for a change of status that the table does not allow?"
)
TIME_TO_READY = Metric("TimeToReady", SECONDS, "How long from the request until it could be used?")
INSTANCES_FAILED = Metric("InstancesFailed", COUNT, "How many failed, and why?", "code")
RECOVERIES_FAILED = Metric(
    "RecoveriesFailed",
    COUNT,
    "How many machines were taken away and could not be brought back?",
    alarm=True,
)
NOVITA_CALLS = Metric("NovitaCalls", COUNT, "How many requests were sent to Novita?", "circuit")
NOVITA_LATENCY = Metric("NovitaLatency", MILLISECONDS, "How long did Novita take to answer?", "circuit")
NOVITA_ERRORS = Metric(
    "NovitaErrors", COUNT, "How many requests had no answer, or one that is Novita's own fault?", "circuit"
)
ACCOUNT_REFUSALS = Metric(
    "AccountRefusals",
    COUNT,
    "Does Novita refuse us for key or money, or is the key unproven?",
    "because",
    alarm=True,
)
CIRCUITS_OPENED = Metric("CircuitsOpened", COUNT, "How often did a circuit open?", "circuit")
CIRCUITS_CLOSED = Metric("CircuitsClosed", COUNT, "How often did a circuit close again?", "circuit")
LIMITER_WAIT = Metric(
    "LimiterWait", MILLISECONDS, "How many requests waited for their slot (samples), and for how long?"
)
LIMITER_REFUSALS = Metric("LimiterRefusals", COUNT, "How many could not wait so long and come back later?")
WEBHOOK_ATTEMPTS = Metric("WebhookAttempts", COUNT, "What became of webhook attempts?", "state")
DEAD_LETTERS = Metric(
    "DeadLetters", COUNT, "How many messages failed for the last time?", "queue", alarm=True
)
SERVER_ERRORS = Metric(
    "ServerErrors", COUNT, "How many requests were answered with 5xx?", "status", alarm=True
)
ORPHANS_FOUND = Metric("OrphansFound", COUNT, "How many machines of ours without a record turned up?")
ORPHANS_DELETED = Metric("OrphansDeleted", COUNT, "How many of them were deleted?")
SURPLUS = Metric("Surplus", COUNT, "How many machines too many turned up, and were kept or not?", "action")
DELETIONS_HELD = Metric(
    "DeletionsHeld", COUNT, "How many orphans are too many to be deleted at once?", alarm=True
)
MISSING = Metric(
    "Missing", COUNT, "How many machines cannot be found, though nobody asked for their end?", alarm=True
)
STUCK = Metric(
    "Stuck", COUNT, "How many instances have a machine that Novita refuses to stop or delete?", alarm=True
)
BUDGETS_PASSED = Metric("BudgetsPassed", COUNT, "How many budgets are spent?", alarm=True)
BILLS_DIFFER = Metric(
    "BillsDiffer", COUNT, "How many machines did Novita bill otherwise than we count?", alarm=True
)
BALANCE_LOW = Metric(
    "BalanceLow", COUNT, "Is there less money at Novita than a day of this rate costs?", alarm=True
)
SWEEPS = Metric("Sweeps", COUNT, "Is the reconciler alive?", alarm=True)
COMPARED = Metric("Compared", COUNT, "Could Novita's list be read and compared with the records?", alarm=True)
SWEEP_DURATION = Metric("SweepDuration", MILLISECONDS, "How long does a sweep take?")
OVERDUE = Metric("Overdue", COUNT, "How much did a sweep have to set going again?", "kind", alarm=True)
OLDEST_OVERDUE = Metric("OldestOverdue", SECONDS, "How late is the latest step of an instance?", alarm=True)
MACHINES = Metric("Machines", COUNT, "How many machines are rented?")
ORPHANS = Metric(
    "Orphans", COUNT, "How many machines of ours without a record are there, as far as known?", alarm=True
)
CIRCUITS_OPEN = Metric("CircuitsOpen", COUNT, "Is a circuit refusing calls now?", "circuit", alarm=True)
DEAD_LETTERS_KEPT = Metric("DeadLettersKept", COUNT, "How many dead letters has nobody redriven?")
DEAD_LETTERS_NOT_STORED = Metric(
    "DeadLettersNotStored",
    COUNT,
    "How many dead letters are in their queue still, waiting or in flight?",
    alarm=True,
)

METRICS = tuple(one for one in list(globals().values()) if isinstance(one, Metric))
_written = METRICS

_MOST_KEPT = 10_000  # where nobody writes them, as in a bench, they must not pile up
_measured: deque[tuple[Metric, float, str]] = deque(maxlen=_MOST_KEPT)


def measure(metric: Metric, value: float = 1, by: str = "") -> None:
    """Written when the invocation ends; `by` is the value of the metric's dimension."""
    if metric in _written:
        _measured.append((metric, value, by))


def metered(handler: Callable[[dict[str, Any], Any], Result]) -> Callable[[dict[str, Any], Any], Result]:
    """Whatever was measured in an invocation is written at its end, also if it fails."""

    @wraps(handler)
    def invoked(event: dict[str, Any], context: Any) -> Result:
        try:
            return handler(event, context)
        finally:
            _write()

    return invoked


def _write() -> None:
    """A metric is never worth a failure of what it tells about."""
    try:
        for provider in _grouped().values():
            if provider.metric_set:  # of a hundred values it has written itself
                provider.flush_metrics()
    except Exception:  # a missing number is a pity; failed work costs money
        logger.exception("metrics not written")


def _grouped() -> dict[tuple[str, str], AmazonCloudWatchEMFProvider]:
    """A line of this format has one value for each dimension, so there is a line for each value."""
    lines: dict[tuple[str, str], AmazonCloudWatchEMFProvider] = {}
    while _measured:
        metric, value, by = _measured.popleft()
        key = (metric.dimension, by)
        if key not in lines:
            lines[key] = AmazonCloudWatchEMFProvider(namespace=NAMESPACE, default_dimensions={**COMMON})
            if metric.dimension:
                lines[key].add_dimensions(**{metric.dimension: by})
        lines[key].add_metric(metric.name, metric.unit, value)
    return lines
