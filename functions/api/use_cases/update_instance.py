"""Changing what was asked for: name, tags, limits, receiver, protection."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from functions.api.use_cases.read_instances import find_instance
from functions.api.views import instance_view
from functions.shared.domain.instance.commands import Update, begin_update
from functions.shared.domain.instance.decision import Decision, Policy
from functions.shared.platform.observability import correlation_id
from functions.shared.stores.idempotency import ApiResult, IdempotencyKeys, IdempotentRequest

if TYPE_CHECKING:
    from functions.shared.engine.step import StepRunner
    from functions.shared.stores.instances import Instances
    from functions.shared.stores.last_used import LastUsed


@dataclass(frozen=True)
class UpdateInstance:
    instances: Instances
    last_used: LastUsed
    idempotency: IdempotencyKeys
    steps: StepRunner
    policy: Policy
    clock: Callable[[], datetime]

    def __call__(
        self, instance_id: str, update: Update, *, actor: str, request: IdempotentRequest | None
    ) -> ApiResult:
        """Against other writers it is tried again: what an expiry stored first is what it then changes."""
        return self.idempotency.once(
            request, lambda: self._update(instance_id, update, actor, request), about=instance_id
        )

    def _update(
        self, instance_id: str, update: Update, actor: str, request: IdempotentRequest | None
    ) -> ApiResult:
        record, now = find_instance(self.instances, instance_id), self.clock()
        before = Decision(record, now, self.policy, now, actor)
        decision = begin_update(before.change(correlation_id=correlation_id()), update)
        changed = decision.record if decision.events else record
        result = ApiResult(200, {**instance_view(self.last_used.on(changed), now)})
        if decision.events:
            self.steps.save(decision, [self.idempotency.write(request, result)] if request else [])
        return result
