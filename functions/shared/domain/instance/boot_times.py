"""How long machines take to come up, learned from those that did; and from when on looking is worth it.

Boot times are taken as log-normal: never below zero, a long tail to the right.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import NormalDist, fmean

BOOT_TIMES_KEPT = 100  # the last so many boots are "lately"
_FEW = 4  # fewer teach nothing
_USUAL = timedelta(minutes=4)  # where nothing is known
# Until many have been seen, their spread is drawn towards this, as if so many had been seen that spread so.
_USUAL_SPREAD, _USUAL_WEIGHT = 0.4, 3
_NARROWEST = 0.05
_EARLIEST = 0.005  # the share that may be up before anybody looks

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


def first_look(boot: BootEstimate) -> float:
    """Seconds after the start before which hardly any is up."""
    return boot.quantile(_EARLIEST)
