"""The one decision: from a record and something learned to what comes next; rules/ has its parts."""

from dataclasses import replace
from datetime import datetime

from functions.shared.domain.decision import Decision, Policy
from functions.shared.domain.instance import Instance
from functions.shared.domain.observation import (
    Astray,
    Books,
    Died,
    Missing,
    NotThere,
    Observation,
    Postponed,
    Probed,
    Refused,
    Returned,
    Seen,
    Taken,
    Tick,
    Unlisted,
)
from functions.shared.domain.rules import outcomes, purchases, sightings
from functions.shared.domain.rules.progress import check_deadline, proceed


def decide(
    record: Instance,
    observation: Observation,
    now: datetime,
    policy: Policy,
    *,
    step: datetime | None = None,
    actor: str = "system",
) -> Decision:
    """Pure. `step` is when the step began that this decision belongs to; without it, a new one begins."""
    decision = _learn(Decision(record, now, policy, step or now, actor), observation)
    return decision if decision.call else proceed(decision)


def _learn(decision: Decision, observation: Observation) -> Decision:
    match observation:
        case Tick():
            return check_deadline(decision)
        case Books():
            return purchases.read_books(decision, observation.purchases)
        case NotThere():
            return purchases.not_there(decision, observation.purchase, observation.began)
        case Seen():
            decision = replace(decision, again_at=observation.again_at)
            return sightings.seen(decision, observation.machine, observation.began)
        case Missing():
            return sightings.missing(decision, observation.machine_id, observation.began)
        case Unlisted():
            return sightings.unlisted(decision, observation.machine_id, observation.began)
        case Astray():
            return purchases.astray(decision, observation.machine_id, booked=observation.booked)
        case Returned():
            return purchases.returned(decision, observation.machine_id)
        case Died():
            return outcomes.died(decision, observation.queue, observation.fault)
        case Taken():
            return outcomes.taken(decision, observation.act, observation.at)
        case Refused():
            return outcomes.refused(decision, observation)
        case Postponed():
            return outcomes.postponed(decision, observation.fault, observation.wait_seconds)
        case Probed():
            return outcomes.probed(decision, observation.report, observation.began)
