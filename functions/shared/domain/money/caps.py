"""What an instance commits of the caps, and whether a cap leaves room for it."""

from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from typing import TYPE_CHECKING, Any

from functions.shared.domain.errors import SpendingRefused
from functions.shared.domain.instance.status import Status

if TYPE_CHECKING:
    from functions.shared.domain.instance.record import Instance

DEPLOYMENT = "deployment"  # the counter of the whole deployment; the others have the ids of their keys
_MICROS = 1_000_000  # counters hold whole numbers: millionths of a dollar
_BILLED = frozenset(
    {Status.CREATING, Status.STARTING, Status.MIGRATING, Status.STOPPING}
    | {Status.RUNNING, Status.HEALTH_CHECKING, Status.READY}
)
_NOT_BILLED_AT_NOVITA = ("exited", "removed")


@dataclass(frozen=True)
class Commitment:
    instances: int = 0
    hourly: int = 0  # millionths of a dollar

    def __add__(self, other: "Commitment") -> "Commitment":
        return Commitment(self.instances + other.instances, self.hourly + other.hourly)

    def __sub__(self, other: "Commitment") -> "Commitment":
        return Commitment(self.instances - other.instances, self.hourly - other.hourly)


NOTHING = Commitment()


@dataclass(frozen=True)
class CapLimits:
    """None: no such cap."""

    instances: int | None = None
    hourly: int | None = None  # millionths of a dollar

    def __bool__(self) -> bool:
        return self.instances is not None or self.hourly is not None


NO_CAPS = CapLimits()


def micros(usd: Decimal) -> int:
    return int((usd * _MICROS).to_integral_value(ROUND_CEILING))


def usd_text(hourly: int) -> str:
    return f"{Decimal(hourly) / _MICROS:.4f}"


def committed(record: "Instance") -> Commitment:
    """Money counts from the create, start or recovery on until the stop or end is confirmed, and while its
    machine is missing; the instance itself until it is terminated, or failed without a machine."""
    if record.status is Status.TERMINATED:
        return NOTHING
    has_machine = record.live_machine_id is not None
    may_have = bool(record.cleanup.tasks) or record.purchases.unsettled or record.status is Status.CREATING
    if not has_machine and not may_have:
        return NOTHING
    return Commitment(1, _hourly(record) if _is_billed(record) else 0)


def counters(record: "Instance", *, deployment: bool) -> tuple[str, ...]:
    """Where it counts: only where a cap is set."""
    return (*([DEPLOYMENT] if deployment else []), *([record.actor] if record.capped else []))


def _is_billed(record: "Instance") -> bool:
    recovering = record.recovery is not None and record.recovery.since is not None
    if record.status in _BILLED or recovering:
        return True
    if record.status not in (Status.FAILED, Status.DELETING):
        return False
    on = record.live_machine_id is not None and record.machine.novita_status not in _NOT_BILLED_AT_NOVITA
    return on or record.purchases.unsettled


def _hourly(record: "Instance") -> int:
    """Of its machine; of the purchase that is made, or waited for, where it has none."""
    meter = record.ledger.meter(record.machine.id)
    if meter and meter.usd_per_hour is not None and record.status is not Status.CREATING:
        return micros(meter.usd_per_hour)
    buying = record.status is Status.CREATING or record.machine.price is None
    price = record.purchases.price if buying else record.machine.price
    return 0 if price is None else micros(price * record.spec.gpu_num)


def require_room(
    name: str, limits: CapLimits, in_use: Commitment, before: Commitment, wanted: Commitment
) -> None:
    """`in_use` has what the instance had committed before. One of unknown price counts as an instance alone;
    starting one that is there already needs no room for an instance."""
    after, whose = in_use - before + wanted, "the deployment" if name == DEPLOYMENT else name
    if (
        limits.instances is not None
        and wanted.instances > before.instances
        and after.instances > limits.instances
    ):
        details: dict[str, Any] = {"cap": "maxInstances", "of": name, "limit": limits.instances}
        details["inUse"] = in_use.instances
        why = f"{in_use.instances} of the {limits.instances} instances that {whose} may have are in use"
        raise SpendingRefused("CAP_EXCEEDED", why, details=details)
    if limits.hourly is not None and wanted.hourly and after.hourly > limits.hourly:
        details = {"cap": "maxHourlyUsd", "of": name, "limitUsd": usd_text(limits.hourly)}
        details |= {
            "inUseUsd": usd_text(in_use.hourly - before.hourly),
            "neededUsd": usd_text(wanted.hourly),
        }
        why = (
            f"${details['inUseUsd']} of the ${details['limitUsd']} an hour that {whose} may spend are in "
            f"use, and this needs ${details['neededUsd']}"
        )
        raise SpendingRefused("CAP_EXCEEDED", why, details=details)
