"""Noting when an instance was last used, for callers that stop idle ones."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

from functions.api.read_instances import stored
from functions.shared.adapters.instances import Instances
from functions.shared.adapters.uses import Uses
from functions.shared.domain.instance import Instance


@dataclass(frozen=True)
class NoteUse:
    instances: Instances
    uses: Uses
    clock: Callable[[], datetime]

    def __call__(self, instance_id: str, used_at: datetime | None) -> Instance:
        record = stored(self.instances, instance_id)
        at = used_at or self.clock()
        self.uses.note(instance_id, at)
        return replace(record, last_used_at=at)
