"""One line of what `make bench` measures."""

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import quantiles


@dataclass(frozen=True)
class Row:
    """`value` is a ratio or a count; `spread` is how far it moves within one run."""

    group: str
    name: str
    value: float
    unit: str
    bound: float | None = None
    least: bool = False  # more is better, and the bound is the least that is wanted
    anchor: str = ""  # what the value is measured beside
    spread: float = 0.0
    given_up: str = ""  # where the bound does not hold: what would have to be given up for it
    is_part: bool = False  # of what another row measures

    @property
    def holds(self) -> bool:
        if self.bound is None:
            return True
        return self.value >= self.bound if self.least else self.value <= self.bound


def half_spread(values: Iterable[float]) -> float:
    """Half of the distance in which the middle half of them lies."""
    low, _, high = quantiles(values, n=4)
    return (high - low) / 2
