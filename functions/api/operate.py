"""Starting, stopping, restarting and deleting: the record says so at once, a consumer makes the call."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from functions.api.read_instances import stored
from functions.api.responses import stamp
from functions.shared.adapters.answers import Answer, Answers, Question
from functions.shared.adapters.boots import Boots
from functions.shared.adapters.instances import Instances
from functions.shared.advance import Advance
from functions.shared.domain.decision import Decision, Policy
from functions.shared.domain.errors import Conflict, NotFound
from functions.shared.domain.estimate import ready_at
from functions.shared.domain.ids import new_operation_id
from functions.shared.domain.instance import Action, Instance
from functions.shared.domain.status import Status
from functions.shared.log import correlation_id

_DONE = {
    Action.START: "started",
    Action.RESTART: "restarted",
    Action.STOP: "stopped",
    Action.DELETE: "deleted",
}

# One of domain.commands, with what the caller said about it filled in.
Command = Callable[[Decision, str], Decision]


@dataclass(frozen=True)
class Operate:
    instances: Instances
    answers: Answers
    advance: Advance
    boots: Boots
    policy: Policy
    clock: Callable[[], datetime]

    def __call__(self, instance_id: str, command: Command, *, actor: str, asked: Question | None) -> Answer:
        return self.answers.once(
            asked, lambda: self._begin(instance_id, command, actor, asked), about=instance_id
        )

    def by_name(self, name: str, command: Command, *, actor: str, asked: Question | None) -> Answer:
        """An answer given before counts even when the name no longer leads to the instance."""
        return self.answers.once(
            asked, lambda: self._begin(self._named(name), command, actor, asked), about=name
        )

    def _named(self, name: str) -> str:
        """The id of the one instance of that name that is not terminated."""
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

    def _begin(self, instance_id: str, command: Command, actor: str, asked: Question | None) -> Answer:
        record, now = stored(self.instances, instance_id), self.clock()
        before = Decision(record, now, self.policy, now, actor)
        decision = command(before.having(correlation_id=correlation_id()), new_operation_id(now))
        decision = self._expecting(decision)
        given = Answer(202, _accepted(decision.record, now))
        if not decision.events:  # as it was asked to be already
            return given
        self.advance.save(decision, [self.answers.write(asked, given)] if asked else [])
        return given

    def _expecting(self, decision: Decision) -> Decision:
        """How long it may take to come up again, for the answer and for whoever looks."""
        record = decision.record
        if not decision.events or record.operation is None or record.status is not Status.STARTING:
            return decision
        boot = self.boots.expected(record.operation.kind, record.product_id, record.region)
        return decision.having(boot=boot)


def _accepted(record: Instance, now: datetime) -> dict[str, Any]:
    operation = record.operation
    done = _DONE[operation.kind] if operation else "deleted"
    view: dict[str, Any] = {
        "instanceId": record.id,
        "novitaInstanceId": record.machine_id,
        "status": record.status.value,
        "operationId": operation.id if operation else None,
        "message": f"Accepted; it is being {done}"
        if record.status is not Status.TERMINATED
        else "It is gone",
    }
    if record.status is Status.STARTING:
        view["estimatedReadyTime"] = stamp(ready_at(now, record.boot))
    return {name: value for name, value in view.items() if value is not None}
