"""A function as a value: it is told again what it learned, makes one more call, and stops before the next."""

from collections.abc import Callable
from datetime import datetime
from typing import Any, cast

from functions.shared.domain.instance.record import Instance
from tests.explorer import promises, small_novita, store
from tests.explorer.world import Call, HeldKey, Worker, World

_MOST_CALLS = 20  # of one function: machines to give back, a look-up, purchases, and what they write
_STORED = frozenset({"save", "intend", "settle", "note purchase", "read again"})


class Suspended(BaseException):
    """Here others may come before it: no code of the functions' may catch this."""

    def __init__(self, call: Call) -> None:
        self.call = call


class Replay:
    """A function in a world. What it learned before is told again; then one more call is made."""

    def __init__(self, world: World, worker: Worker, outcome: str | None, *, whole: bool = False) -> None:
        self.world = world
        self.worker = worker
        self.learned = list(worker.learned)
        self._told = 0
        self._outcome = outcome
        self._whole = whole  # every call is made at once, and goes well
        self._calls = 0
        self._read_again: Instance | None = None  # right before a purchase
        self.key: HeldKey | None = None
        self.deciding: Instance | None = None  # what the step will save, with the action that it takes now

    def make(self, call: Call) -> Any:
        self._calls += 1
        promises.require(self._calls <= _MOST_CALLS, f"one {self.worker.kind} makes no end of calls")
        if self._told == len(self.learned):
            if self._outcome is None and not self._whole:
                raise Suspended(call)
            outcome, self._outcome = self._outcome or "ok", None
            world = self.world.ticked()
            if call.kind == "create":
                promises.check_still_wanted(self._read_again)
            self.learned.append(self._performed(world, call, outcome))
        answer = self._next()
        if isinstance(answer, BaseException):
            raise answer
        if call.kind == "read again":
            self._read_again = answer
        return answer

    def _performed(self, world: World, call: Call, outcome: str) -> Any:
        if call.kind == "probe":
            self.world = world
            return outcome == "ok"
        answer: Any
        if call.kind in _STORED:
            self.world, answer = store.perform(world, call)
        else:
            self.world, answer = small_novita.perform(world, call, outcome)
        return answer

    def see(self, look: Callable[[World], Any]) -> Any:
        """What nobody can come before, or need not."""
        if self._told == len(self.learned):
            self.learned.append(look(self.world))
        return self._next()

    def change(self, do: Callable[[World], World]) -> None:
        if self._told == len(self.learned):
            self.world = do(self.world)
            self.learned.append(None)
        self._next()

    def _next(self) -> Any:
        self._told += 1
        return self.learned[self._told - 1]

    def clock(self) -> datetime:
        return cast(datetime, self.see(lambda world: world.now))
