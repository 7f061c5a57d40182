"""One rented machine as the service remembers it: what was asked for, what is known, what is due."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any

from functions.shared.domain.errors import Fault
from functions.shared.domain.instance.boot_times import BootEstimate
from functions.shared.domain.instance.health import HealthCheck
from functions.shared.domain.instance.limits import NEW_CLOCK, NO_LIMITS, EndedBy, LimitClock, Limits
from functions.shared.domain.instance.machine import Endpoint, ShownError
from functions.shared.domain.instance.reclaim import (
    NO_RECOVERIES,
    SPOT,
    OnReclaim,
    Recovery,
    RecoveryCount,
)
from functions.shared.domain.instance.status import AT_REST, NEXT, Status
from functions.shared.domain.money.caps import NOTHING, Commitment
from functions.shared.domain.money.ledger import Ledger

_NO_COSTS = Ledger()


class Queue(StrEnum):
    CREATE = "create"
    MONITOR = "monitor"
    STARTUP = "startup"


class Action(StrEnum):
    """A call that changes a machine at Novita."""

    START = "start"
    RESTART = "restart"
    STOP = "stop"
    DELETE = "delete"


@dataclass(frozen=True)
class NetworkVolume:
    """Storage at Novita that outlives machines, and where it is mounted."""

    id: str
    mount_path: str


@dataclass(frozen=True)
class Spec:
    """What the caller asked for, with defaults filled in."""

    product_name: str
    template_id: str
    gpu_num: int = 1
    rootfs_size: int = 60  # GB; 0 of an imported machine where Novita does not say
    region: str | None = None
    regions: tuple[str, ...] = ()
    billing_mode: str = "spot"
    max_price: Decimal | None = None
    placement: str = "priority"
    boot_wait_seconds: float | None = None
    keep_on_failure: bool = False
    health_check: HealthCheck | None = None
    tags: tuple[tuple[str, str], ...] = ()
    on_reclaim: OnReclaim | None = None
    network_volumes: tuple[NetworkVolume, ...] = ()
    env_names: tuple[str, ...] = ()  # of the caller's variables; their values are an item of their own


@dataclass(frozen=True)
class Refusal:
    """Novita refuses to stop or delete a machine: it is asked again, after waits that grow."""

    since: datetime
    count: int
    again_at: datetime
    announced: bool = False  # that it is stuck


@dataclass(frozen=True)
class RentedMachine:
    """The machine at Novita: what it is, what was last seen of it, and when we asked and acted."""

    id: str | None = None
    region: str | None = None
    product_id: str | None = None
    price: Decimal | None = None  # USD for one GPU and hour
    bought_at: datetime | None = None
    boot: BootEstimate | None = None  # how long it may take to come up, from when Novita took our last action
    novita_status: str | None = None
    endpoints: tuple[Endpoint, ...] = ()
    expects_endpoints: bool = False
    spot_status: str = ""
    spot_reclaim_at: datetime | None = None
    told_notice: str = ""  # of its reclaim: the last one that was announced
    billing_mode: str = ""  # where it is not the one that was asked for
    untried: bool = False  # it takes another's place, and has yet to be of use
    looked_at: datetime | None = None  # the step that last asked Novita for it
    seen_at: datetime | None = None  # when Novita last showed it
    needs_look: bool = False  # it may be gone: a get by id is due
    first_missed_at: datetime | None = None  # the first of the gets in a row that did not find it
    last_missed_at: datetime | None = None
    missed_seconds: float = 0  # for how long; an hour without a not-found does not count
    missing_since: datetime | None = None  # confirmed by a second not-found, and announced
    shown_error: ShownError | None = None  # what Novita said was wrong when it last showed it
    told_errors: tuple[str, ...] = ()  # the gist of those that were announced since it was last started
    owned: bool = False  # an item of its own says whose machine it is
    acted_at: datetime | None = None  # when Novita last took an action of ours
    may_start_until: datetime | None = None  # by a call of ours that was under way when it was to be stopped

    @property
    def notified(self) -> bool:
        """Novita has said that it takes it away, or has done so."""
        return self.spot_status not in ("", "running") or self.spot_reclaim_at is not None


@dataclass(frozen=True)
class PurchaseState:
    """What the record knows of its purchases, which are items of their own."""

    count: int = 0  # how many create calls were intended
    unsettled: bool = False  # one of them may still turn out bought
    unseen_at: datetime | None = None  # when the machine of an unclear one was first looked for in vain
    read_at: datetime | None = None  # the step that last read them
    reasons: tuple[tuple[str, str], ...] = ()  # why a region had no offer, at the last look at all of them
    price: Decimal | None = None  # USD for one GPU and hour that the last one may cost, or the first


@dataclass(frozen=True)
class CleanupTask:
    """A machine that must be deleted (or stopped) before this instance is at rest."""

    machine_id: str
    action: Action
    seen_at: datetime
    asked_at: datetime | None = None
    missing_at: datetime | None = None
    checked_at: datetime | None = None
    refusal: Refusal | None = None

    @property
    def stuck(self) -> bool:
        return self.refusal is not None and self.refusal.announced


@dataclass(frozen=True)
class Cleanup:
    """Machines that are to be given back, and those that are gone."""

    tasks: tuple[CleanupTask, ...] = ()
    gone: tuple[str, ...] = ()  # machines of ours that Novita confirmed gone
    vanished: tuple[str, ...] = ()  # those of them whose end nobody asked for: never deleted if they reappear
    released: tuple[str, ...] = ()  # no longer ours to look after, by a caller's word: never touched

    def task(self, machine_id: str | None) -> CleanupTask | None:
        return next((task for task in self.tasks if task.machine_id == machine_id), None)


@dataclass(frozen=True)
class Operation:
    """A start, stop, restart or delete that somebody asked for, from the request to its end."""

    id: str
    kind: Action
    status: str  # initiated, monitoring, health_checking, completed, failed
    actor: str
    began_at: datetime
    phases: tuple[tuple[str, datetime], ...] = ()
    attempts: int = 0
    error: Fault | None = None
    pending: bool = False  # Novita has not taken its call yet
    refusal: Refusal | None = None
    health_check: HealthCheck | None = None  # how a start is known to have succeeded
    webhook_url: str | None = None  # told of this operation, besides the instance's own
    began_in: Status | None = None  # where it is again if Novita does nothing

    @property
    def ended(self) -> bool:
        return self.status in ("completed", "failed")

    @property
    def brings_up(self) -> bool:
        return self.kind in (Action.START, Action.RESTART)

    def to(self, status: str, at: datetime, error: Fault | None = None) -> "Operation":
        if self.ended or self.status == status:
            return self
        return replace(self, status=status, phases=(*self.phases, (status, at)), error=error)


@dataclass(frozen=True)
class HealthRounds:
    """How far the health check is: one round asks the application once, and the wait for the next is a due
    time. Quick rounds make a series; then it is asked at the usual interval, and a new series begins."""

    made: int = 0  # rounds of the series under way
    lost: int = 0  # begun in a row, and nobody lived to say how they went
    held: int = 0  # how often the next one has had to wait for a slot
    slow: bool = False  # the last one let a request time out
    until: datetime | None = None  # of the one under way: then it is over, or whoever makes it is dead
    old_look: datetime | None = None  # the last look at the machine, where the next round needs a newer one

    def under_way(self, now: datetime) -> bool:
        return self.until is not None and now < self.until

    def begun(self, until: datetime) -> "HealthRounds":
        return replace(self, until=until, lost=self.lost + 1)

    def ended(self, *, slow: bool) -> "HealthRounds":
        return replace(self, until=None, lost=0, held=0, slow=slow)

    def anew(self) -> "HealthRounds":
        """For a machine that has come up again. What was slow stays so until it answers."""
        return HealthRounds(slow=self.slow)


@dataclass(frozen=True)
class Event:
    """Something that happened to an instance; its number has no gaps."""

    instance_id: str
    sequence: int
    type: str
    at: datetime
    status: Status
    actor: str
    correlation_id: str
    machine_id: str | None = None
    region: str | None = None
    elapsed_ms: int | None = None
    reason: str | None = None
    error: Fault | None = None
    health: Mapping[str, Any] | None = None
    operation_id: str | None = None
    operation_kind: Action | None = None
    webhook_url: str | None = None
    operation_webhook_url: str | None = None
    startup_phases: tuple[tuple[str, datetime], ...] | None = None  # of a start or restart, until then
    data: Mapping[str, Any] | None = None

    @property
    def id(self) -> str:
        return f"evt_{self.instance_id.removeprefix('inst_')}_{self.sequence}"


class PurchaseOutcome(StrEnum):
    INTENDED = "intended"  # about to be sent, or being sent by somebody
    REFUSED = "refused"  # surely no machine
    BOUGHT = "bought"  # surely one
    UNCLEAR = "unclear"  # perhaps one
    ABSENT = "absent"  # was unclear; looked up after the settling time, and not there


@dataclass(frozen=True)
class Purchase:
    instance_id: str
    number: int
    name: str  # the machine's name at Novita: unique for this purchase
    outcome: PurchaseOutcome
    intended_at: datetime
    lease_until: datetime  # by then whoever makes the call is done or dead
    product_id: str = ""
    region: str = ""
    price: Decimal | None = None
    expects_endpoints: bool = False
    machine_id: str | None = None
    ended_at: datetime | None = None  # when the outcome became known
    fault: Fault | None = None
    reasons: tuple[tuple[str, str], ...] = ()  # why other regions had no offer
    billing_mode: str = ""  # where it is not the one that was asked for
    unknown: Mapping[str, Any] = field(default_factory=dict)  # stored by a newer version, and kept as it is

    @property
    def settled(self) -> bool:
        return self.outcome in (PurchaseOutcome.REFUSED, PurchaseOutcome.BOUGHT, PurchaseOutcome.ABSENT)

    @property
    def short_of_capacity(self) -> bool:
        fault = self.fault
        return (
            self.outcome is PurchaseOutcome.REFUSED
            and fault is not None
            and fault.code == "RESOURCE_CONSTRAINTS"
        )

    def under_way(self, now: datetime) -> bool:
        return self.outcome is PurchaseOutcome.INTENDED and now < self.lease_until

    @property
    def unclear_since(self) -> datetime:
        return self.ended_at or self.lease_until


@dataclass(frozen=True)
class Instance:
    id: str
    name: str
    spec: Spec
    status: Status
    created_at: datetime
    updated_at: datetime
    deadline_at: datetime | None
    next_check_at: datetime | None
    actor: str
    correlation_id: str
    webhook_url: str | None = None
    version: int = 0  # raised by every write; a write over another version is refused
    token: str = ""  # changed by every step; a message with another token is out of date
    sequence: int = 0  # of the last event
    machine: RentedMachine = RentedMachine()
    purchases: PurchaseState = PurchaseState()
    cleanup: Cleanup = Cleanup()
    ledger: Ledger = _NO_COSTS
    operation: Operation | None = None  # the last one
    health: Mapping[str, Any] | None = None
    rounds: HealthRounds = HealthRounds()
    probed_at: datetime | None = None  # the step that last asked the application
    ready_at: datetime | None = None
    last_used_at: datetime | None = None  # kept apart, and filled in where it is shown
    recovery: Recovery | None = None  # under way
    recoveries: RecoveryCount = NO_RECOVERIES
    limits: Limits = NO_LIMITS  # as asked for
    ceilings: Limits = NO_LIMITS  # the deployment's, when it was last asked
    clock: LimitClock = NEW_CLOCK
    protected: bool = False  # neither a caller nor a limit deletes it
    ended_by: EndedBy | None = None  # what stopped or ended it last
    error: Fault | None = None
    waiting: Fault | None = None  # why the next step has not been possible yet
    paused_at: datetime | None = None  # a pause held it back then: until it is asked again, no time counts
    capped: bool = False  # the key that made it has caps: it is counted for the key
    counted: Commitment = field(default=NOTHING, compare=False)  # by what is stored; never stored itself
    # By owner and tag, in which items of their own have it: the store's affair, and no part of what it is.
    lists: tuple[str, ...] = field(default=(), compare=False)
    unknown: Mapping[str, Any] = field(default_factory=dict)  # stored by a newer version, and kept as it is

    @property
    def at_rest(self) -> bool:
        busy = self.cleanup.tasks or self.purchases.unsettled or self.pending or self.machine.needs_look
        return self.status in AT_REST and not busy and self.recovery is None

    @property
    def live_machine_id(self) -> str | None:
        """The machine that it has, unless Novita has confirmed that it is no more, or it was released."""
        return None if self.machine.id in (*self.cleanup.gone, *self.cleanup.released) else self.machine.id

    @property
    def missing(self) -> bool:
        """Its machine cannot be found, and nobody asked for its end."""
        return self.machine.missing_since is not None and self.live_machine_id is not None

    @property
    def imported(self) -> bool:
        return not self.spec.template_id

    @property
    def billing_mode(self) -> str:
        return self.machine.billing_mode or self.spec.billing_mode

    @property
    def is_spot(self) -> bool:
        return self.billing_mode == SPOT

    @property
    def stuck(self) -> bool:
        """Novita has refused for long to give a machine back, or to stop it."""
        operation = self.operation if self.pending else None
        refusal = operation.refusal if operation else None
        return bool(refusal and refusal.announced) or any(task.stuck for task in self.cleanup.tasks)

    @property
    def may_have_machine(self) -> bool:
        """Whether Novita may show a machine of it: what a comparison with Novita's list must know of."""
        if self.cleanup.tasks or self.purchases.unsettled or self.status is Status.CREATING:
            return True
        # Told of if it is back. One that we bought is known by its mark, others only by being in the fleet.
        if self.imported and any(one in self.cleanup.gone for one in self.cleanup.vanished):
            return True
        return self.status is not Status.TERMINATED and self.live_machine_id is not None

    @property
    def leaving(self) -> bool:
        """Its machine is being deleted: its absence is what is waited for, and the clean-up asks by id."""
        task = self.cleanup.task(self.machine.id)
        return task is not None and task.action is Action.DELETE

    def gave_up(self, machine_id: str) -> bool:
        """It ended without the machine's end being asked for: one that is back may be somebody else's."""
        left = (*self.cleanup.vanished, *self.cleanup.released)
        return self.status is Status.TERMINATED and machine_id in left

    @property
    def pending(self) -> Action | None:
        """What was asked for and Novita has not taken yet."""
        operation = self.operation
        return operation.kind if operation and operation.pending and not operation.ended else None

    @property
    def queue(self) -> Queue:
        """Buying, and asking applications, may take long: each has workers that do nothing else."""
        if self.round_is_next:
            return Queue.STARTUP
        seeks_offer = self.recovery is not None and self.recovery.seeks_offer
        return Queue.CREATE if self.status is Status.CREATING or seeks_offer else Queue.MONITOR

    @property
    def round_is_next(self) -> bool:
        """The next call goes to the application, rather than to Novita."""
        old_look = self.rounds.old_look
        looked = old_look is None or self.machine.looked_at != old_look
        return self.status is Status.HEALTH_CHECKING and looked

    @property
    def starting_again(self) -> bool:
        """A start or restart is under way, rather than the first boot after a purchase."""
        operation = self.operation
        return operation is not None and not operation.ended and operation.brings_up

    @property
    def was_ready(self) -> bool:
        """Its machine has been of use."""
        return self.ready_at is not None and not self.machine.untried

    @property
    def coming_up(self) -> bool:
        """A machine that has yet to be of use, also where Novita moves it meanwhile."""
        moved = self.status is Status.MIGRATING and (self.starting_again or not self.was_ready)
        return moved or self.status in (Status.STARTING, Status.HEALTH_CHECKING)

    @property
    def health_check(self) -> HealthCheck | None:
        """The one that says when the boot under way has succeeded."""
        return (
            self.operation.health_check if self.operation and self.starting_again else self.spec.health_check
        )

    def may_become(self, status: Status) -> bool:
        return status in NEXT[self.status]
