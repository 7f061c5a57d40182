"""What every attempt passes first: a circuit that may refuse, and a limiter that may ask for a wait."""

from collections.abc import Callable
from typing import Literal, Protocol

from functions.shared.domain.circuit import Permit

Circuit = Literal["reads", "buys", "actions"]
Slot = Literal["normal", "urgent"]


class Circuits(Protocol):
    def ask(self, name: str, *, must_pass: bool = False, may_probe: bool = True) -> Permit: ...

    def succeeded(self, permit: Permit) -> None: ...

    def failed(self, permit: Permit) -> None: ...

    def unused(self, permit: Permit) -> None:
        """Nothing was sent on it."""


class Limiter(Protocol):
    def enter(
        self, kind: Slot, wait_at_most: float, wait: Callable[[float], None], *, buying: bool = False
    ) -> None:
        """Returns when the call may be sent, or raises NotNow where that is later than `wait_at_most`."""

    def pause(self, seconds: float) -> object: ...
