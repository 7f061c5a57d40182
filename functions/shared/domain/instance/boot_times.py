"""How long machines take to come up, learned from those that did; and when to look, to know it soon.

Boot times are taken as log-normal: never below zero, a long tail to the right. Looks are placed where
readiness is likely: of all plans that cost no more looks than a fixed interval would, the one that notices
soonest.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import accumulate, pairwise
from statistics import NormalDist, fmean

BOOT_TIMES_KEPT = 100  # the last so many boots are "lately"
_FEW = 4  # fewer teach nothing
_USUAL = timedelta(minutes=4)  # where nothing is known
# Until many have been seen, their spread is drawn towards this, as if so many had been seen that spread so.
_USUAL_SPREAD, _USUAL_WEIGHT = 0.4, 3
_NARROWEST = 0.05
_FINEST = 0.5  # seconds between two looks at the least
_TAIL = 0.999  # beyond this no plan: what takes so long may take any time
_POINTS = 250  # times that are considered, evenly spread
_HALVINGS = 12
_ALIKE = 1.02

_normal = NormalDist()


@dataclass(frozen=True)
class BootEstimate:
    """How long it may take: the logarithm of seconds, its mean and its spread."""

    log_mean: float
    log_spread: float

    @property
    def median_seconds(self) -> float:
        return math.exp(self.log_mean)

    def quantile(self, share: float) -> float:
        return math.exp(self.log_mean + self.log_spread * _normal.inv_cdf(share))

    def still_out(self, seconds: float) -> float:
        """The chance that it takes longer."""
        if seconds <= 0:
            return 1.0
        return 1 - _normal.cdf((math.log(seconds) - self.log_mean) / self.log_spread)


@dataclass(frozen=True)
class BootTime:
    """One that came up: what it was, and how long that took."""

    kind: str  # "create", "start" or "restart"
    product_id: str
    region: str
    seconds: float


def estimate_from(boot_times: Sequence[float]) -> BootEstimate | None:
    """From the seconds that the last boots took; None where they are too few to tell."""
    logs = [math.log(max(seconds, 0.1)) for seconds in boot_times[-BOOT_TIMES_KEPT:]]
    if len(logs) < _FEW:
        return None
    mean = fmean(logs)
    squares = sum((one - mean) ** 2 for one in logs) + _USUAL_WEIGHT * _USUAL_SPREAD**2
    variance = squares / (len(logs) - 1 + _USUAL_WEIGHT)
    spread = math.sqrt(variance * (1 + 1 / len(logs)))  # the mean itself is only known so well
    return BootEstimate(round(mean, 3), max(_NARROWEST, round(spread * 50) / 50))


def expected_ready_at(now: datetime, boot: BootEstimate | None) -> datetime:
    """When what begins now is likely to be up."""
    return now + (timedelta(seconds=boot.median_seconds) if boot else _USUAL)


def plan_looks(boot: BootEstimate, interval: float) -> tuple[float, ...]:
    """When to look, in seconds after the start; after the last of them the interval goes on."""
    # The plan keeps its shape when all times are stretched alike, so a few shapes serve all: those whose
    # interval is a power of this, the next longer one, which never costs more looks.
    median = boot.median_seconds
    alike = _ALIKE ** math.ceil(math.log(interval / median, _ALIKE))
    return tuple(median * at for at in _shape(boot.log_spread, alike))


@lru_cache(maxsize=256)
def _shape(spread: float, interval: float) -> tuple[float, ...]:
    """For a median of 1: the plan that notices soonest among those that need few enough looks."""
    boot = BootEstimate(0.0, spread)
    first, last = boot.quantile(1 - _TAIL), boot.quantile(_TAIL)
    affordable = sum(boot.still_out(n * interval) for n in range(math.ceil(last / interval) + 1))
    times = [0.0, *(first + (last - first) * point / (_POINTS - 1) for point in range(_POINTS))]
    out = [boot.still_out(at) for at in times]
    # A price beyond which nobody looks before the end, and one so low that every look is worth it.
    dear, cheap = 1e4 * last, last / _POINTS**2
    best = _cheapest(times, out, dear)
    for _ in range(_HALVINGS):
        price = math.sqrt(dear * cheap)
        found = _cheapest(times, out, price)
        if sum(boot.still_out(before) for before in (0.0, *found[:-1])) > affordable:
            cheap = price
        else:
            dear, best = price, found
    return best


def _cheapest(times: Sequence[float], out: Sequence[float], price: float) -> tuple[float, ...]:
    """From the end to the beginning: the next look that makes delay and looks, at this price each, least."""
    slices = ((b - a) * (p + q) / 2 for (a, b), (p, q) in zip(pairwise(times), pairwise(out), strict=True))
    waited = list(accumulate(slices, initial=0.0))  # the time that it is still out, on average
    last = len(times) - 1
    cost, then = [0.0] * (last + 1), [last] * (last + 1)
    for here in range(last - 1, -1, -1):
        cost[here] = math.inf
        for there in range(here + 1, last + 1):
            delay = out[here] * (times[there] - times[here]) - (waited[there] - waited[here])
            total = delay + price * out[here]
            if total >= cost[here]:  # and it only grows from here
                break
            if total + cost[there] < cost[here]:
                cost[here], then[here] = total + cost[there], there
    found, here = [], 0
    while here < last:
        here = then[here]
        found.append(times[here])
    return tuple(found)


def next_look(planned: Sequence[float], elapsed: float, interval: float) -> float:
    """Seconds from the start at which to look next."""
    return next((at for at in planned if at >= elapsed + _FINEST), elapsed + interval)
