"""One create call to Novita and what became of it."""

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from enum import StrEnum

from functions.shared.domain.instance import Fault


class Outcome(StrEnum):
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
    outcome: Outcome
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
        return self.outcome in (Outcome.REFUSED, Outcome.BOUGHT, Outcome.ABSENT)

    @property
    def short_of_capacity(self) -> bool:
        fault = self.fault
        return self.outcome is Outcome.REFUSED and fault is not None and fault.code == "RESOURCE_CONSTRAINTS"

    def under_way(self, now: datetime) -> bool:
        return self.outcome is Outcome.INTENDED and now < self.lease_until

    @property
    def unclear_since(self) -> datetime:
        return self.ended_at or self.lease_until
