"""What machines have cost, from the simulator's own intervals: bills, and a balance that runs out."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from local.novita.machines import Machine

if TYPE_CHECKING:
    from local.novita.state import SimulatorState

_DAY, _HOUR = 86_400, 3600
_PRICES_PER_BILLED = 10  # prices are in 1/100,000 USD, bills in 1/10,000
_FREE_STORAGE, _STORAGE_PRICE = 60, 500  # GB, and 1/100,000 USD for a GB and day


def cost(machine: Machine, begin: float, end: float, now: float) -> float:
    """In 1/10,000 USD, with the disk while it is stopped."""
    terms = machine.terms
    running = _seconds(machine.billed(now), begin, end, now) / _HOUR * terms.unit_price * terms.gpu_num
    paid_storage = max(0, machine.rootfs_size - _FREE_STORAGE) * _STORAGE_PRICE
    stored = _seconds(machine.stored(now), begin, end, now) / _DAY * paid_storage
    return (running + stored) / _PRICES_PER_BILLED


def _seconds(spans: list[tuple[float, float | None]], begin: float, end: float, now: float) -> float:
    parts = (min(now if to is None else to, end) - max(start, begin) for start, to in spans)
    return sum(part for part in parts if part > 0)


def days(begin: int, end: int) -> Iterator[tuple[int, int]]:
    """The days (UTC) that this time touches, each from its begin to its end."""
    first = begin - begin % _DAY
    for start in range(first, end, _DAY):
        yield start, min(start + _DAY, end)


def available_balance(state: "SimulatorState") -> int:
    """In 1/10,000 USD."""
    settings, now = state.settings, state.clock.now()
    if not settings.balance_enough:
        return 0
    if not settings.spend_balance:
        return settings.balance
    spent = sum(cost(machine, 0, now, now) for machine in state.machines.values())
    return max(0, round(settings.balance - spent))


def has_money(state: "SimulatorState") -> bool:
    return state.settings.balance_enough and available_balance(state) > 0
