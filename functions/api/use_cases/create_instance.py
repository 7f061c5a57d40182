"""Accepting a create: look up what can be known now, store the instance, queue its first step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any

from functions.api.views import limits_view
from functions.shared.domain.errors import NovitaForNow, lacks_slots
from functions.shared.domain.ids import new_instance_id, timestamp
from functions.shared.domain.instance.boot_times import expected_ready_at
from functions.shared.domain.instance.commands import begin_create
from functions.shared.domain.instance.decision import Decision, Policy
from functions.shared.domain.instance.limits import LimitRules
from functions.shared.domain.instance.reclaim import ReclaimAction
from functions.shared.domain.instance.record import Spec
from functions.shared.domain.market import Choice, with_variables
from functions.shared.domain.money.caps import CapLimits
from functions.shared.platform.observability import INSTANCES_ACCEPTED, correlation_id, logger, measure, timed
from functions.shared.stores.idempotency import ApiResult, IdempotencyKeys, IdempotentRequest
from functions.shared.stores.instances import variables_item
from functions.shared.stores.table import Write

if TYPE_CHECKING:
    from functions.shared.engine.catalog import Catalog
    from functions.shared.engine.step import StepRunner
    from functions.shared.stores.caps import Caps
    from functions.shared.stores.instances import Instances
    from functions.shared.stores.machines import BootTimes, PurchaseSwitch


_DISK_IS_LOST = (
    "If it is taken away and cannot be started again, another machine takes its place: what is on its disk "
    "is lost then; network volumes stay"
)


@dataclass(frozen=True)
class CreateInstance:
    instances: Instances
    idempotency: IdempotencyKeys
    steps: StepRunner
    catalog: Catalog
    boot_times: BootTimes
    purchase_switch: PurchaseSwitch
    caps: Caps
    policy: Policy
    limit_rules: LimitRules
    clock: Callable[[], datetime]
    lookup_seconds: float

    def __call__(
        self,
        *,
        name: str,
        spec: Spec,
        variables: Sequence[tuple[str, str]] = (),
        webhook_url: str | None,
        limits: Mapping[str, Any],
        protected: bool,
        actor: str,
        key_caps: CapLimits,
        request: IdempotentRequest | None,
    ) -> ApiResult:
        # Decided once, with one id: if a try was stored after all, the next must not make a second instance.
        begun = cache(lambda: self._begin(name, spec, webhook_url, limits, protected, actor, key_caps))
        return self.idempotency.once(request, lambda: self._store(*begun(), variables, request), name)

    def _begin(
        self,
        name: str,
        spec: Spec,
        webhook_url: str | None,
        limits: Mapping[str, Any],
        protected: bool,
        actor: str,
        key_caps: CapLimits,
    ) -> tuple[Decision, dict[str, Any]]:
        self.purchase_switch.require_on()
        allowed = self.limit_rules.first(limits, self.clock())
        if key_caps:
            self.caps.let(actor, key_caps)
        with timed("catalog"):
            choice, message = self._look_up(spec)
        if spec.on_reclaim and spec.on_reclaim.action is ReclaimAction.REPLACE:
            message = f"{message}. {_DISK_IS_LOST}"
        offer = choice.offers[0] if choice else None
        region = offer.region if offer else spec.region
        boot = self.boot_times.expected("create", offer.product_id, offer.region) if offer else None
        now = self.clock()
        decision = begin_create(
            instance_id=new_instance_id(now),
            name=name,
            spec=spec,
            webhook_url=webhook_url,
            actor=actor,
            correlation_id=correlation_id(),
            now=now,
            policy=self.policy,
            reasons=[(where, str(why)) for where, why in choice.reasons.items()] if choice else (),
            price=offer.price if offer else None,
            capped=bool(key_caps),
            limits=allowed,
            ceilings=self.limit_rules.ceilings,
            protected=protected,
        )
        body = {
            "instanceId": decision.record.id,
            "status": decision.record.status.value,
            "message": message,
            "estimatedReadyTime": timestamp(expected_ready_at(now, boot)),
        } | ({"region": region} if region else {})
        return decision, body | limits_view(decision.record, now)

    def _store(
        self,
        decision: Decision,
        body: dict[str, Any],
        variables: Sequence[tuple[str, str]],
        request: IdempotentRequest | None,
    ) -> ApiResult:
        result = ApiResult(201, body, f"/api/instances/{decision.record.id}")
        also = [Write(variables_item(decision.record.id, variables))] if variables else []
        also += [self.idempotency.write(request, result)] if request else []
        record = self.instances.add(decision, also)
        logger.info("instance accepted", instance_id=record.id)
        measure(INSTANCES_ACCEPTED)
        self.steps.enqueue(record, decision.now)
        return result

    def _look_up(self, spec: Spec) -> tuple[Choice | None, str]:
        """Both look-ups at once. A definite no is raised, and our own lack of slots; no answer from Novita is
        no error."""
        within = self.lookup_seconds
        with ThreadPoolExecutor(2) as pool:
            template = pool.submit(
                copy_context().run, self.catalog.template, spec.template_id, within, "lookups"
            )
            choice = pool.submit(copy_context().run, self.catalog.quote, spec, within, "lookups")
        try:
            found = choice.result()
            with_variables(template.result(), [(name, "") for name in spec.env_names])
        except NovitaForNow as error:
            # The other look-up may have a definite no all the same.
            for other in (template, choice):
                if other.exception() and not isinstance(other.exception(), NovitaForNow):
                    other.result()
            for one in (template, choice):
                if lacks_slots(one.exception()):
                    one.result()
            logger.info("accepted unchecked", code=error.code)
            return None, f"Accepted; Novita could not be asked yet ({error.code}), so the purchase decides"
        return found, "Accepted; a machine is being bought"
