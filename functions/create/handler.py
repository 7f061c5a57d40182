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
    SpendingRefused,
)
from functions.shared.domain.ids import machine_name
from functions.shared.domain.instance.boot_times import BootEstimate
from functions.shared.domain.instance.decision import Decision
from functions.shared.domain.instance.observations import (
    Buy,
    CallPostponed,
    CallRefused,
    FindOffer,
    Observation,
    OfferFound,
    OfferNotFound,
    PurchasesRead,
)
from functions.shared.domain.instance.progress import PURCHASES_PAUSED
from functions.shared.domain.instance.purchases import intend, refused_offers, still_buying
from functions.shared.domain.instance.record import Instance, Purchase, PurchaseOutcome, Queue, Spec
from functions.shared.domain.instance.recovery import fallback, offer_found
from functions.shared.domain.market import Choice, Order, RegistryAuth, Template, with_variables
from functions.shared.engine.consumer import consume_steps
from functions.shared.engine.step import UNPROVEN_KEY, StepCalls, postponed
from functions.shared.platform.observability import ACCOUNT_REFUSALS, PURCHASES, logger, measure, metered
from functions.shared.platform.wiring import prepare, wiring

if TYPE_CHECKING:
    from functions.shared.engine.catalog import Catalog
    from functions.shared.engine.step import CallHandlers
    from functions.shared.novita.client import Novita
    from functions.shared.platform.invocation import TimeBudget
    from functions.shared.stores.instances import Instances
    from functions.shared.stores.machines import BootTimes, KeyTrust, PurchaseSwitch


