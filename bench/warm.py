"""What a call costs a warm process, in CPU time: ours in turn with a bare one (`bench/bare`), in one
process.

Both have the same emulated AWS and Novita behind them. Some virtual time passes from call to call, so that
what is held for a while is read again as often as with one request a second, or one look in half a minute.
"""

import gc
import importlib
import os
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

from botocore.endpoint import Endpoint

from bench.sampling import Sampler, sampled
from bench.stage import (
    BODY,
    Event,
    asked_anew,
    monitor_event,
    request,
    running_instance,
    stage,
    webhook_event,
)
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
LOOKED_AT, LEAST = 2.5, 0.02  # seconds of ours that are looked at; parts that are smaller are not told
WHO = ("ours", "bare")
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
    given_up: str = ""


def _one(harness: Harness) -> Event:
    return request(harness, "GET", f"/api/instances/{running_instance(harness)}")


def _many(harness: Harness) -> Event:
    for _ in range(LISTED):
        running_instance(harness)
    return request(harness, "GET", "/api/instances", query=f"limit={LISTED}")


def _create(harness: Harness) -> Event:
    return request(harness, "POST", "/api/instances", BODY)


CREATE_GIVEN_UP = (
    "half a millisecond goes for each request that is more than the bare one's. Whether the Idempotency-Key "
    "was used is asked first, so that the first answer comes again also where a new create would be refused "
    "by now (paused, sold out); budgets are read for each create, and boot times, so that what was set a "
    "second ago counts; and a look-up that is shared has a lease, so that a rush asks Novita once. Given up "
    "would be these, and the SDK for requests made by hand"
)
GET_GIVEN_UP = (
    "the rest is the rules that say cost and expiry, the router and one log line; given up would be that "
    "views are made by the same code as decisions"
)
STEP_GIVEN_UP = (
    "the requests more are the shared list and its epoch, which tell whether a look was made already, and "
    "the window of the rate limit as promised, of any 60 s. Given up would be that polling many costs one "
    "list, or the same code for one that waits and for many"
)
NEVER_CACHED = {"PRODUCTS_TTL": "0", "TEMPLATES_TTL": "0"}
CASES = (
    Case("create", "api", api, _create, CREATE_BOUND, given_up=CREATE_GIVEN_UP),
    Case(
        "create, nothing cached",
        "api",
        api,
        _create,
        CREATE_BOUND,
        apart=10.0,  # or there would be too few slots for the look-ups
        settings=NEVER_CACHED,
        changed={"CATALOG_SECONDS": 0},
        given_up=CREATE_GIVEN_UP,
    ),
    Case("one instance", "api", api, _one, GET_BOUND, given_up=GET_GIVEN_UP),
    Case(f"a list of {LISTED}", "api", api, _many),
    Case(
        "a step of monitor", "monitor", monitor, monitor_event, STEP_BOUND, apart=31.0, given_up=STEP_GIVEN_UP
    ),
    Case("a webhook", "webhook", webhook, webhook_event),
)


def rows() -> Iterator[Row]:
    with stage() as place:
        for case in CASES:
            yield from _measured(case, lambda: place.harness(**case.settings))  # noqa: B023  # used at once


def _measured(case: Case, new_harness: Callable[[], Harness]) -> Iterator[Row]:
    ours, bare = in_turn(case, new_harness(), CALLS)
    parts = zip(_medians(ours), _medians(bare), strict=True)
    ratios = [one / other for one, other in parts]
    anchor = f"{1000 * median(bare):.1f} ms bare; ours {1000 * median(ours):.1f}"
    yield Row(
        "warm",
        case.name,
        median(ratios),
        "times",
        case.bound,
        anchor=anchor,
        spread=half_spread(ratios),
        given_up=case.given_up,
    )
    yield from _made_up(case, new_harness(), median(ours), median(bare))


def _made_up(case: Case, harness: Harness, ours: float, bare: float) -> Iterator[Row]:
    calls = max(CALLS, round(LOOKED_AT / ours))
    with sampled() as sampler, _counted(sampler) as made:
        in_turn(case, harness, calls, sampler)
    own, other = (sampler.shares(who) for who in WHO)
    for name, share in own.items():
        if share >= LEAST:
            beside = f"{1000 * bare * other.get(name, 0.0):.2f} bare"
            yield _part(case, name, 1000 * ours * share, "ms", beside)
    requests, fewest = (made[who] / (NOT_COUNTED + calls) for who in WHO)
    yield _part(case, "requests to AWS made", requests, "", f"{fewest:.3g} bare")


@contextmanager
def _counted(sampler: Sampler) -> Iterator[Counter[str]]:
    """Requests to AWS, by who makes them."""
    made, make = Counter[str](), Endpoint.make_request

    def counting(self: Endpoint, *asked: Any) -> Any:
        made[sampler.running] += 1
        return make(self, *asked)

    with patch.object(Endpoint, "make_request", counting):
        yield made


def _part(case: Case, name: str, value: float, unit: str, beside: str) -> Row:
    return Row("warm", f"{case.name}: {name}", value, unit, anchor=beside, is_part=True)


def in_turn(
    case: Case, harness: Harness, calls: int, sampler: Sampler | None = None
) -> tuple[list[float], list[float]]:
    """Seconds of CPU for each call: ours, and those of the bare handler."""
    events = case.event(harness), case.event(harness)
    before = [item for item in harness.items() if item["pk"]["S"] in _subjects(events)]
    clock = Clock()
    clock.now = datetime.now(UTC)
    handlers = _ours(case, harness, clock), _bare(case, harness, clock)
    ours, bare = list[float](), list[float]()
    sampler = sampler or Sampler()
    with _silent():
        for call in range(NOT_COUNTED + calls):
            if call == NOT_COUNTED:
                gc.collect()
                gc.freeze()
            for item in before:  # so that there is the same to do again
                harness.dynamodb.put_item(TableName=harness.table_name, Item=item)
            clock.advance(case.apart)
            for who, handler, event, spent in zip(WHO, handlers, events, (ours, bare), strict=True):
                asked_anew(event)
                sampler.running = who
                began = time.process_time()
                answer = handler(event, Context())
                spent.append(time.process_time() - began)
                sampler.running = ""
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
