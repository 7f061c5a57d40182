"""The one decision: from a record and something learned to what comes next; its neighbours have the rules."""

from datetime import datetime

from functions.shared.domain.instance import enforcement, outcomes, purchases, recovery, sightings
from functions.shared.domain.instance.decision import Decision, Policy
from functions.shared.domain.instance.observations import (
    ActionTaken,
    BudgetsJudged,
    CallPostponed,
    CallRefused,
    CallUnclear,
    DeadLettered,
    GpuUseRead,
    HealthChecked,
    NameNotListed,
    NotFoundById,
    NoticeSeen,
    NotListed,
    Observation,
    OfferFound,
    OfferNotFound,
    OwnedByAnother,
    PurchasesRead,
    Reappeared,
    RecoveryMayBegin,
    RoundHeld,
    Seen,
    Tick,
    UnknownMachine,
    UseRead,
)
from functions.shared.domain.instance.progress import after_pause, check_time, proceed
from functions.shared.domain.instance.record import Instance


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
    if isinstance(observation, NoticeSeen):  # which changes nothing about what is due
        return decision
    return decision if decision.call else proceed(decision)


def _learn(decision: Decision, observation: Observation) -> Decision:
    match observation:
        case Tick():
            limited = enforcement.enforce(after_pause(decision))
            return limited if limited.call or limited.pause else check_time(limited)
        case PurchasesRead():
            return purchases.purchases_read(decision, observation)
        case NameNotListed():
            return purchases.name_not_listed(decision, observation.purchase, observation.began)
        case Seen():
            return sightings.seen(decision, observation.machine, observation.began)
        case NotFoundById():
            return sightings.not_found(decision, observation)
        case NotListed():
            return sightings.not_listed(decision, observation.machine_id, observation.began)
        case UnknownMachine():
            return purchases.unknown_machine(decision, observation.machine_id)
        case OwnedByAnother():
            return outcomes.owned_by_another(decision, observation.machine_id)
        case Reappeared():
            return purchases.reappeared(decision, observation.machine, observation.began)
        case DeadLettered():
            return outcomes.dead_lettered(decision, observation.queue, observation.fault)
        case ActionTaken():
            return outcomes.action_taken(decision, observation.act, observation.at)
        case CallRefused():
            return outcomes.call_refused(decision, observation)
        case CallUnclear():
            return outcomes.call_unclear(decision, observation)
        case CallPostponed():
            return outcomes.call_postponed(decision, observation)
        case HealthChecked():
            return outcomes.health_checked(decision, observation)
        case RoundHeld():
            return outcomes.round_held(decision, observation.wait_seconds)
        case NoticeSeen():
            return sightings.notice_seen(decision, observation.machine, observation.began)
        case RecoveryMayBegin():
            return recovery.begun(decision)
        case OfferFound():
            return recovery.offer_found(decision, observation)
        case OfferNotFound():
            return recovery.offer_not_found(decision, observation)
        case UseRead():
            return enforcement.use_read(decision, observation.use)
        case GpuUseRead():
            return enforcement.gpu_use_read(decision, observation)
        case BudgetsJudged():
            return enforcement.budgets_judged(decision, observation)
