"""Whether the money at Novita lasts for a day at the present rate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING

from functions.reconcile.turns import is_turn
from functions.shared.domain.errors import CallerError, NovitaForNow, NovitaRefused
from functions.shared.domain.instance.fleet import Fleet
from functions.shared.platform.observability import BALANCE_LOW, logger, measure

if TYPE_CHECKING:
    from functions.shared.novita.client import Novita
    from functions.shared.platform.invocation import TimeBudget

_EVERY = 5  # sweeps from one look to the next
_HOURS = 24


@dataclass(frozen=True)
class WatchBalance:
    novita: Novita
    clock: Callable[[], datetime]
    budget: TimeBudget

    def __call__(self, fleet: Fleet) -> None:
        """Novita is not asked where nothing costs anything. What it does not tell is no alarm."""
        if not is_turn(self.clock(), _EVERY) or not self.budget.may_repair():
            return
        rate = sum((one.read().usd_per_hour for one in fleet), Decimal())
        available = self._available() if rate else None
        if available is not None and available < rate * _HOURS:
            logger.warning("balance low", available=str(available), per_hour=str(rate))
            measure(BALANCE_LOW)

    def _available(self) -> Decimal | None:
        try:
            return self.novita.balance(within=self.budget.to_repair_after()).get("availableUsd")
        except (NovitaForNow, NovitaRefused, CallerError) as error:
            logger.info("balance unknown", code=error.code)
            return None
