"""A value over time: past steps and planned ones; nothing runs in the background."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Step(Generic[T]):
    at: float
    value: T


@dataclass
class Timeline(Generic[T]):
    steps: list[Step[T]] = field(default_factory=list)

    def step(self, t: float) -> Step[T] | None:
        """The step in force at t; of several at the same time the last counts."""
        return next((step for step in reversed(self.steps) if step.at <= t), None)

    def value(self, t: float) -> T | None:
        step = self.step(t)
        return step.value if step else None

    def until(self, t: float) -> list[Step[T]]:
        return [step for step in self.steps if step.at <= t]

    def replan(self, t: float, steps: Iterable[Step[T]]) -> None:
        """Keep what was before t; what was planned after it gives way to these steps."""
        self.steps = [*self.until(t), *steps]
