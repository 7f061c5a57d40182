"""How the service stands: what the last sweep found, the rate limit used, and Novita's account."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from functions.shared.domain.errors import CallerError, NovitaForNow, NovitaRefused
from functions.shared.domain.ids import timestamp
from functions.shared.platform.observability import logger

if TYPE_CHECKING:
    from functions.shared.novita.client import Novita
    from functions.shared.stores.cache import SharedCache
    from functions.shared.stores.last_sweep import LastSweep
    from functions.shared.stores.machines import KeyTrust, PurchaseSwitch, SwitchState
    from functions.shared.stores.rate_limiter import RateLimiter

_BALANCE = "balance"
_ASK_AGAIN = 60.0  # seconds after Novita did not tell it


def pause_view(state: SwitchState) -> dict[str, Any]:
    view: dict[str, Any] = {"purchasesPaused": state.paused}
    if state.paused and state.at:
        view |= {"pausedAt": timestamp(state.at), "pausedBy": state.by}
    return view


@dataclass(frozen=True)
class ReadStatus:
    last_sweep: LastSweep
    key_trust: KeyTrust
    purchase_switch: PurchaseSwitch
    limiter: RateLimiter
    novita: Novita
    cache: SharedCache
    clock: Callable[[], datetime]
    lookup_seconds: float
    balance_ttl: float
    novita_rate_limit: int

    def __call__(self) -> dict[str, Any]:
        """What is not known is left out: no number is not the number 0."""
        view = {
            **self._sweep(),
            "keyProven": self._key_proven(),
            "rateLimit": self._rate_limit(),
            "balance": self._balance(),
            **pause_view(self.purchase_switch.read()),
        }
        return {name: value for name, value in view.items() if value is not None}

    def _sweep(self) -> dict[str, Any]:
        found = self.last_sweep.read()
        if found is None:
            return {}
        fault = found.fault
        return {
            "lastSweepAt": timestamp(found.swept_at),
            "lastComparedAt": timestamp(found.compared_at) if found.compared_at else None,
            "comparisonComplete": found.complete,
            "comparisonError": {"code": fault.code, "message": fault.message} if fault else None,
            "machines": found.machines,
            "missing": found.missing,
            "orphans": found.orphans,
            "orphanDeletionsHeld": found.deletions_held,
            "stuckCleanups": found.stuck,
        }

    def _key_proven(self) -> bool | None:
        """Unknown where the secret cannot be read."""
        try:
            return self.key_trust.believes(self.novita.key_version())
        except (NovitaForNow, NovitaRefused):
            return None

    def _rate_limit(self) -> dict[str, Any]:
        usage = self.limiter.usage()
        view: dict[str, Any] = {
            "limit": self.novita_rate_limit,
            "windowSeconds": 60,
            "used": sum(usage.used.values()),
            "usedBy": dict(usage.used),
        }
        return view | ({"pausedUntil": timestamp(usage.paused_until)} if usage.paused_until else {})

    def _balance(self) -> dict[str, str] | None:
        """Novita is asked once in a while, for all who ask here; what it does not tell is no error."""
        held = self.cache.held(_BALANCE, self.balance_ttl)
        if held and (held.value or self.cache.age(held) < _ASK_AGAIN):
            return held.value or None
        told = self._ask_balance()
        self.cache.put(_BALANCE, told)
        return told or None

    def _ask_balance(self) -> dict[str, str]:
        try:
            balance = self.novita.balance(within=self.lookup_seconds)
        except (NovitaForNow, NovitaRefused, CallerError) as error:
            logger.info("balance unknown", code=error.code)
            return {}
        usd = {name: f"{amount:.4f}" for name, amount in balance.items()}
        return {**usd, "asOf": timestamp(self.clock())}
