"""What every attempt passes first: a circuit that may refuse, and a limiter that may ask for a wait."""

from collections.abc import Callable
from typing import Literal, Protocol

from functions.shared.domain.circuit import Go, Permit

Circuit = Literal["reads", "buys", "actions"]
Slot = Literal["normal", "urgent"]


class Circuits(Protocol):
    def ask(self, name: str, *, must_pass: bool = False) -> Permit: ...

    def succeeded(self, permit: Permit) -> object: ...

    def failed(self, permit: Permit) -> object: ...

    def unused(self, permit: Permit) -> object:
        """Nothing was sent on it."""


class Limiter(Protocol):
    def enter(
        self, kind: Slot, wait_at_most: float, wait: Callable[[float], None], *, buying: bool = False
    ) -> None:
        """Returns when the call may be sent, or raises NotNow where that is later than `wait_at_most`."""

    def pause(self, seconds: float) -> object: ...


class OpenGate:
    """Both in one, and always open."""

    def ask(self, name: str, *, must_pass: bool = False) -> Permit:  # noqa: ARG002 - the protocol's name
        return Go(name, None)

    def succeeded(self, permit: Permit) -> None:
        pass

    def failed(self, permit: Permit) -> None:
        pass

    def unused(self, permit: Permit) -> None:
        pass

    def enter(
        self, kind: Slot, wait_at_most: float, wait: Callable[[float], None], *, buying: bool = False
    ) -> None:
        pass

    def pause(self, seconds: float) -> None:
        pass
