"""One invocation: the time it has, and whatever use case it needs, composed for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, TypeVar, cast

if TYPE_CHECKING:  # imported when first used: no function pays at its cold start for what only others do
    from functions.api.cursors import Cursors
    from functions.shared.engine.compare_by_pages import CompareByPages
    from functions.shared.engine.repair import Repair
    from functions.shared.engine.shared_polling import SharedPolling
    from functions.shared.platform.wiring import Wiring
    from functions.shared.stores.jobs import JobCounts

T = TypeVar("T")

# What is kept back, in seconds, so that an invocation never ends in the middle of something.
_TO_SAVE = 10.0  # what a call, a purchase or a health check taught is written, with the SDK's own retries
_TO_REPAIR = 5.0  # one difference of the comparison is written
_TO_ENQUEUE = 15.0  # whoever read the list for all has its own step to finish as well
_TO_ANNOUNCE = 30.0  # one event's webhook: what the table and then the queue may take not to answer
_TO_PUBLISH = 8.0 + _TO_ANNOUNCE  # what SNS may take not to answer
_TO_COUNT = 25.0  # what the SDK may take to find out that the table does not answer: counting is not worth it

_LONGEST_CALL = 20.0  # what one step gives a call to Novita with its retries, however long it may live


@dataclass(frozen=True)
class TimeBudget:
    """The seconds that an invocation has left, and what of them may be spent on what."""

    left: Callable[[], float]

    def at_most(self, seconds: float, clock: Callable[[], datetime]) -> TimeBudget:
        until = clock() + timedelta(seconds=seconds)
        return TimeBudget(lambda: min(self.left(), (until - clock()).total_seconds()))

    def to_call(self) -> float:
        return min(_LONGEST_CALL, self.to_save_after())

    def to_save_after(self) -> float:
        """For what is followed by a write: a purchase, a health check."""
        return self.left() - _TO_SAVE

    def to_repair_after(self) -> float:
        return self.left() - _TO_REPAIR

    def lifetime(self) -> timedelta:
        """By then whoever runs now is done or dead."""
        return timedelta(seconds=self.left() + _TO_SAVE)

    def may_repair(self) -> bool:
        return self.left() >= _TO_REPAIR

    def may_sweep(self) -> bool:
        return self.left() >= _TO_SAVE

    def may_enqueue(self) -> bool:
        return self.left() >= _TO_ENQUEUE

    def may_publish(self) -> bool:
        return self.left() >= _TO_PUBLISH

    def may_announce(self) -> bool:
        return self.left() >= _TO_ANNOUNCE

    def may_count(self) -> bool:
        return self.left() >= _TO_COUNT


@cache
def _filled_when_used(kind: Any) -> Any:
    def fill(composed: Any, name: str) -> Any:
        if name not in kind.__dataclass_fields__:
            raise AttributeError(name)
        value = vars(composed)[name] = vars(composed)["_run"].find(name)
        return value

    return type(kind.__name__, (kind,), {"__getattr__": fill})


class Invocation:
    """Lives as long as one event is handled. What lives longer is in the wiring."""

    def __init__(self, wiring: Wiring, budget: TimeBudget) -> None:
        self.wiring = wiring
        self.budget = budget

    def at_most(self, seconds: float) -> Invocation:
        """The same with less time."""
        return Invocation(self.wiring, self.budget.at_most(seconds, self.wiring.clock))

    def compose(self, kind: type[T]) -> T:
        """A use case is a dataclass that names what it needs. Each field without a default is filled by its
        name when it is first used: no request pays for what only another one needs."""
        composed: T = object.__new__(_filled_when_used(cast(Any, kind)))
        vars(composed)["_run"] = self
        return composed

    def find(self, name: str) -> Any:
        """From here, from the wiring or from the settings."""
        for source in (self, self.wiring, self.wiring.settings):
            if hasattr(type(source), name) or name in vars(source):
                return getattr(source, name)
        raise AttributeError(f"nothing is named {name}")

    @property
    def deployment(self) -> Callable[[], str]:
        return self.wiring.deployment.id

    @property
    def job_counts(self) -> JobCounts:
        from functions.shared.stores.jobs import JobCounts

        return JobCounts(self.wiring.table, self.budget.may_count, self.wiring.clock)

    @property
    def cursors(self) -> Cursors:
        from functions.api.cursors import Cursors

        return Cursors(self.wiring.cursor_secret.value)

    @cached_property
    def shared_polling(self) -> SharedPolling:
        from functions.shared.engine.shared_polling import SharedPolling

        return self.compose(SharedPolling)

    @property
    def by_pages(self) -> Callable[[], CompareByPages]:
        """Seldom needed."""

        def by_pages() -> CompareByPages:
            from functions.shared.engine.compare_by_pages import CompareByPages

            return self.compose(CompareByPages)

        return by_pages

    @property
    def repair(self) -> Repair:
        from functions.shared.engine.repair import Repair

        return self.compose(Repair)
