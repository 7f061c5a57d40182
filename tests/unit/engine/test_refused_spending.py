"""A step that is about to spend money and is not let: it waits, says why, and is due again."""

from datetime import datetime
from typing import Any, cast

from functions.shared.domain.errors import SpendingRefused
from functions.shared.domain.instance.decision import Decision
from functions.shared.domain.instance.record import Instance
from functions.shared.domain.instance.status import Status
from functions.shared.engine.step import StepRunner
from tests.unit.builders import NOW, POLICY, changed, new_instance

REFUSED = SpendingRefused("CAP_EXCEEDED", "All of it is in use")


class FullStore:
    """Refuses the first save, as a cap does whose room is gone."""

    def __init__(self) -> None:
        self.saved: list[Decision] = []
        self._refuses = True

    def save(self, decision: Decision, _: Any = ()) -> Instance:
        if self._refuses:
            self._refuses = False
            raise REFUSED
        self.saved.append(decision)
        return decision.record


class NoQueues:
    def send(self, *_: Any) -> None:
        """Nobody listens."""


def test_what_a_step_was_about_to_begin_waits_when_a_cap_refuses_it() -> None:
    store = FullStore()
    runner = StepRunner(cast(Any, store), cast(Any, NoQueues()), lambda: NOW, POLICY)
    record = changed(new_instance(Status.STARTING), next_check_at=NOW)

    runner.step(record, {})

    (decision,) = store.saved
    waiting, due = decision.record.waiting, decision.record.next_check_at
    assert waiting == REFUSED.fault
    assert isinstance(due, datetime)
    assert due > NOW
    assert decision.record.status is Status.STARTING
