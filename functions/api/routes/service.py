"""Routes of the service itself: whether it is up, how reachable Novita is, and reconciling now."""

from typing import Annotated, Any, NotRequired, cast

from aws_lambda_powertools.event_handler.openapi.params import Body, Query
from aws_lambda_powertools.event_handler.router import APIGatewayHttpRouter
from typing_extensions import TypedDict

from functions.api.auth import ANONYMOUS, SCOPES
from functions.api.bodies import IdempotencyKey, SyncBody
from functions.api.requests import caller, idempotent, invocation, use_case, wired
from functions.api.use_cases.check_dependencies import CheckDependencies
from functions.api.use_cases.read_status import ReadStatus, pause_view
from functions.api.views import FaultView
from functions.shared.domain.errors import CallerError
from functions.shared.domain.ids import timestamp
from functions.shared.domain.instance.comparison import ComparisonReport, Difference, DifferenceKind
from functions.shared.stores.idempotency import ApiResult

router = APIGatewayHttpRouter()

_MOST_SECONDS = 20.0
_MOST_SHOWN = 500  # of a kind


class ChecksView(TypedDict):
    table: str
    queues: str
    circuits: dict[str, str]


class HealthView(TypedDict):
    status: str
    service: str
    checks: NotRequired[ChecksView]


class CircuitView(TypedDict):
    name: str
    state: str
    failures: int
    epoch: int
    openings: int
    openUntil: NotRequired[str]


class CircuitsView(TypedDict):
    circuits: list[CircuitView]


class RateLimitView(TypedDict):
    limit: int
    windowSeconds: int
    used: int
    usedBy: dict[str, int]
    pausedUntil: NotRequired[str]


class BalanceView(TypedDict):
    availableUsd: NotRequired[str]
    cashUsd: NotRequired[str]
    creditLimitUsd: NotRequired[str]
    outstandingUsd: NotRequired[str]
    asOf: str


class PauseView(TypedDict):
    purchasesPaused: bool
    pausedAt: NotRequired[str]
    pausedBy: NotRequired[str]


class MeView(TypedDict):
    id: str
    scopes: list[str]


class StatusView(PauseView):
    lastSweepAt: NotRequired[str]
    lastComparedAt: NotRequired[str]
    comparisonComplete: NotRequired[bool]
    comparisonError: NotRequired[FaultView]
    machines: NotRequired[int]
    missing: NotRequired[int]
    orphans: NotRequired[int]
    orphanDeletionsHeld: NotRequired[int]
    stuckCleanups: NotRequired[int]
    keyProven: NotRequired[bool]
    rateLimit: RateLimitView
    balance: NotRequired[BalanceView]


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
    known: int
    missing: int
    stuck: int
    deletionsHeld: int
    overdue: OverdueView
    followed: list[DifferenceView]
    doubted: list[DifferenceView]
    surplus: list[DifferenceView]
    orphans: list[DifferenceView]
    error: NotRequired[FaultView]


@router.get("/health", summary="Whether the service answers", tags=["service"])
def health(
    deep: Annotated[bool, Query(description="With a key: table, queues, circuits")] = False,
) -> HealthView:
    """`degraded` with `deep`: Novita is not to be had. 503: the table or a queue is not."""
    if not deep:
        return {"status": "ok", "service": "ostler"}
    if caller() == ANONYMOUS:
        raise CallerError("UNAUTHORIZED", "What the service stands on is shown to holders of a key")
    found = use_case(CheckDependencies)()
    checks: ChecksView = {"table": "ok", "queues": "ok", "circuits": found}
    calm = all(state == "CLOSED" for state in found.values())
    return {"status": "ok" if calm else "degraded", "service": "ostler", "checks": checks}


@router.get(
    "/api/me",
    summary="Who you are here, and what you may do",
    description="`id` is the actor of what you do in the event history. A scope includes the lesser ones.",
    tags=["service"],
)
def me() -> MeView:
    return {"id": caller().id, "scopes": [scope for scope in SCOPES if caller().may(scope)]}


@router.get("/api/circuits", summary="Each circuit's state", tags=["market"])
def circuits() -> CircuitsView:
    return {"circuits": [_circuit(one) for one in wired().circuits.states()]}


def _circuit(report: Any) -> CircuitView:
    view: CircuitView = {
        "name": report.name,
        "state": str(report.state),
        "failures": report.failures,
        "epoch": report.epoch,
        "openings": report.openings,
    }
    if report.open_until:
        view["openUntil"] = timestamp(report.open_until)
    return view


