"""Whether a machine's GPUs were idle, by Novita's metrics of a whole window; or that this cannot be told."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

# Of one GPU its id and, in any order, times and percent.
GpuSeries = tuple[tuple[str, tuple[tuple[datetime, float], ...]], ...]

_LAG = timedelta(minutes=2)  # what is newer may not be there yet: Novita documents a minute
_LEAST_INTERVAL = timedelta(seconds=30)
_MOST_SAMPLES = 300


def sample_interval(window: timedelta) -> timedelta:
    """Between two samples: few for a long window, and still some for the shortest."""
    seconds = max(_LEAST_INTERVAL.total_seconds(), window.total_seconds() // _MOST_SAMPLES)
    return timedelta(seconds=round(seconds))


@dataclass(frozen=True)
class GpuVerdict:
    known: bool  # False: it cannot be told, which counts as in use
    busy_at: datetime | None = None  # when one of them was last seen at work


_UNKNOWN = GpuVerdict(known=False)


def judge_gpu_use(
    series: GpuSeries | None, *, gpus: int, below: float, window: timedelta, now: datetime
) -> GpuVerdict:
    """Idle only if every GPU was below the mark in every sample, and the samples cover the window."""
    if series is None or len({gpu for gpu, _ in series}) < gpus:
        return _UNKNOWN
    begin, longest_gap = now - window, 3 * sample_interval(window)
    # Novita documents no unit: where nothing is above 1 these may be shares, and 1 all of a GPU.
    shares = all(used <= 1 for _, samples in series for at, used in samples if begin <= at <= now)
    mark = below / 100 if shares else below
    busy: list[datetime] = []
    for _, samples in series:
        within = sorted((at, used) for at, used in samples if begin <= at <= now)
        busy += [at for at, used in within if not used < mark]  # NaN is busy
        times = [begin, *(at for at, _ in within), max(begin, now - _LAG)]
        gaps = (later - earlier for earlier, later in pairwise(times))
        if not within or any(gap > longest_gap for gap in gaps):
            return _UNKNOWN if not busy else GpuVerdict(known=True, busy_at=max(busy))
    return GpuVerdict(known=True, busy_at=max(busy, default=None))
