"""What was learned, and the calls through which more can be learned or done."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from functions.shared.domain.errors import Fault
from functions.shared.domain.instance.boot_times import BootEstimate
from functions.shared.domain.instance.gpu_use import GpuSeries
from functions.shared.domain.instance.health import HealthReport
from functions.shared.domain.instance.machine import Machine
from functions.shared.domain.instance.record import Action, Purchase, Queue

# Calls: what decide wants done next.


@dataclass(frozen=True)
class ReadPurchases:
    """Read the instance's purchases."""


@dataclass(frozen=True)
class FindByName:
    """Ask Novita's list for the machine of a purchase whose outcome is unclear."""

    purchase: Purchase


@dataclass(frozen=True)
class WriteOffPurchase:
    """Note that the machine of an unclear purchase never came to be."""

    purchase: Purchase


@dataclass(frozen=True)
class Buy:
    """Make one create call."""


@dataclass(frozen=True)
class Look:
    """Ask Novita for one machine."""

    machine_id: str


@dataclass(frozen=True)
class Act:
    action: Action
    machine_id: str


@dataclass(frozen=True)
class BeginRecovery:
    """Ask whether a machine that was taken away may be brought back now."""


@dataclass(frozen=True)
class FindOffer:
    """Ask whether another machine could be bought, and buy nothing."""


@dataclass(frozen=True)
class CheckHealth:
    """Ask the application inside whether it answers."""


@dataclass(frozen=True)
class ReadUse:
    """Read when it was last used: its time without use may be up."""


@dataclass(frozen=True)
class LastUse:
    """As it was read; None: nobody has noted any."""

    at: datetime | None


@dataclass(frozen=True)
class ReadGpuUse:
    """Ask Novita how busy the machine's GPUs were for so long: by all else it is idle."""

    machine_id: str
    window: timedelta
    last_use: LastUse  # what a stop rests on


Call = (
    ReadPurchases
    | FindByName
    | WriteOffPurchase
    | Buy
    | Look
    | Act
    | CheckHealth
    | ReadUse
    | ReadGpuUse
    | BeginRecovery
    | FindOffer
)


# Observations: what came of it. `began` is when the request that learned it was begun.


@dataclass(frozen=True)
class Tick:
    """Nothing was learned; time has passed."""


@dataclass(frozen=True)
class PurchasesRead:
    purchases: tuple[Purchase, ...]
    boot: BootEstimate | None = None  # how long one that was just bought may take to come up


@dataclass(frozen=True)
class NameNotListed:
    """Novita's list has no machine of that purchase's name."""

    purchase: Purchase
    began: datetime


@dataclass(frozen=True)
class Seen:
    machine: Machine
    began: datetime


@dataclass(frozen=True)
class NotFoundById:
    """A get by id, or an action, answered that there is no such machine."""

    machine_id: str
    began: datetime
    with_reason: bool = True  # Novita's own; a gateway that lost its routes answers without
    unlisted: bool = False  # a complete list that was read for this lacks it, too
    fault: Fault | None = None  # how it is told where it does not count


@dataclass(frozen=True)
class NotListed:
    """A complete list did not have the machine, which proves nothing."""

    machine_id: str
    began: datetime


@dataclass(frozen=True)
class UnknownMachine:
    """A machine carries this instance's mark, and the record does not know it. A purchase explains it, so
    that reading the purchases settles whose it is."""

    machine_id: str


@dataclass(frozen=True)
class OwnedByAnother:
    """The machine that was to be deleted belongs to another instance by now."""

    machine_id: str


@dataclass(frozen=True)
class Reappeared:
    """A get by id shows a machine that was confirmed gone."""

    machine: Machine
    began: datetime


@dataclass(frozen=True)
class DeadLettered:
    """A message that carried the record's current token failed in this queue for the last time."""

    queue: Queue
    fault: Fault


@dataclass(frozen=True)
class ActionTaken:
    """Novita took the action."""

    act: Act
    at: datetime


@dataclass(frozen=True)
class CallRefused:
    """Novita refused the action, or the purchase could not be made."""

    fault: Fault
    act: Act | None = None
    capacity: bool = False
    wrong_state: bool = False  # the machine is not in a state for it, perhaps because it was done already
    wait_seconds: float | None = None


@dataclass(frozen=True)
class CallUnclear:
    """Novita did not say whether it did what must not be done twice."""

    fault: Fault
    act: Act
    wait_seconds: float | None = None


@dataclass(frozen=True)
class CallPostponed:
    """Not now: no slot, circuit open, Novita down, nothing on offer. Come back after the wait."""

    fault: Fault
    wait_seconds: float | None = None  # None: as long as between two looks
    act: Act | None = None  # for which there was no slot


@dataclass(frozen=True)
class HealthChecked:
    """One round is over."""

    report: HealthReport
    began: datetime
    chance: float = 0.5  # from 0 to 1: the jitter of the wait for the next one


@dataclass(frozen=True)
class RoundHeld:
    """No round was made: as many slow applications as may be are being asked already."""

    wait_seconds: float


@dataclass(frozen=True)
class RecoveryMayBegin:
    """Purchases and starts are not paused."""


@dataclass(frozen=True)
class OfferFound:
    """Another machine can be had at this moment."""

    price: Decimal  # USD for one GPU and hour


@dataclass(frozen=True)
class OfferNotFound:
    fault: Fault


@dataclass(frozen=True)
class NoticeSeen:
    """A list shows the notice of a reclaim, whatever else is under way."""

    machine: Machine
    began: datetime


@dataclass(frozen=True)
class UseRead:
    use: LastUse


@dataclass(frozen=True)
class GpuUseRead:
    """`series`: of each GPU, its utilisation in percent by time; None: it could not be read."""

    asked: ReadGpuUse
    series: GpuSeries | None


@dataclass(frozen=True)
class BudgetsJudged:
    """Whether a budget that stops what runs is passed: the end of its period; None: there is none such."""

    period_ends_at: datetime | None


Observation = (
    Tick
    | PurchasesRead
    | NameNotListed
    | Seen
    | NotFoundById
    | NotListed
    | UnknownMachine
    | OwnedByAnother
    | Reappeared
    | DeadLettered
    | ActionTaken
    | CallRefused
    | CallUnclear
    | CallPostponed
    | HealthChecked
    | RoundHeld
    | RecoveryMayBegin
    | OfferFound
    | OfferNotFound
    | NoticeSeen
    | UseRead
    | GpuUseRead
    | BudgetsJudged
)
