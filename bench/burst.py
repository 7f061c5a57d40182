"""A thousand creates at once: how many are accepted in a second, how soon all are bought, what each takes.

Accepting is measured in CPU time, ours in turn with a bare handler (`bench/bare`); buying on a virtual clock,
at the rate limit, with ten workers for each queue (`bench/shop.py`).
"""

import time
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass
from io import StringIO
from statistics import fmean

from bench.pending import most_in_a_minute, quiet
from bench.shop import BusyShop
from bench.stage import BODY, create_event, request, stage
from bench.table import Row, half_spread
from bench.warm import Case, in_turn
from functions.api.handler import handler as api
from functions.create.handler import handler as create
from functions.shared.platform.observability import choose_metrics
from tests.integration.harness import Context, Harness
from tests.integration.virtual_workers import VirtualWorkers

CREATES = 1000
LIMIT, BOOT_SECONDS = 100, 240.0
LEAST_USED, MOST_IN_A_MINUTE = 95.0, 105  # of the limit, in per cent; calls in any 60 s
CALLS_FOR_ONE = 2  # its template and the purchase; offers are shared
MOST_MINUTES = CREATES * CALLS_FOR_ONE / (LEAST_USED - 30)  # where looks take their 30 %
PURCHASES, AT_ONCE = 100, 10


def rows() -> Iterator[Row]:
    with stage() as place:
        yield from accepting(place.harness())
        yield buying(place.harness())
    yield from at_the_limit(CREATES)


def accepting(harness: Harness) -> Iterator[Row]:
    case = Case("create", "api", api, lambda made: request(made, "POST", "/api/instances", BODY), apart=0.01)
    ours, bare = in_turn(case, harness, CREATES)
    second, other = _per_second(ours), _per_second(bare)
    yield Row(
        "burst",
        "accepted in a second of one core",
        fmean(second),
        "creates",
        least=True,
        anchor=f"{fmean(other):.0f} by a bare handler",
        spread=half_spread(second),
    )
    yield Row(
        "burst", "accepting one", 1000 * fmean(ours), "ms of CPU", anchor=f"{1000 * fmean(bare):.1f} bare"
    )


def buying(harness: Harness) -> Row:
    spent = []
    for _ in range(PURCHASES):
        event = create_event(harness)
        with redirect_stdout(StringIO()), harness.wire.handling("create"):
            began = time.process_time()
            answer = create(event, Context())
            spent.append(time.process_time() - began)
        if answer["batchItemFailures"]:
            raise RuntimeError("nothing was bought")
    return Row("burst", "buying one", 1000 * fmean(spent), "ms of CPU", spread=1000 * half_spread(spent))


def _per_second(spent: list[float]) -> list[float]:
    return [1 / fmean(spent[start : start + AT_ONCE]) for start in range(0, len(spent), AT_ONCE)]


@dataclass(frozen=True)
class Bought:
    number: int
    seconds: float  # until the last
    used: float  # of the limit until then, in per cent
    most_in_a_minute: int
    looks: int


def buy_all(creates: int) -> Bought:
    """All are there in the first moment, and machines that boot are looked at meanwhile."""
    quiet()
    choose_metrics("off")
    shop = BusyShop(LIMIT, BOOT_SECONDS)
    workers, novita, began = VirtualWorkers(shop), shop.novita, shop.now().timestamp()  # type: ignore[arg-type]  # of a harness what they need
    for _ in range(creates):
        workers.at(0, shop.create)
    minutes = 0
    while len(novita.bought) < creates and minutes < creates:
        workers.run(60)
        minutes += 1
    last = max(novita.bought)
    made = sum(at <= last for at in novita.calls)
    return Bought(
        number=len(novita.bought),
        seconds=last - began,
        used=100 * made / (last - began) * 60 / LIMIT,
        most_in_a_minute=most_in_a_minute(novita.calls),
        looks=novita.paths["/gpu/instances"] + novita.paths["/gpu/instance"],
    )


def at_the_limit(creates: int) -> Iterator[Row]:
    seen = buy_all(creates)
    each = f"{CALLS_FOR_ONE} calls for each, {seen.looks} looks meanwhile"
    yield Row(
        "burst", f"until {creates:,} are bought", seen.seconds / 60, "minutes", MOST_MINUTES, anchor=each
    )
    yield Row("burst", "of the limit used until then", seen.used, "%", LEAST_USED, least=True, spread=0.5)
    yield Row("burst", "most calls in 60 s", seen.most_in_a_minute, "", MOST_IN_A_MINUTE)
