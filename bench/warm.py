"""What a call costs a warm process, in CPU time: ours in turn with a bare one (`bench/bare`), in one process.

Both have the same emulated AWS and Novita behind them. Some virtual time passes from call to call, so that
what is held for a while is read again as often as with one request a second, or one look in half a minute.
"""

import gc
import importlib
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import Any

from bench.stage import BODY, Event, monitor_event, request, running_instance, stage, webhook_event
from bench.table import Row, half_spread
from bench.virtual_time import Clock, VirtualTableClock
from functions.api.handler import handler as api
from functions.monitor.handler import handler as monitor
from functions.shared.platform import wiring
from functions.shared.platform.observability import choose_metrics, logger
from functions.shared.platform.settings import Settings
from functions.shared.stores.table import TableClock
from functions.webhook.handler import handler as webhook
from tests.integration.harness import Context, Harness

CALLS, AT_ONCE = 160, 10  # and of how many one ratio is made
NOT_COUNTED = 20  # the first ones
CREATE_BOUND, GET_BOUND, STEP_BOUND = 1.4, 1.6, 1.5
LISTED = 100

Handler = Callable[[Event, Any], Any]


class BenchWiring(wiring.Wiring):
    """As it is deployed, but for the time."""

    @cached_property
    def table_clock(self) -> TableClock:
        return VirtualTableClock(self.clock, self.clock)


@dataclass(frozen=True)
class Case:
    name: str
    function: str  # and the bare one of that name
    handler: Handler
    event: Callable[[Harness], Event]
    bound: float | None = None
    apart: float = 1.0  # virtual seconds from call to call
    settings: dict[str, str] = field(default_factory=dict)
    changed: dict[str, Any] = field(default_factory=dict)  # of the bare module, for the same


def _one(harness: Harness) -> Event:
    return request(harness, "GET", f"/api/instances/{running_instance(harness)}")


def _many(harness: Harness) -> Event:
    for _ in range(LISTED):
        running_instance(harness)
    return request(harness, "GET", "/api/instances", query=f"limit={LISTED}")


def _create(harness: Harness) -> Event:
    return request(harness, "POST", "/api/instances", BODY)


NEVER_CACHED = {"PRODUCTS_TTL": "0", "TEMPLATES_TTL": "0"}
CASES = (
    Case("create", "api", api, _create, CREATE_BOUND),
    Case(
        "create, nothing cached",
        "api",
        api,
        _create,
        CREATE_BOUND,
        apart=10.0,  # or there would be too few slots for the look-ups
        settings=NEVER_CACHED,
        changed={"CATALOG_SECONDS": 0},
    ),
    Case("one instance", "api", api, _one, GET_BOUND),
    Case(f"a list of {LISTED}", "api", api, _many),
    Case("a step of monitor", "monitor", monitor, monitor_event, STEP_BOUND, apart=31.0),
    Case("a webhook", "webhook", webhook, webhook_event),
)


def rows() -> Iterator[Row]:
    with stage() as place:
        for case in CASES:
            yield _measured(case, place.harness(**case.settings))


def _measured(case: Case, harness: Harness) -> Row:
    ours, bare = in_turn(case, harness, CALLS)
    parts = zip(_medians(ours), _medians(bare), strict=True)
    ratios = [one / other for one, other in parts]
    anchor = f"{1000 * median(bare):.1f} ms bare; ours {1000 * median(ours):.1f}"
    return Row("warm", case.name, median(ratios), "times", case.bound, False, anchor, half_spread(ratios))


def in_turn(case: Case, harness: Harness, calls: int) -> tuple[list[float], list[float]]:
    """Seconds of CPU for each call: ours, and those of the bare handler."""
    events = case.event(harness), case.event(harness)
    before = [item for item in harness.items() if item["pk"]["S"] in _subjects(events)]
    clock = Clock()
    clock.now = datetime.now(UTC)
    handlers = _ours(case, harness, clock), _bare(case, harness, clock)
    ours, bare = list[float](), list[float]()
    with _silent():
        for call in range(NOT_COUNTED + calls):
            if call == NOT_COUNTED:
                gc.collect()
                gc.freeze()
            for item in before:  # so that there is the same to do again
                harness.dynamodb.put_item(TableName=harness.table_name, Item=item)
            clock.advance(case.apart)
            for handler, event, spent in zip(handlers, events, (ours, bare), strict=True):
                began = time.process_time()
                answer = handler(event, Context())
                spent.append(time.process_time() - began)
                _require_done(case, answer)
    gc.unfreeze()
    return ours[NOT_COUNTED:], bare[NOT_COUNTED:]


def _medians(values: list[float]) -> list[float]:
    return [median(values[start : start + AT_ONCE]) for start in range(0, len(values), AT_ONCE)]


def _subjects(events: tuple[Event, ...]) -> set[str]:
    bodies = [record["body"] for event in events for record in event.get("Records", [])]
    return {f"inst_{one}" for body in bodies for one in re.findall(r"(?:inst|dlv)_([0-9A-Z]{26})", body)}


def _ours(case: Case, harness: Harness, clock: Clock) -> Handler:
    settings = Settings.read(harness.environment, case.function)
    wiring.use(BenchWiring(settings, clock))
    return case.handler


def _bare(case: Case, harness: Harness, clock: Clock) -> Handler:
    os.environ |= harness.environment
    module = importlib.reload(importlib.import_module(f"bench.bare.{case.function}"))
    for name, value in ({"NOW": lambda: clock().timestamp()} | case.changed).items():
        setattr(module, name, value)
    handler: Handler = module.handler
    return handler


def _require_done(case: Case, answer: Any) -> None:
    if answer.get("batchItemFailures") or answer.get("statusCode", 200) > 299:
        raise RuntimeError(f"{case.name}: {answer}")


@contextmanager
def _silent() -> Iterator[None]:
    """Written like everywhere, but nobody reads it."""
    with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere):
        (handler,) = logger.handlers
        before = handler.setStream(nowhere)  # type: ignore[attr-defined]  # Powertools gives it a stream
        logger.setLevel("INFO")
        choose_metrics("alarms")
        yield
        handler.setStream(before)  # type: ignore[attr-defined]  # the same
        logger.setLevel("CRITICAL")
        choose_metrics("off")
