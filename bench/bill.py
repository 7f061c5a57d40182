"""What it costs at AWS: a month in which nothing happens, and a thousand lives of an instance.

Counted from the synthesised template (what is there) and from a trace of the real handlers over the emulated
AWS (what they do), times the prices of `bench/prices.py`. Two things cannot be counted here and are assumed:
how long AWS and Novita take to answer, and that a function has its share of a core by its memory.
"""

import io
import logging
import os
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench import prices
from bench.table import Row
from functions.shared.platform.observability import choose_metrics, logger
from infra.budgets import BUDGETS
from local.emulator import ACCESS_KEY, REGION, SECRET_KEY
from local.novita.process import running
from local.paths import CLOUD_ASSEMBLY
from local.ports import Ports
from tests.infra.template import Template
from tests.integration.alarms import Metrics
from tests.integration.definition import table_definition
from tests.integration.harness import Harness
from tests.integration.quick_emulator import QuickEmulator
from tests.integration.wire import Made
from tests.integration.write_units import WriteUnits, counting

MOST_WATCHED, MOST_UNWATCHED = 6.00, 2.50  # USD a month, idle
WATCHED, UNWATCHED = "a month of nothing, with alarms", "a month of nothing, unwatched"
AWS_SECONDS, NOVITA_SECONDS = 0.006, 0.200  # of waiting for one answer
CORE_MB = 1769  # of memory, with which a function has one core
POLLS_A_MINUTE = 5 * 3  # of an idle queue: five pollers that wait for 20 s each
SWEEPS = 20  # that are traced
LIVES = 5


@dataclass
class Trace:
    """What the handlers did meanwhile."""

    calls: Counter[str] = field(default_factory=Counter)  # by service and operation
    invocations: Counter[str] = field(default_factory=Counter)
    seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))  # billed
    read_units: float = 0.0
    writes: WriteUnits = field(default_factory=WriteUnits)
    log_bytes: int = 0
    metrics: set[Any] = field(default_factory=set)

    def gigabyte_seconds(self) -> float:
        return sum(BUDGETS[name].memory_mb / 1024 * spent for name, spent in self.seconds.items())


_HANDLERS = {"sweep": "reconcile"}  # what the harness calls differently


class _Lines(io.StringIO):
    """Standard output: metrics are read, and all of it counts as log."""

    def __init__(self, metrics: Metrics) -> None:
        super().__init__()
        self._metrics = metrics

    def write(self, text: str) -> int:
        self._metrics.write(text)
        return super().write(text)


@contextmanager
def traced(harness: Harness) -> Iterator[Trace]:
    trace, began = Trace(), len(harness.wire.calls)
    lines = _Lines(Metrics(harness.now))
    handling = harness.wire.handling

    @contextmanager
    def timed(handler: str, about: str = "") -> Iterator[None]:
        name, first, start = _HANDLERS.get(handler, handler), len(harness.wire.calls), time.process_time()
        with handling(handler, about):
            yield
        if name not in BUDGETS:
            return
        share = BUDGETS[name].memory_mb / CORE_MB
        waits = sum(_waits(made) for made in harness.wire.calls[first:])
        trace.invocations[name] += 1
        trace.seconds[name] += (time.process_time() - start) / min(1.0, share) + waits

    harness.wire.handling = timed  # type: ignore[method-assign]  # the one place that knows each invocation
    with _logged_to(lines), redirect_stdout(lines), counting(harness, table_definition()) as writes:
        yield trace
    harness.wire.handling = handling  # type: ignore[method-assign]
    for made in harness.wire.calls[began:]:
        operation = made.name.split()[0]
        trace.calls[operation] += 1
        trace.read_units += _read_units(made)
    trace.writes = writes
    trace.log_bytes = len(lines.getvalue().encode())
    trace.metrics = {(one.metric, one.dimensions) for one in lines._metrics.points}


@contextmanager
def _logged_to(lines: io.StringIO) -> Iterator[None]:
    (handler,) = logger.handlers
    before = handler.setStream(lines)  # type: ignore[attr-defined]  # Powertools gives it a stream
    try:
        yield
    finally:
        handler.setStream(before)  # type: ignore[attr-defined]


def _waits(made: Made) -> float:
    return NOVITA_SECONDS if made.name.startswith("novita") else AWS_SECONDS


def _read_units(made: Made) -> float:
    """Of small items: whoever reads consistently pays one for each, and half of it otherwise."""
    operation = made.name.split()[0]
    if operation == "BatchGetItem":
        wanted = next(iter(made.params["RequestItems"].values()))
        return len(wanted["Keys"]) * (1.0 if wanted.get("ConsistentRead") else 0.5)
    if operation in ("GetItem", "Query"):
        return 1.0 if made.params.get("ConsistentRead") else 0.5
    return 0.0