@router.get(
    "/api/status",
    summary="How the service stands",
    description=(
        "What the last sweep found (at most a minute ago while the reconciler is alive), whether the Novita "
        "key is proven, and how many of the calls of a minute are used. `lastComparedAt` is the last time "
        "that Novita's list could be read, `comparisonError` why it could not be since. `balance` is "
        "Novita's own, at most 5 minutes old. What is not known is left out."
    ),
    tags=["service"],
)
def status() -> StatusView:
    return cast("StatusView", use_case(ReadStatus)())


@router.post(
    "/api/pause",
    summary="Buy and start nothing until resumed",
    description=(
        "Creates, starts and restarts answer 409 `PURCHASES_PAUSED`, everywhere within 5 s. What was "
        "accepted before and is not bought, started or brought back yet waits (`waitingFor`) and goes on by "
        "itself when resumed: the time of a pause counts for no deadline of it. A call that Novita has taken "
        "goes on. Stops, deletes, looks and health checks go on."
    ),
    tags=["service"],
)
def pause(idempotency_key: IdempotencyKey = None) -> PauseView:
    return _turn("POST /api/pause", idempotency_key, paused=True)


@router.post("/api/resume", summary="Buy and start again; what waited goes on", tags=["service"])
def resume(idempotency_key: IdempotencyKey = None) -> PauseView:
    return _turn("POST /api/resume", idempotency_key, paused=False)


def _turn(route: str, key: str | None, *, paused: bool) -> PauseView:
    def work() -> ApiResult:
        return ApiResult(200, pause_view(wired().purchase_switch.turn(paused=paused, actor=caller().id)))

    request = idempotent(route, key, router.current_event.json_body)
    return cast("PauseView", wired().idempotency.kept_after(request, work, route).body)


@router.post(
    "/api/sync",
    summary="Compare with Novita now",
    description=(
        "What the reconciler does every minute, for at most 20 s; `complete` is false if something is left "
        "or Novita's list could not be read. `action` is the status that a record follows to, `look` (a get "
        "by id is due), `adopt`, `delete`, `announce` or `keep`; `done` is whether this call did it. With "
        "`dryRun` nothing is done. `deletionsHeld`: so many orphans would be deleted at once under "
        "`ORPHAN_POLICY=delete` that none is, until an admin asks with `deleteOrphans`. `trustKey`: "
        "the Novita key is that of our account, though it shows no machine of ours."
    ),
    tags=["service"],
)
def sync(body: Annotated[SyncBody | None, Body()] = None, idempotency_key: IdempotencyKey = None) -> SyncView:
    body = body or SyncBody()
    dry_run = body.dryRun
    idempotency = wired().idempotency
    once = idempotency.once if dry_run else idempotency.kept_after  # a dry run changes nothing to repeat
    request = idempotent("POST /api/sync", idempotency_key, router.current_event.json_body)
    result = once(request, lambda: ApiResult(200, {**_reconcile(body)}), "POST /api/sync")
    return cast("SyncView", result.body)


def _reconcile(body: SyncBody) -> SyncView:
    from functions.shared.engine.compare import CompareWithNovita  # seldom needed: not at the cold start
    from functions.shared.engine.sweep import Sweep

    run, dry_run, began = invocation().at_most(_MOST_SECONDS), body.dryRun, wired().clock()
    if body.trustKey and not dry_run:
        wired().key_trust.trust(caller().id)
    sweep = run.compose(Sweep)
    overdue = sweep.overdue() if dry_run else sweep()
    report = run.compose(CompareWithNovita)(dry_run=dry_run, delete_orphans=body.deleteOrphans)
    if not dry_run:
        wired().last_sweep.note(report, began)
        invocation().job_counts.add("sweep", incomplete=int(not report.complete))
    view: SyncView = {
        "complete": report.complete and report.whole,
        "dryRun": dry_run,
        "known": report.known,
        "missing": report.missing,
        "stuck": report.stuck,
        "deletionsHeld": report.deletions_held,
        "overdue": {
            "instances": overdue["instances"],
            "deliveries": overdue["deliveries"],
            "events": overdue["events"],
        },
        "followed": _shown(report, DifferenceKind.FOLLOWED),
        "doubted": _shown(report, DifferenceKind.DOUBTED),
        "surplus": _shown(report, DifferenceKind.SURPLUS),
        "orphans": _shown(report, DifferenceKind.ORPHAN),
    }
    if report.fault:
        view["error"] = {"code": report.fault.code, "message": report.fault.message}
    return view


def _shown(report: ComparisonReport, kind: DifferenceKind) -> list[DifferenceView]:
    return [_difference(one) for one in report.of(kind)][:_MOST_SHOWN]


def _difference(difference: Difference) -> DifferenceView:
    return {
        "instanceId": difference.instance_id,
        "novitaInstanceId": difference.machine_id,
        "action": str(difference.action),
        "done": difference.done,
    }
