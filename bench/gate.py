"""Circuits and limiter in one, and always open: for what is measured without them."""

from collections.abc import Callable

from functions.shared.domain.resilience import CallPermit, Permit, SlotClass


class OpenGate:
    def ask(
        self,
        name: str,
        *,
        must_pass: bool = False,  # noqa: ARG002  # the protocol's name
        may_probe: bool = True,  # noqa: ARG002  # the protocol's name
    ) -> Permit:
        return CallPermit(name, 0)

    def succeeded(self, permit: Permit) -> None:
        pass

    def failed(self, permit: Permit) -> None:
        pass

    def unused(self, permit: Permit) -> None:
        pass

    def enter(
        self, kind: SlotClass, wait_at_most: float, wait: Callable[[float], None], *, buying: bool = False
    ) -> None:
        pass

    def pause(self, seconds: float) -> None:
        pass
