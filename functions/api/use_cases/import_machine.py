"""Taking a machine that exists at Novita under management."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from functions.api.views import instance_view
from functions.shared.domain.errors import Conflict, MachineNotFound, NotFound
from functions.shared.domain.ids import new_instance_id, read_mark
from functions.shared.domain.instance.commands import begin_import
from functions.shared.domain.instance.decision import Policy
from functions.shared.domain.instance.limits import LimitRules
from functions.shared.domain.instance.machine import Machine
from functions.shared.domain.instance.reclaim import OnReclaim
from functions.shared.domain.money.caps import CapLimits
from functions.shared.platform.observability import correlation_id
from functions.shared.stores.idempotency import ApiResult, IdempotencyKeys, IdempotentRequest

if TYPE_CHECKING:
    from functions.shared.engine.step import StepRunner
    from functions.shared.novita.client import Novita
    from functions.shared.stores.caps import Caps
    from functions.shared.stores.instances import Instances
    from functions.shared.stores.machines import KeyTrust


@dataclass(frozen=True)
class ImportMachine:
    instances: Instances
    idempotency: IdempotencyKeys
    novita: Novita
    steps: StepRunner
    deployment: Callable[[], str]
    key_trust: KeyTrust
    caps: Caps
    policy: Policy
    limit_rules: LimitRules
    clock: Callable[[], datetime]
    lookup_seconds: float

    def __call__(
        self,
        machine_id: str,
        *,
        name: str | None,
        webhook_url: str | None,
        limits: Mapping[str, Any],
        on_reclaim: OnReclaim | None,
        actor: str,
        key_caps: CapLimits,
        request: IdempotentRequest | None,
    ) -> ApiResult:
        return self.idempotency.once(
            request,
            lambda: self._import(machine_id, name, webhook_url, limits, on_reclaim, actor, key_caps, request),
            machine_id,
        )

    def _import(
        self,
        machine_id: str,
        name: str | None,
        webhook_url: str | None,
        limits: Mapping[str, Any],
        on_reclaim: OnReclaim | None,
        actor: str,
        key_caps: CapLimits,
        request: IdempotentRequest | None,
    ) -> ApiResult:
        began = self.clock()
        allowed = self.limit_rules.first(limits, began)
        self.key_trust.proven()  # at once where there is no machine yet: then a not-found is one
        machine, former = self._find_free(machine_id)
        if key_caps:
            self.caps.let(actor, key_caps)
        decision = begin_import(
            instance_id=new_instance_id(began),
            name=name or machine.name or machine_id,
            machine=machine,
            webhook_url=webhook_url,
            actor=actor,
            correlation_id=correlation_id(),
            now=began,
            policy=self.policy,
            capped=bool(key_caps),
            limits=allowed,
            ceilings=self.limit_rules.ceilings,
            on_reclaim=on_reclaim,
        )
        view = instance_view(decision.record, began)
        result = ApiResult(201, {**view}, f"/api/instances/{decision.record.id}")
        also = [self.instances.imported(machine_id, decision.record.id, former)]
        if request:
            also.append(self.idempotency.write(request, result))
        self.steps.enqueue(self.instances.add(decision, also), decision.now)
        return result

    def _find_free(self, machine_id: str) -> tuple[Machine, str | None]:
        """The machine and its former owner; an error if there is none or if an instance has it."""
        try:
            machine = self.novita.get(machine_id, within=self.lookup_seconds)
        except MachineNotFound:
            raise NotFound("INSTANCE_NOT_FOUND", f"Novita has no machine {machine_id}") from None
        mark = read_mark(machine.name, self.deployment())
        owner = self.instances.owner(machine_id)
        # Two kinds with our mark are free: an orphan has no record, a vanished one has a record that ended.
        for instance_id in filter(None, (mark.instance_id if mark else None, owner)):
            record = self.instances.get(instance_id)
            if record.gave_up(machine_id) if record else instance_id != owner:
                continue
            raise _managed(machine_id, instance_id)
        return machine, owner


def _managed(machine_id: str, instance_id: str | None) -> Conflict:
    return Conflict(
        "INSTANCE_ALREADY_MANAGED",
        f"{machine_id} is under management already",
        details={"instanceId": instance_id},
    )