@dataclass(frozen=True)
class BuyMachine:
    instances: Instances
    novita: Novita
    catalog: Catalog
    deployment: Callable[[], str]
    boot_times: BootTimes
    key_trust: KeyTrust
    purchase_switch: PurchaseSwitch
    clock: Callable[[], datetime]
    budget: TimeBudget
    purchase_lease_seconds: float
    offer_max_age: float

    def __call__(self, decision: Decision, _: Buy) -> tuple[Decision, Observation]:
        """One purchase at most: what is learned goes back to decide, which may ask for another."""
        if refused := self._may_not_buy():
            return decision, refused
        try:
            choice, template, spec = self._chosen(decision.record)
        except NovitaForNow as error:
            return decision, postponed(error)
        except (CallerError, NovitaRefused) as error:
            logger.info("no offer", code=error.code, regions=(error.details or {}).get("regions"))
            return decision, _refused(error)
        offer = choice.offers[0]
        logger.info(
            "offer chosen",
            product=offer.product_id,
            region=offer.region,
            price=str(offer.price),
            regions=dict(choice.reasons),
        )
        return self._purchase(decision, choice, template, spec)

    def find_offer(self, decision: Decision, _: FindOffer) -> tuple[Decision, Observation]:
        """Whether it could be bought now, and paid for; the offer itself is chosen when it is bought."""
        if refused := self._may_not_buy():
            return decision, refused
        try:
            found = OfferFound(self._chosen(decision.record)[0].offers[0].price)
            self.instances.require_room(offer_found(decision, found).record)
        except NovitaForNow as error:
            return decision, postponed(error)
        except (CallerError, NovitaRefused) as error:
            return decision, OfferNotFound(error.fault)
        return decision, found

    def _may_not_buy(self) -> CallPostponed | None:
        if not self.key_trust.proven():
            measure(ACCOUNT_REFUSALS, by="unproven")
            return CallPostponed(UNPROVEN_KEY)
        return CallPostponed(PURCHASES_PAUSED) if self.purchase_switch.is_paused() else None

    def _chosen(self, record: Instance) -> tuple[Choice, Template, Spec]:
        """With what is asked for in the end: a recovery may be content with a machine on demand."""
        template = self.catalog.template_to_buy(record.spec.template_id, self.budget.to_save_after())
        if record.spec.env_names:
            template = with_variables(template, self.instances.variables(record.id))
        refused = refused_offers(self.instances.purchases(record.id), self.clock())
        try:
            return self._offers(record.spec, refused), template, record.spec
        except CallerError:
            if (instead := fallback(record)) is None:
                raise
            return self._offers(instead, refused), template, instead

    def _offers(self, spec: Spec, excluded: frozenset[tuple[str, str]]) -> Choice:
        within = self.budget.to_save_after()
        return self.catalog.offers(spec, max_age=self.offer_max_age, excluded=excluded, within=within)

    def _purchase(
        self,
        decision: Decision,
        choice: Choice,
        template: Template,
        spec: Spec,
        auth: RegistryAuth | None = None,
    ) -> tuple[Decision, Observation]:
        if self.budget.to_save_after() < self.novita.purchase_seconds:
            return decision, CallPostponed(Fault("NOVITA_TIMEOUT", "Too little time was left to buy"), 0)
        if self.purchase_switch.read().paused:
            return decision, CallPostponed(PURCHASES_PAUSED)
        now, offer = self.clock(), choice.offers[0]
        number = decision.record.purchases.count + 1
        purchase = Purchase(
            instance_id=decision.record.id,
            number=number,
            name=machine_name(decision.record.name, self.deployment(), decision.record.id, number),
            outcome=PurchaseOutcome.INTENDED,
            intended_at=now,
            lease_until=now + max(timedelta(seconds=self.purchase_lease_seconds), self.budget.lifetime()),
            product_id=offer.product_id,
            region=offer.region,
            price=offer.price,
            expects_endpoints=bool(template.ports),
            billing_mode="" if spec is decision.record.spec else spec.billing_mode,
            reasons=tuple((region, str(reason)) for region, reason in choice.reasons.items()),
        )
        try:
            stored = self.instances.intend(intend(decision, purchase), purchase)
        except SpendingRefused as error:
            logger.info("not bought", code=error.code, details=error.details)
            return decision, CallPostponed(error.fault)
        decision = replace(decision, record=stored, events=(), operations=(), owns=None)
        if not still_buying(self.instances.get(stored.id)):
            fault = Fault("OPERATION_SUPERSEDED", "Not sent")
            self._settle(purchase, PurchaseOutcome.REFUSED, fault=fault)
            return decision, self._purchases(stored.id)
        order = Order(
            purchase.name,
            offer,
            template,
            spec.gpu_num,
            spec.rootfs_size,
            spec.billing_mode,
            tuple((one.id, one.mount_path) for one in spec.network_volumes),
        )
        try:
            return decision, self._call(purchase, order, auth)
        except ImageAuthRefused as error:
            self._settle(purchase, PurchaseOutcome.REFUSED, fault=error.fault)
        try:  # for one more call, and never stored
            resolved = self.novita.registry_auth(template.image_auth, within=self.budget.to_save_after())
        except NovitaForNow as error:
            return decision, postponed(error)
        except (NotFound, NovitaRefused) as error:
            return decision, _refused(error)
        return self._purchase(decision, choice, template, spec, resolved)

    def _call(self, purchase: Purchase, order: Order, auth: RegistryAuth | None) -> Observation:
        try:
            machine_id = self.novita.create(order, auth, within=self.budget.to_save_after())
        except ImageAuthRefused:
            raise
        except NoCapacity as error:
            self._settle(purchase, PurchaseOutcome.REFUSED, fault=error.fault)
        except (NovitaRefused, NotFound) as error:
            self._settle(purchase, PurchaseOutcome.REFUSED, fault=error.fault)
            return _refused(error)
        except NotNow as error:  # nothing was sent
            self._settle(purchase, PurchaseOutcome.REFUSED, fault=error.fault)
            return postponed(error)
        except OutcomeUnclear as error:
            self._settle(purchase, PurchaseOutcome.UNCLEAR, fault=error.fault)
        else:
            self._settle(purchase, PurchaseOutcome.BOUGHT, machine_id=machine_id)
            boot = self.boot_times.expected("create", purchase.product_id, purchase.region)
            return self._purchases(purchase.instance_id, boot)
        return self._purchases(purchase.instance_id)

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

    def _purchases(self, instance_id: str, boot: BootEstimate | None = None) -> PurchasesRead:
        return PurchasesRead(self.instances.purchases(instance_id), boot)


def _refused(error: OstlerError) -> CallRefused:
    return CallRefused(error.fault, wait_seconds=error.retry_after)


prepare("create")


@metered
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    run = wiring("create").invocation(context)
    buy = run.compose(BuyMachine)
    handlers: CallHandlers = {**run.compose(StepCalls).handlers(), Buy: buy, FindOffer: buy.find_offer}
    return consume_steps(event, context, run, Queue.CREATE, handlers)
