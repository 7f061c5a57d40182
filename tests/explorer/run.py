"""The real functions over a world: steps, sweeps, reads, and what users ask for."""

from datetime import timedelta
from typing import Any, cast

from functions.api.use_cases.operate_instance import Command, OperateInstance
from functions.api.use_cases.read_instances import ReadInstances
from functions.create.handler import BuyMachine
from functions.shared.domain.errors import Fault
from functions.shared.domain.instance.commands import (
    Update,
    begin_again,
    begin_delete,
    begin_release,
    begin_restart,
    begin_start,
    begin_stop,
    begin_update,
)
from functions.shared.domain.instance.decide import decide
from functions.shared.domain.instance.decision import Decision, leave_to_its_step
from functions.shared.domain.instance.health import HealthCheck
from functions.shared.domain.instance.limits import LimitChange, LimitRules, Limits
from functions.shared.domain.instance.observations import Act, Buy, CheckHealth, DeadLettered, FindOffer
from functions.shared.domain.instance.record import Queue
from functions.shared.domain.messages import StepMessage
from functions.shared.engine.compare import CompareWithNovita
from functions.shared.engine.repair import Repair
from functions.shared.engine.shared_polling import PollingPace, SharedPolling
from functions.shared.engine.step import CallHandlers, StepCalls, StepRunner
from functions.shared.platform.invocation import TimeBudget
from functions.startup.handler import CheckApplication
from tests.explorer.parts import (
    NOVITA,
    SENDER,
    SHARED_FROM,
    FreeSlots,
    InstancesToBuyFor,
    ModelLastUsed,
    ModelProbes,
    ModelQueues,
    ModelSharedList,
    NoBootTimes,
    NoOrphans,
    StoredInstances,
    TwoOffers,
    Unused,
    Waiting,
    key_trust,
)
from tests.explorer.replay import Replay
from tests.explorer.world import DEPLOYMENT, LIFETIME, POLICY

COMMANDS: dict[str, Command] = {
    "start": lambda decision, id_: begin_start(decision, id_, HealthCheck()),
    "restart": lambda decision, id_: begin_restart(decision, id_, HealthCheck()),
    "stop": begin_stop,
    "delete": begin_delete,
    "release": lambda decision, id_: begin_release(decision, id_, admin=True),
    "redrive": lambda decision, _: begin_again(decision),
}
# Of one that a clock ends: without these, nobody could extend it in time.
LIMITS = Limits(stop_after=timedelta(minutes=5), delete_after_stopped=timedelta(minutes=10))
IDLE_LIMITS = Limits(idle_stop_after=timedelta(minutes=5), delete_after_stopped=timedelta(minutes=10))
LIMIT_COMMANDS: dict[str, Command] = {
    "no limits": lambda decision, _: begin_update(
        decision, Update({}, limits=LimitChange({}, LimitRules(), only=True))
    ),
    "limits": lambda decision, _: begin_update(
        decision, Update({}, limits=LimitChange({**vars(LIMITS)}, LimitRules()))
    ),
}


class Run(Replay):
    def __call__(self) -> None:
        SENDER.run = self
        {"step": self._step, "sweep": self._sweep, "read": self._read}[self.worker.kind]()

    def _step(self) -> None:
        queue = cast(Queue, self.see(lambda world: world.record.queue))
        message = StepMessage(self._id, self.worker.token, "corr")
        self.steps.take(message, queue, self._handlers(queue))

    def _handlers(self, queue: Queue) -> CallHandlers:
        """Those of functions/*/handler.py."""
        if queue is Queue.STARTUP:
            return {CheckHealth: self._check_application()}
        handlers = dict(self._step_calls().handlers())
        act = handlers[Act]

        def acting(decision: Decision, call: Act) -> Any:
            self.deciding = decision.record
            return act(decision, call)

        buying = self._buying() if queue is Queue.CREATE else {}
        return {**handlers, Act: acting, **buying}

    def _step_calls(self) -> StepCalls:
        return StepCalls(
            self._instances,
            NOVITA,
            self._shared_polling(),
            key_trust(self),
            cast(Any, Unused()),
            self.clock,
            self.budget,
            cast(Any, ModelLastUsed(self)),
        )

    def _buying(self) -> CallHandlers:
        buy = self._buy_machine()
        return {Buy: buy, FindOffer: buy.find_offer}

    def _buy_machine(self) -> BuyMachine:
        return BuyMachine(
            cast(Any, InstancesToBuyFor(self)),
            NOVITA,
            cast(Any, TwoOffers()),
            lambda: DEPLOYMENT,
            cast(Any, NoBootTimes()),
            key_trust(self),
            cast(Any, Unused()),
            self.clock,
            self.budget,
            purchase_lease_seconds=180,
            offer_max_age=30,
        )

    def _check_application(self) -> CheckApplication:
        probes, slots = cast(Any, ModelProbes(self)), cast(Any, FreeSlots())
        return CheckApplication(self._instances, slots, probes, self.clock, self.budget, lambda: 0.5)

    def _sweep(self) -> None:
        repair = Repair(
            self._instances,
            cast(Any, NoOrphans()),
            NOVITA,
            self.steps,
            lambda: DEPLOYMENT,
            POLICY,
            self.clock,
            self.budget,
            orphan_policy="delete",
            orphan_age=0,
        )
        CompareWithNovita(
            self._instances,
            NOVITA,
            repair,
            cast(Any, Unused()),
            lambda: DEPLOYMENT,
            POLICY,
            self.clock,
            self.budget,
            key_trust(self),
            sweep_max_repairs=20,
            sweep_at_once=20,
        )()

    def _read(self) -> None:
        unused: Any = Unused()
        ReadInstances(
            instances=self._instances,
            last_used=unused,
            last_sweep=unused,
            novita=NOVITA,
            steps=self.steps,
            policy=POLICY,
            clock=self.clock,
            cursors=unused,
            totals=unused,
            cache=unused,
            recent_outage=unused,
            circuits=unused,
            details_ttl=30,
            lookup_seconds=2,
        ).one(self._id)

    def operate(self, command: Command) -> None:
        operate = OperateInstance(
            self._instances,
            cast(Any, Unused()),
            self.steps,
            cast(Any, NoBootTimes()),
            cast(Any, Unused()),
            POLICY,
            self.clock,
        )
        operate(self._id, command, actor="key_1", request=None)

    def dead_letter(self) -> None:
        record = self.world.record
        fault = Fault("INTERNAL_ERROR", "a bug")
        decision = decide(record, DeadLettered(record.queue, fault), self.clock(), POLICY)
        if decision.events:
            self.steps.store(leave_to_its_step(record, decision))

    # What they are made of

    @property
    def _id(self) -> str:
        return self.world.record.id

    @property
    def steps(self) -> StepRunner:
        return StepRunner(self._instances, cast(Any, ModelQueues(self)), self.clock, POLICY)

    @property
    def budget(self) -> TimeBudget:
        ends = self.worker.began + LIFETIME
        return TimeBudget(lambda: (ends - self.clock()).total_seconds())

    @property
    def _instances(self) -> Any:
        return StoredInstances(self)

    def _shared_polling(self) -> SharedPolling:
        return SharedPolling(
            cast(Any, ModelSharedList(self)),
            cast(Any, Waiting(self.worker)),
            self._instances,
            self.steps,
            lambda: DEPLOYMENT,
            self.clock,
            self.budget,
            PollingPace(SHARED_FROM, poll_seconds=30, list_ttl=5, look_seconds=2, calls_per_minute=100),
            list_lag_seconds=10,
        )
