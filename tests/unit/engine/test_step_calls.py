"""What is told to decide of a call: of one that was perhaps made, and of one for which there was no time."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from functions.shared.domain.errors import Fault, NoLongerOurs, NotNow, NovitaForNow, OutcomeUnclear
from functions.shared.domain.instance.decide import decide
from functions.shared.domain.instance.decision import Decision
from functions.shared.domain.instance.observations import (
    Act,
    CallPostponed,
    CallUnclear,
    Look,
    OwnedByAnother,
    Seen,
    Tick,
)
from functions.shared.domain.instance.record import Action, Instance
from functions.shared.domain.instance.status import Status
from functions.shared.engine.step import StepCalls, combined
from functions.shared.platform.invocation import TimeBudget
from functions.shared.stores.machines import PurchaseSwitch, SwitchState
from tests.unit.builders import (
    NOW,
    OWN,
    POLICY,
    after,
    deciding,
    new_instance,
    new_machine,
    new_operation,
    new_task,
)

UNCLEAR = OutcomeUnclear("NOVITA_TIMEOUT", "no answer")
DOWN = NovitaForNow("NOVITA_UNAVAILABLE", "no answer")


class Deaf:
    """A Novita that fails every call in the same way."""

    def __init__(self, error: Exception) -> None:
        self._error = error
        self.given: list[float] = []

    def __getattr__(self, _: str) -> Any:
        def fail(
            machine_id: str, *, within: float, unless: Callable[[], bool] | None = None, **_: Any
        ) -> None:
            if unless and unless():
                raise NoLongerOurs(machine_id)
            self.given.append(within)
            raise self._error

        return fail


class Stored:
    """Saves what it is given, and knows whose a machine is."""

    def __init__(self, owner: str | None = None) -> None:
        self._owner = owner
        self.attempts: list[int] = []  # of the operation, at each save

    def save(self, decision: Decision) -> Instance:
        operation = decision.record.operation
        self.attempts.append(operation.attempts if operation else 0)
        return replace(decision.record, version=decision.record.version + 1)

    def owner(self, _: str) -> str | None:
        return self._owner


class NeverPaused(PurchaseSwitch):
    def __init__(self) -> None: ...

    def read(self) -> SwitchState:
        return SwitchState()


def _calls(novita: Any, time_left: float = 90.0, stored: Any = None) -> StepCalls:
    unused: Any = None
    budget = TimeBudget(lambda: time_left)
    kept: Any = stored or Stored()
    return StepCalls(kept, novita, unused, unused, NeverPaused(), lambda: NOW, budget, unused)


def _acted(
    record: Instance, action: Action, error: Exception, stored: Stored | None = None
) -> tuple[Decision, Any]:
    return _calls(Deaf(error), stored=stored).handlers()[Act](deciding(record), Act(action, OWN))


def _restarting() -> Instance:
    return new_instance(
        Status.STARTING,
        pending=Action.RESTART,
        ready_at=NOW,
        operation=new_operation(Action.RESTART),
        next_check_at=NOW,
    )


@pytest.mark.parametrize("action", [Action.START, Action.STOP, Action.DELETE])
def test_what_may_be_asked_twice_is_asked_again_when_novita_does_not_answer(action: Action) -> None:
    assert isinstance(_acted(new_instance(Status.STOPPING), action, DOWN)[1], CallPostponed)


@pytest.mark.parametrize(
    ("shown", "status"),
    [("running", Status.RUNNING), ("restarting", Status.STARTING), ("exited", Status.EXITED)],
)
def test_a_restart_that_was_perhaps_made_is_asked_for_once_more_and_then_not_said_to_be_done(
    shown: str, status: Status
) -> None:
    first, unclear = _acted(_restarting(), Action.RESTART, UNCLEAR)
    assert unclear == CallUnclear(Fault("NOVITA_TIMEOUT", "no answer"), Act(Action.RESTART, OWN))
    waiting = decide(first.record, unclear, NOW, POLICY, step=NOW)
    assert (waiting.call, waiting.record.pending) == (None, Action.RESTART)
    again, unclear = _acted(waiting.record, Action.RESTART, UNCLEAR)

    ended = combined(again, decide(again.record, unclear, NOW, POLICY, step=after(30)))
    looked = decide(ended.record, Seen(new_machine(shown), after(30)), after(30), POLICY)

    assert [event.type for event in ended.events] == ["startup.failed"]
    assert [one.status for one in ended.operations] == ["failed"]
    assert (ended.call, ended.record.pending) == (Look(OWN), None)
    assert looked.record.status is status
    assert not isinstance(looked.call, Act)


def test_a_restart_is_counted_before_it_is_sent_so_that_a_function_that_dies_has_counted_it() -> None:
    stored = Stored()

    class Dead(Exception):
        pass

    with pytest.raises(Dead):
        _acted(_restarting(), Action.RESTART, Dead(), stored)

    assert stored.attempts == [1]


def test_a_restart_that_was_sent_twice_and_never_answered_is_given_up() -> None:
    operation = new_operation(Action.RESTART, attempts=2)
    record = new_instance(Status.STARTING, pending=Action.RESTART, ready_at=NOW, operation=operation)

    decision = decide(record, Tick(), NOW, POLICY)

    assert [event.type for event in decision.events] == ["startup.failed"]
    assert (decision.record.pending, decision.call) == (None, Look(OWN))


def test_a_machine_that_belongs_to_another_by_now_is_not_deleted() -> None:
    record, novita = new_instance(Status.DELETING, tasks=(new_task(),)), Deaf(DOWN)

    theirs = _calls(novita, stored=Stored("inst_other")).handlers()[Act]
    ours = _calls(novita, stored=Stored(record.id)).handlers()[Act]

    assert theirs(deciding(record), Act(Action.DELETE, OWN))[1] == OwnedByAnother(OWN)
    assert novita.given == []
    assert isinstance(ours(deciding(record), Act(Action.DELETE, OWN))[1], CallPostponed)


def test_a_restart_that_was_not_sent_is_no_attempt() -> None:
    first, postponed = _acted(_restarting(), Action.RESTART, NotNow("RATE_LIMIT_EXCEEDED", "no slot"))
    assert isinstance(postponed, CallPostponed)

    second, again = _acted(first.record, Action.RESTART, UNCLEAR)

    assert isinstance(again, CallUnclear)
    assert (second.record.operation and second.record.operation.attempts) == 1


@pytest.mark.parametrize(("time_left", "within"), [(90.0, 20.0), (18.0, 8.0), (10.5, 0.5), (3.0, -7.0)])
def test_a_call_has_no_more_time_than_there_is(time_left: float, within: float) -> None:
    """The client sends nothing where that is too little, and says so."""
    novita = Deaf(DOWN)

    _calls(novita, time_left).handlers()[Act](deciding(new_instance(Status.STOPPING)), Act(Action.STOP, OWN))

    assert novita.given == [within]
