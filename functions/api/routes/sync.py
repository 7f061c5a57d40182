"""The route that reconciles now instead of at the next minute."""

from typing import Annotated, NotRequired, cast

from aws_lambda_powertools.event_handler.openapi.params import Body
from aws_lambda_powertools.event_handler.router import APIGatewayHttpRouter
from typing_extensions import TypedDict

from functions.api.bodies import IdempotencyKey, SyncBody
from functions.api.context import idempotent, wired
from functions.api.views import FaultView
from functions.shared.domain.instance.comparison import ComparisonReport, Difference, DifferenceKind
from functions.shared.stores.idempotency import ApiResult

router = APIGatewayHttpRouter()

_MOST_SECONDS = 20.0
_MOST_SHOWN = 500  # of a kind


class DifferenceView(TypedDict):
    instanceId: str
    novitaInstanceId: str
    action: str
    done: bool


class OverdueView(TypedDict):
    instances: int
    deliveries: int
    events: int


class SyncView(TypedDict):
    complete: bool
    dryRun: bool
    braked: bool
    known: int
    overdue: OverdueView
    followed: list[DifferenceView]
    doubted: list[DifferenceView]
    surplus: list[DifferenceView]
    orphans: list[DifferenceView]
    error: NotRequired[FaultView]


@router.post(
    "/api/sync",
    summary="Compare with Novita now",
    description=(
        "What the reconciler does every minute, for at most 20 s; `complete` is false if something is left "
        "or Novita's list could not be read. `braked`: too much would have ended or been orphaned at once, "
        "so nothing was changed. `action` is the status that a record follows to, `look` (a get by id is "
        "due), `adopt`, `delete`, `announce` or `keep`; `done` is whether this call did it. With `dryRun` "
        "nothing is done."
    ),
    tags=["service"],
)
def sync(body: Annotated[SyncBody | None, Body()] = None, idempotency_key: IdempotencyKey = None) -> SyncView:
    dry_run = body.dryRun if body else False
    idempotency = wired().idempotency
    once = (
        idempotency.once if dry_run else idempotency.kept_after
    )  # only what changes something has its answer kept
    question = idempotent("POST /api/sync", idempotency_key, router.current_event.json_body)
    result = once(question, lambda: ApiResult(200, {**_reconciled(dry_run)}), "POST /api/sync")
    return cast("SyncView", result.body)


def _reconciled(dry_run: bool) -> SyncView:
    wiring = wired()
    with wiring.hurried(_MOST_SECONDS):
        overdue = wiring.sweep.overdue() if dry_run else wiring.sweep()
        outcome = wiring.compare(dry_run=dry_run)
    if not dry_run:
        braked, incomplete = int(outcome.braked), int(not outcome.complete)
        wiring.counts.add("sweep", braked=braked, incomplete=incomplete)
    view: SyncView = {
        "complete": outcome.complete,
        "dryRun": dry_run,
        "braked": outcome.braked,
        "known": outcome.known,
        "overdue": {
            "instances": overdue["instances"],
            "deliveries": overdue["deliveries"],
            "events": overdue["events"],
        },
        "followed": _shown(outcome, DifferenceKind.FOLLOWED),
        "doubted": _shown(outcome, DifferenceKind.DOUBTED),
        "surplus": _shown(outcome, DifferenceKind.SURPLUS),
        "orphans": _shown(outcome, DifferenceKind.ORPHAN),
    }
    if outcome.fault:
        view["error"] = {"code": outcome.fault.code, "message": outcome.fault.message}
    return view


def _shown(outcome: ComparisonReport, kind: DifferenceKind) -> list[DifferenceView]:
    return [_difference(one) for one in outcome.of(kind)][:_MOST_SHOWN]


def _difference(finding: Difference) -> DifferenceView:
    return {
        "instanceId": finding.instance_id,
        "novitaInstanceId": finding.machine_id,
        "action": str(finding.action),
        "done": finding.done,
    }
