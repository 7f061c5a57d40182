"""Noting when an instance was last used, for callers that stop idle ones."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from functions.api.read_instances import stored
from functions.shared.adapters.instances import Instances
from functions.shared.advance import Advance
from functions.shared.domain.decision import Decision, Policy
from functions.shared.domain.errors import StaleInstance
from functions.shared.domain.instance import Instance

_TRIES = 5


@dataclass(frozen=True)
class NoteUse:
    instances: Instances
    advance: Advance
    policy: Policy
    clock: Callable[[], datetime]

    def __call__(self, instance_id: str, used_at: datetime | None) -> Instance:
        for _ in range(_TRIES):
            record = stored(self.instances, instance_id)
            now = self.clock()
            decision = Decision(record, now, self.policy, now).having(last_used_at=used_at or now)
            if saved := self.advance.store(decision):
                return saved
        raise StaleInstance(instance_id)
