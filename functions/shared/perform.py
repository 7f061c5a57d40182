"""Making the calls that decisions ask for, and telling what came of them."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

from functions.shared.adapters.boots import Boots
from functions.shared.adapters.instances import Instances
from functions.shared.adapters.novita.client import Novita
from functions.shared.advance import Means
from functions.shared.domain.decision import Decision
from functions.shared.domain.errors import (
    InvalidState,
    MachineNotFound,
    NoCapacity,
    NotNow,
    NovitaForNow,
    NovitaRefused,
    OstlerError,
    OutcomeUnclear,
)
from functions.shared.domain.instance import Action, Fault, Instance
from functions.shared.domain.observation import (
    Act,
    Books,
    Look,
    LookUp,
    Missing,
    NotThere,
    Observation,
    Postponed,
    Refused,
    Review,
    Seen,
    Taken,
    Tick,
    WriteOff,
)
from functions.shared.domain.purchase import Outcome
from functions.shared.domain.status import Status
from functions.shared.watch import Watch

_LONGEST_PURCHASE = timedelta(seconds=60)  # from the intent to an answer; what took longer was looked up
# Where Novita does not say whether it made them. More would only throw out whoever uses the machine.
_MOST_RESTARTS = 2


def _attempts(decision: Decision) -> int:
    operation = decision.record.operation
    return operation.attempts if operation else 0


def fault_of(error: OstlerError) -> Fault:
    return Fault(error.code, error.message)


class Calls:
    """The calls that every function can make: reading the books, looking, starting, stopping, deleting."""

    def __init__(
        self,
        instances: Instances,
        novita: Novita,
        clock: Callable[[], datetime],
        time_left: Callable[[], float],
        poll_seconds: float,
        watch: Watch,
        boots: Boots,
    ) -> None:
        self._instances = instances
        self._novita = novita
        self._clock = clock
        self._time_left = time_left
        self._poll_seconds = poll_seconds
        self._watch = watch
        self._boots = boots

    def means(self) -> Means:
        return {
            Review: self._review,
            LookUp: self._look_up,
            WriteOff: self._write_off,
            Look: self._look,
            Act: self._act,
        }

    def postponed(self, error: OstlerError) -> Postponed:
        return Postponed(fault_of(error), error.retry_after or self._poll_seconds)

    def _review(self, decision: Decision, _: Review) -> tuple[Decision, Observation]:
        return decision, Books(self._instances.purchases(decision.record.id))

    def _look_up(self, decision: Decision, call: LookUp) -> tuple[Decision, Observation]:
        began = self._clock()
        try:
            listed = self._novita.list(name=call.purchase.name, within=self._within())
        except (NovitaForNow, NovitaRefused) as error:
            return decision, self.postponed(error)
        found = next((machine for machine in listed if machine.name == call.purchase.name), None)
        if found is None:
            return decision, NotThere(call.purchase, began)
        bought = replace(call.purchase, outcome=Outcome.BOUGHT, machine_id=found.id, ended_at=began)
        self._instances.settle(bought)
        return self._review(decision, Review())

    def _write_off(self, decision: Decision, call: WriteOff) -> tuple[Decision, Observation]:
        self._instances.settle(replace(call.purchase, outcome=Outcome.ABSENT))
        return self._review(decision, Review())

    def _look(self, decision: Decision, call: Look) -> tuple[Decision, Observation]:
        record = decision.record
        if self._just_bought(record, decision.step):
            boot = self._boots.expected("create", record.product_id, record.region)
            return decision.having(boot=boot, looked_at=decision.step), Tick()
        began = self._clock()
        try:
            if shared := self._watch.look(record, call.machine_id, self._within()):
                return decision, shared
            began = self._clock()
            return decision, Seen(self._novita.get(call.machine_id, within=self._within()), began)
        except MachineNotFound:
            return decision, Missing(call.machine_id, began)
        except (NovitaForNow, NovitaRefused) as error:
            return decision, self.postponed(error)

    def _just_bought(self, record: Instance, step: datetime) -> bool:
        """In this very step, so that there is nothing to see yet; one that turned up late may run already."""
        if record.status is not Status.STARTING or record.bought_at is None or record.bought_at < step:
            return False
        purchases = self._instances.purchases(record.id)
        began = (one.intended_at for one in purchases if one.machine_id == record.machine_id)
        return any(record.bought_at - intended_at < _LONGEST_PURCHASE for intended_at in began)

    def _act(self, decision: Decision, call: Act) -> tuple[Decision, Observation]:
        before, decision, began = decision, decision.attempted(call.action), self._clock()
        act = {
            Action.START: self._novita.start,
            Action.RESTART: self._novita.restart,
            Action.STOP: self._novita.stop,
            Action.DELETE: self._novita.delete,
        }[call.action]
        try:
            act(call.machine_id, within=self._within())
        except MachineNotFound:
            return decision, Missing(call.machine_id, began)
        except InvalidState as error:
            return decision, Refused(fault_of(error), call, wrong_state=True)
        except NovitaRefused as error:
            if error.code == "NOVITA_AUTHENTICATION_FAILED":  # perhaps the key is just being rotated
                return decision, self.postponed(error)
            return decision, Refused(fault_of(error), call, capacity=isinstance(error, NoCapacity))
        except OutcomeUnclear as error:  # a restart, perhaps made
            if _attempts(decision) < _MOST_RESTARTS:
                return decision, self.postponed(error)
            return decision, Refused(fault_of(error), call, unclear=True)
        except NotNow as error:  # it was not sent, or not taken: no attempt
            return before, self.postponed(error)
        except NovitaForNow as error:
            return decision, self.postponed(error)
        return decision, Taken(call, self._clock())

    def _within(self) -> float:
        """Leave the function time to save what it learned; with too little left, nothing is sent."""
        return min(20.0, self._time_left() - 10.0)