@contextmanager
def harness() -> Iterator[Harness]:
    with (
        tempfile.TemporaryDirectory() as folder,
        QuickEmulator(Path(folder), Ports.free().emulator) as emulator,
        running() as simulator,
    ):
        os.environ |= {
            "AWS_ENDPOINT_URL": emulator.url,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
        }
        yield Harness(emulator, simulator, table_definition(), {})


Bill = dict[str, float]  # USD, by what it is for


def work(trace: Trace, times: float) -> Bill:
    """What the handlers did in the trace, so many times."""
    queued = trace.calls["SendMessage"] * 3 + trace.calls["GetQueueAttributes"]  # sent, received, deleted
    return {
        "Lambda": times
        * (
            trace.invocations.total() * prices.LAMBDA_REQUEST
            + trace.gigabyte_seconds() * prices.LAMBDA_GB_SECOND
        ),
        "table": times
        * (trace.writes.total * prices.DYNAMODB_WRITE_UNIT + trace.read_units * prices.DYNAMODB_READ_UNIT),
        "queues": times * queued * prices.SQS_REQUEST,
        "topic": times * trace.calls["Publish"] * prices.SNS_PUBLISH,
        "gateway": times * trace.invocations["api"] * prices.API_REQUEST,
        "logs": times * trace.log_bytes / 1e9 * prices.LOG_GB,
    }


def standing(service: Template, watch: Template | None, metrics: int) -> Bill:
    """What is there, whether it is used or not."""
    sources = [one for one in service.all("AWS::Lambda::EventSourceMapping").values() if "Queue" in str(one)]
    polls = len(sources) * POLLS_A_MINUTE * prices.MONTH_SECONDS / 60
    secrets = len(service.resources("AWS::SecretsManager::Secret"))
    read = 12 * 730 * prices.SECRET_REQUEST  # a process that sweeps asks again every five minutes
    bill = {"polls of idle queues": polls * prices.SQS_REQUEST}
    bill["secrets"] = secrets * prices.SECRET_MONTH + read
    keys = len(service.resources("AWS::KMS::Key"))
    if watch:
        keys += len(watch.resources("AWS::KMS::Key"))
        bill["alarms"] = len(watch.resources("AWS::CloudWatch::Alarm")) * prices.ALARM_MONTH
        bill["dashboard"] = len(watch.resources("AWS::CloudWatch::Dashboard")) * prices.DASHBOARD_MONTH
    bill["metrics"] = metrics * prices.METRIC_MONTH
    bill["keys of our own"] = keys * prices.KMS_KEY_MONTH
    return bill


def _rows(title: str, bill: Bill, bound: float | None, least: float) -> Iterator[Row]:
    """With what it is made up of, as far as it is so much."""
    yield Row("bill", title, sum(bill.values()), "USD", bound)
    for name, usd in sorted(bill.items(), key=lambda one: -one[1]):
        if usd >= least:
            yield Row("bill", f"{title}: {name}", usd, "USD", is_part=True)


def idle(made: Harness) -> Iterator[Row]:
    quiet = {}
    for which in ("alarms", "off"):
        choose_metrics(which)
        made.sweep()
        with traced(made) as quiet[which]:
            for _ in range(SWEEPS):
                made.advance(60)
                made.sweep()
    choose_metrics("all")
    service = Template(
        next(one for one in CLOUD_ASSEMBLY.glob("Ostler*.template.json") if "Watch" not in one.name)
    )
    sweeps = prices.MONTH_SECONDS / 60 / SWEEPS
    watched = {
        **work(quiet["alarms"], sweeps),
        **standing(service, service.watch, len(quiet["alarms"].metrics)),
    }
    without = {**work(quiet["off"], sweeps), **standing(service, None, len(quiet["off"].metrics))}
    yield from _rows(WATCHED, watched, MOST_WATCHED, 0.005)
    yield from _rows(UNWATCHED, without, MOST_UNWATCHED, 0.005)


def lives(made: Harness) -> Iterator[Row]:
    """Create with a webhook and a health check, until ready, then deleted until it is gone."""
    with traced(made) as trace:
        for _ in range(LIVES):
            told = made.simulator.inbox_url("told")
            instance_id = made.create(webhookUrl=told, healthCheck={})
            made.settle()
            made.call("DELETE", f"/api/instances/{instance_id}")
            made.settle()
    for name in ("invocations", "seconds"):
        getattr(trace, name).pop("reconcile")  # which is in the bill of a month
    yield from _rows("a thousand lives", work(trace, 1000 / LIVES), None, 0.0005)
    invocations = trace.invocations.total() / LIVES
    yield Row("bill", "a thousand lives: invocations of one", invocations, "", is_part=True)


def rows() -> Iterator[Row]:
    logging.getLogger().handlers.clear()  # the emulator's client logs there, too
    with harness() as made:
        yield from idle(made)
        yield from lives(made)
