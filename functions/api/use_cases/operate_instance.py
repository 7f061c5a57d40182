"""Starting, stopping, restarting and deleting: the record says so at once, a consumer makes the call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from functions.api.use_cases.read_instances import find_instance
from functions.api.views import cost_so_far
from functions.shared.domain.errors import Conflict, NotFound
from functions.shared.domain.ids import new_operation_id, timestamp
from functions.shared.domain.instance.boot_times import expected_ready_at
from functions.shared.domain.instance.decision import Decision, Policy
from functions.shared.domain.instance.record import Action, Instance
from functions.shared.domain.instance.status import Status
from functions.shared.platform.observability import correlation_id
from functions.shared.stores.idempotency import ApiResult, IdempotencyKeys, IdempotentRequest

if TYPE_CHECKING:
    from functions.shared.engine.step import StepRunner
    from functions.shared.stores.instances import Instances
    from functions.shared.stores.machines import BootTimes, PurchaseSwitch

_DONE = {
    Action.START: "started",
    Action.RESTART: "restarted",
    Action.STOP: "stopped",
    Action.DELETE: "deleted",
}

# One of shared/domain/instance/commands.py, with what the caller gave filled in.
Command = Callable[[Decision, str], Decision]


@dataclass(frozen=True)
class OperateInstance:
    instances: Instances
    idempotency: IdempotencyKeys
    steps: StepRunner
    boot_times: BootTimes
    purchase_switch: PurchaseSwitch
    policy: Policy
    clock: Callable[[], datetime]

    def __call__(
        self, instance_id: str, command: Command, *, actor: str, request: IdempotentRequest | None
    ) -> ApiResult:
        return self.idempotency.once(
            request, lambda: self._begin(instance_id, command, actor, request), about=instance_id
        )

    def by_name(
        self, name: str, command: Command, *, actor: str, request: IdempotentRequest | None
    ) -> ApiResult:
        """A repeated request gets its first result, even if the name now means another instance."""
        return self.idempotency.once(
            request, lambda: self._begin(self._named(name), command, actor, request), about=name
        )

    def _named(self, name: str) -> str:
        """The id of the one instance of that name; what is over or never got a machine does not count."""
        live = self.instances.live_named(name)
        if not live:
            raise NotFound("INSTANCE_NOT_FOUND", "There is no instance of that name")
        if len(live) > 1:
            raise Conflict(
                "AMBIGUOUS_INSTANCE_NAME",
                f"{len(live)} instances have that name; use an id",
                details={"instanceIds": live},
            )
        return live[0]

    def _begin(
        self, instance_id: str, command: Command, actor: str, request: IdempotentRequest | None
    ) -> ApiResult:
        record, now = find_instance(self.instances, instance_id), self.clock()
        before = Decision(record, now, self.policy, now, actor)
        decision = command(before.change(correlation_id=correlation_id()), new_operation_id(now))
        if decision.events and decision.record.starting_again:
            self.purchase_switch.require_on()
        decision = self._expecting(decision)
        result = ApiResult(202, _accepted(decision.record, now))
        if not decision.events:  # it is so already
            return result
        self.steps.save(decision, [self.idempotency.write(request, result)] if request else [])
        return result

    def _expecting(self, decision: Decision) -> Decision:
        """With the time that it may take to come up again."""
        record = decision.record
        if not decision.events or record.operation is None or record.status is not Status.STARTING:
            return decision
        boot = self.boot_times.expected(
            record.operation.kind, record.machine.product_id, record.machine.region
        )
        return decision.change_machine(boot=boot)


def _accepted(record: Instance, now: datetime) -> dict[str, Any]:
    operation = record.operation
    done = _DONE[operation.kind] if operation else "deleted"
    view: dict[str, Any] = {
        "instanceId": record.id,
        "novitaInstanceId": record.machine.id,
        "status": record.status.value,
        "operationId": operation.id if operation else None,
        "message": f"Accepted; it is being {done}"
        if record.status is not Status.TERMINATED
        else "It is gone",
    }
    if record.status in (Status.DELETING, Status.TERMINATED):
        view["cost"] = cost_so_far(record, now)
    if record.status is Status.STARTING:
        view["estimatedReadyTime"] = timestamp(expected_ready_at(now, record.machine.boot))
    return {name: value for name, value in view.items() if value is not None}
