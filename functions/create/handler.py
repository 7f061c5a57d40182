"""Consumer of the create queue: choose an offer, store the intent, make one call, store its outcome."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from functions.shared.domain.errors import (
    CallerError,
    Fault,
    ImageAuthRefused,
    NoCapacity,
    NotFound,
    NotNow,
    NovitaForNow,
    NovitaRefused,
    OstlerError,
    OutcomeUnclear,
)
from functions.shared.domain.ids import machine_name
from functions.shared.domain.instance.decision import Decision
from functions.shared.domain.instance.observations import (
    Buy,
    CallPostponed,
    CallRefused,
    Observation,
    PurchasesRead,
)
from functions.shared.domain.instance.record import Instance, Purchase, PurchaseOutcome, Queue
from functions.shared.domain.instance.status import Status
from functions.shared.domain.market import Offer, Order, RegistryAuth, Template
from functions.shared.engine.consumer import consume_steps
from functions.shared.engine.step import fault_of
from functions.shared.platform.log import logger
from functions.shared.platform.metrics import PURCHASES, measure, metered
from functions.shared.platform.wiring import wiring

if TYPE_CHECKING:
    from functions.shared.engine.catalog import Catalog
    from functions.shared.novita.client import Novita
    from functions.shared.stores.instances import Instances

# What may change before the deadline: stock, prices, and a key that is just being rotated.
_MAY_PASS = frozenset({"NO_OPTIMAL_PRODUCT_ANY_REGION", "PRICE_CAP_EXCEEDED", "NOVITA_AUTHENTICATION_FAILED"})
_SPARE_SECONDS = 8.0  # left to store what became of a call
_REFUSAL_HOLDS = timedelta(seconds=60)  # an offer refused for capacity is not asked for again so soon


@dataclass(frozen=True)
class BuyMachine:
    instances: Instances
    novita: Novita
    catalog: Catalog
    deployment: Callable[[], str]
    clock: Callable[[], datetime]
    time_left: Callable[[], float]
    lease: timedelta
    offer_max_age: float
    poll_seconds: float

    def buy(self, decision: Decision, _: Buy) -> tuple[Decision, Observation]:
        """One purchase at most: what is learned goes back to decide, which may ask for another."""
        record = decision.record
        try:
            offer, template = self._chosen(record)
        except NovitaForNow as error:
            return decision, self._later(error)
        except (CallerError, NovitaRefused) as error:
            return decision, self._later_or_never(error)
        return self._purchase(decision, offer, template)

    def _chosen(self, record: Instance) -> tuple[Offer, Template]:
        template = self.catalog.template_to_buy(record.spec.template_id, self._within())
        since = self.clock() - _REFUSAL_HOLDS
        refused = {
            (purchase.product_id, purchase.region)
            for purchase in self.instances.purchases(record.id)
            if purchase.short_of_capacity and purchase.ended_at and purchase.ended_at > since
        }
        choice = self.catalog.offers(
            record.spec, max_age=self.offer_max_age, excluded=frozenset(refused), within=self._within()
        )
        return choice.offers[0], template

    def _purchase(
        self, decision: Decision, offer: Offer, template: Template, auth: RegistryAuth | None = None
    ) -> tuple[Decision, Observation]:
        if self.time_left() < self.novita.purchase_seconds + _SPARE_SECONDS:
            return decision, CallPostponed(Fault("NOVITA_TIMEOUT", "Too little time was left to buy"), 0)
        now = self.clock()
        number = decision.record.purchases + 1
        purchase = Purchase(
            instance_id=decision.record.id,
            number=number,
            name=machine_name(decision.record.name, self.deployment(), decision.record.id, number),
            outcome=PurchaseOutcome.INTENDED,
            intended_at=now,
            lease_until=now + max(self.lease, timedelta(seconds=self.time_left() + _SPARE_SECONDS)),
            product_id=offer.product_id,
            region=offer.region,
            price=offer.price,
            expects_endpoints=bool(template.ports),
        )
        # Due when the lease ends: if this function dies now, the sweep finds out what became of it.
        intending = decision.having(purchases=number, unsettled=True, next_check_at=purchase.lease_until)
        stored = self.instances.intend(intending, purchase)
        decision = replace(decision, record=stored, events=(), operations=())
        fresh = self.instances.get(stored.id)
        if fresh is None or fresh.status is not Status.CREATING:
            self._settle(purchase, PurchaseOutcome.REFUSED, fault=Fault("OPERATION_SUPERSEDED", "Not sent"))
            return decision, self._books(stored.id)
        spec = stored.spec
        order = Order(purchase.name, offer, template, spec.gpu_num, spec.rootfs_size, spec.billing_mode)
        try:
            return decision, self._call(purchase, order, auth)
        except ImageAuthRefused as error:
            self._settle(purchase, PurchaseOutcome.REFUSED, fault=fault_of(error))
        try:  # for one more call, and never stored
            resolved = self.novita.registry_auth(template.image_auth, within=self._within())
        except NovitaForNow as error:
            return decision, self._later(error)
        except (NotFound, NovitaRefused) as error:
            return decision, self._later_or_never(error)
        return self._purchase(decision, offer, template, resolved)

    def _call(self, purchase: Purchase, order: Order, auth: RegistryAuth | None) -> Observation:
        try:
            machine_id = self.novita.create(order, auth, within=self._within())
        except ImageAuthRefused:
            raise
        except NoCapacity as error:
            self._settle(purchase, PurchaseOutcome.REFUSED, fault=fault_of(error))
        except (NovitaRefused, NotFound) as error:
            self._settle(purchase, PurchaseOutcome.REFUSED, fault=fault_of(error))
            return self._later_or_never(error)
        except NotNow as error:  # nothing was sent
            self._settle(purchase, PurchaseOutcome.REFUSED, fault=fault_of(error))
            return self._later(error)
        except OutcomeUnclear as error:
            self._settle(purchase, PurchaseOutcome.UNCLEAR, fault=fault_of(error))
        else:
            self._settle(purchase, PurchaseOutcome.BOUGHT, machine_id=machine_id)
        return self._books(purchase.instance_id)

    def _settle(
        self,
        purchase: Purchase,
        outcome: PurchaseOutcome,
        machine_id: str | None = None,
        fault: Fault | None = None,
    ) -> None:
        ended = replace(purchase, outcome=outcome, machine_id=machine_id, fault=fault, ended_at=self.clock())
        self.instances.settle(ended)
        measure(PURCHASES, by=outcome)
        logger.info("purchase", outcome=outcome, number=purchase.number, name_at_novita=purchase.name)

    def _books(self, instance_id: str) -> PurchasesRead:
        return PurchasesRead(self.instances.purchases(instance_id))

    def _within(self) -> float:
        return self.time_left() - _SPARE_SECONDS

    def _later_or_never(self, error: OstlerError) -> Observation:
        return self._later(error) if error.code in _MAY_PASS else CallRefused(fault_of(error))

    def _later(self, error: OstlerError) -> CallPostponed:
        return CallPostponed(fault_of(error), error.retry_after or self.poll_seconds)


@metered
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    wired = wiring()
    provision = BuyMachine(
        wired.instances,
        wired.novita,
        wired.catalog,
        wired.deployment.id,
        wired.clock,
        wired.remaining,
        timedelta(seconds=wired.settings.purchase_lease_seconds),
        wired.settings.offer_max_age,
        wired.settings.instance_poll_interval,
    )
    return consume_steps(event, context, wired, Queue.CREATE, {**wired.calls.handlers(), Buy: provision.buy})
