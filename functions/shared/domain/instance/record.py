"""One rented machine as the service remembers it: what was asked for, what is known, what is due."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any

from functions.shared.domain.errors import Fault
from functions.shared.domain.instance.boot_times import BootEstimate
from functions.shared.domain.instance.health import HealthCheck
from functions.shared.domain.instance.machine import Endpoint
from functions.shared.domain.instance.status import AT_REST, NEXT, Status


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


@dataclass(frozen=True)
class CleanupTask:
    """A machine that must be deleted (or stopped) before this instance is at rest."""

    machine_id: str
    action: Action
    seen_at: datetime
    asked_at: datetime | None = None
    missing_at: datetime | None = None
    checked_at: datetime | None = None


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

    @property
    def ended(self) -> bool:
        return self.status in ("completed", "failed")

    def to(self, status: str, at: datetime, error: Fault | None = None) -> "Operation":
        if self.ended or self.status == status:
            return self
        return replace(self, status=status, phases=(*self.phases, (status, at)), error=error)


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
    purchases: int = 0  # how many create calls were intended
    unsettled: bool = False  # a purchase may still turn out bought
    unseen_at: datetime | None = None  # when the machine of an unclear purchase was first looked for in vain
    gone: tuple[str, ...] = ()  # machines of ours that Novita confirmed gone
    vanished: tuple[
        str, ...
    ] = ()  # those of them whose end nobody had asked for: never deleted if they return
    machine_id: str | None = None
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
    reviewed_at: datetime | None = None  # the step that last read the purchases
    looked_at: datetime | None = None  # the step that last asked Novita for the machine
    probed_at: datetime | None = None  # the step that last asked the application
    seen_at: datetime | None = None  # when Novita last showed the machine
    missing_at: datetime | None = None  # when a get first did not find it
    needs_look: bool = False  # it may be gone: a get by id is due
    acted_at: datetime | None = None  # when Novita last took an action of ours
    ready_at: datetime | None = None
    last_used_at: datetime | None = None  # kept apart, and filled in where it is shown
    pending: Action | None = None  # asked for, not yet taken by Novita
    duties: tuple[CleanupTask, ...] = ()
    operation: Operation | None = None
    health: Mapping[str, Any] | None = None
    health_check: HealthCheck | None = None  # of the start under way
    error: Fault | None = None
    waiting: Fault | None = None  # why the next step has not been possible yet

    @property
    def at_rest(self) -> bool:
        busy = self.duties or self.unsettled or self.pending or self.needs_look
        return self.status in AT_REST and not busy

    @property
    def machine(self) -> str | None:
        """The machine that it has, unless Novita has confirmed that it is no more."""
        return None if self.machine_id in self.gone else self.machine_id

    def gave_up(self, machine_id: str) -> bool:
        """It ended because the machine had vanished: one that is back may be somebody else's."""
        return self.status is Status.TERMINATED and machine_id in self.vanished

    @property
    def queue(self) -> Queue:
        if self.status is Status.CREATING:
            return Queue.CREATE
        coming_up = self.status in (Status.STARTING, Status.RUNNING) and self.starting_again
        return Queue.STARTUP if coming_up or self.status is Status.HEALTH_CHECKING else Queue.MONITOR

    @property
    def starting_again(self) -> bool:
        """A start or restart is under way, rather than the first boot after a purchase."""
        operation = self.operation
        return (
            operation is not None and not operation.ended and operation.kind in (Action.START, Action.RESTART)
        )

    @property
    def coming_up(self) -> bool:
        """A machine that has yet to be of use, also where Novita moves it meanwhile."""
        moved = self.status is Status.MIGRATING and (self.starting_again or self.ready_at is None)
        return moved or self.status in (Status.STARTING, Status.HEALTH_CHECKING)

    def may_become(self, status: Status) -> bool:
        return status in NEXT[self.status]
