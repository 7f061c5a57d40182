"""Routes that show the work behind the API, and set going again what failed for good."""

from datetime import timedelta
from typing import Annotated, NotRequired, cast

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Body, Path, Query
from aws_lambda_powertools.event_handler.router import APIGatewayHttpRouter
from typing_extensions import TypedDict

from functions.api.bodies import Cursor, DeadLetterCleanupBody, IdempotencyKey, Moment
from functions.api.requests import caller, idempotent, invocation, use_case, wired
from functions.api.use_cases.read_jobs import QueueState, ReadJobs
from functions.api.use_cases.redrive_dead_letter import RedriveDeadLetter
from functions.api.views import FaultView
from functions.shared.domain.ids import timestamp
from functions.shared.domain.messages import DeadLetter
from functions.shared.platform.observability import logger
from functions.shared.stores.idempotency import ApiResult
from functions.shared.stores.jobs import MOST_HOURS

router = APIGatewayHttpRouter()

_JOBS = ["jobs"]
_LISTING = "dead letters"
_MOST_REMOVED = 500  # at once


class QueueView(TypedDict):
    depth: int
    inFlight: int
    delayed: int
    dead: int
    oldestAgeSeconds: int


class JobView(TypedDict):
    pending: int
    inProgress: int
    done: int
    refused: int
    gaveUp: int
    retried: int
    dead: int


class SweepsView(TypedDict):
    incomplete: int


class JobStatsView(TypedDict):
    since: str
    queues: dict[str, QueueView]
    deadLettersNotStored: int
    jobs: dict[str, JobView]
    sweeps: SweepsView


class DeadLetterView(TypedDict):
    id: str
    queue: str
    instanceId: NotRequired[str]
    deliveryId: NotRequired[str]
    correlationId: NotRequired[str]
    reason: FaultView
    error: NotRequired[str]
    attempts: int
    diedAt: str
    redrivenAt: NotRequired[str]
    body: NotRequired[str]


class DeadLettersView(TypedDict):
    deadLetters: list[DeadLetterView]
    nextCursor: NotRequired[str]


class CleanedUpView(TypedDict):
    removed: int
    complete: bool


class RedrivenView(TypedDict):
    id: str
    instanceId: NotRequired[str]
    deliveryId: NotRequired[str]
    message: str


@router.get(
    "/api/jobs/stats",
    summary="Queues, and jobs done and failed",
    description=(
        "`depth`, `inFlight` and `delayed` are SQS's own, approximate numbers. `dead` counts dead letters "
        "that nobody has redriven; `deadLettersNotStored` are on their way there. `oldestAgeSeconds` "
        "is how long the longest overdue step (or webhook attempt) of that queue has been overdue, by the "
        "index of what is due: SQS itself tells no age. "
        "A job is a message. In the window: `done` were handled; by `refused` an instance or its start "
        "failed for good, or a receiver wants no more; with `gaveUp` its time or its attempts were over; "
        "`retried` failed and come again; `dead` became dead letters. `pending` (waiting and delayed) and "
        "`inProgress` are those of now. `sweeps` counts comparisons with Novita that were not completed. "
        "Counted by the hour: `since` is the beginning of the first one."
    ),
    tags=_JOBS,
)
def stats(
    windowHours: Annotated[  # noqa: N803  # the API's own name
        int, Query(ge=1, le=MOST_HOURS, description="What is counted: the last so many hours")
    ] = 24,
) -> JobStatsView:
    read = use_case(ReadJobs)
    since, queues = read.since(windowHours), read.queues()
    jobs = {name: _job(queues[name], counted) for name, counted in read.jobs(since).items()}
    return {
        "since": timestamp(since),
        "queues": {name: _queue(state) for name, state in queues.items()},
        "deadLettersNotStored": read.dead_letters_not_stored(),
        "jobs": jobs,
        "sweeps": {"incomplete": read.incomplete_sweeps(since)},
    }


@router.get("/api/jobs/dead", summary="Messages that failed for the last time, newest first", tags=_JOBS)
def dead(
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
    cursor: Cursor = None,
    since: Annotated[Moment | None, Query(description="Only those that failed since then")] = None,
) -> DeadLettersView:
    cursors, listing = invocation().cursors, f"{_LISTING} {timestamp(since)}" if since else _LISTING
    after = cursors.read(cursor, listing) if cursor else None
    found, end = wired().dead_letters.page(limit, after, since)
    view: DeadLettersView = {"deadLetters": [_dead_letter(one) for one in found]}
    if end:
        view["nextCursor"] = cursors.make(end, listing)
    return view


@router.post(
    "/api/jobs/dead/cleanup",
    summary="Remove old dead letters",
    description=(
        "Those that failed longer ago than `olderThanHours`, redriven or not, oldest first and at most 500 "
        "at once: `complete` is false where more are left. All of them go by themselves after 14 days."
    ),
    tags=_JOBS,
)
def clean_up(
    body: Annotated[DeadLetterCleanupBody, Body()], idempotency_key: IdempotencyKey = None
) -> CleanedUpView:
    def work() -> ApiResult:
        before = wired().clock() - timedelta(hours=body.olderThanHours)
        removed, complete = wired().dead_letters.remove(before, _MOST_REMOVED)
        logger.warning("dead letters removed", actor=caller().id, removed=removed, before=timestamp(before))
        return ApiResult(200, {"removed": removed, "complete": complete})

    route = "POST /api/jobs/dead/cleanup"
    request = idempotent(route, idempotency_key, router.current_event.json_body)
    return cast("CleanedUpView", wired().idempotency.kept_after(request, work, route).body)


@router.post(
    "/api/jobs/dead/<letter_id>/redrive",
    summary="Let what failed go on, with a new message",
    tags=_JOBS,
    status_code=202,
)
def redrive(
    letter_id: Annotated[str, Path(max_length=128)], idempotency_key: IdempotencyKey = None
) -> Response[RedrivenView]:
    """An instance that failed and has no machine is bought again; a webhook is sent now."""
    request = idempotent(f"redrive {letter_id}", idempotency_key, router.current_event.json_body)
    result = use_case(RedriveDeadLetter)(letter_id, actor=caller().id, request=request)
    return Response(result.status, "application/json", cast("RedrivenView", result.body))


def _queue(state: QueueState) -> QueueView:
    return {
        "depth": state.depth.waiting,
        "inFlight": state.depth.in_flight,
        "delayed": state.depth.delayed,
        "dead": state.dead,
        "oldestAgeSeconds": int(state.oldest_age.total_seconds()),
    }


def _job(state: QueueState, counted: dict[str, int]) -> JobView:
    depth = state.depth
    now = {"pending": depth.waiting + depth.delayed, "inProgress": depth.in_flight}
    return cast("JobView", {**now, **counted})


def _dead_letter(dead_letter: DeadLetter) -> DeadLetterView:
    failure = dead_letter.failure
    view: DeadLetterView = {
        "id": dead_letter.id,
        "queue": dead_letter.queue,
        "reason": {"code": failure.fault.code, "message": failure.fault.message},
        "attempts": failure.attempts,
        "diedAt": timestamp(failure.at),
    }
    if dead_letter.instance_id:
        view["instanceId"] = dead_letter.instance_id
    if dead_letter.delivery_id:
        view["deliveryId"] = dead_letter.delivery_id
    if dead_letter.correlation_id:
        view["correlationId"] = dead_letter.correlation_id
    if failure.error:
        view["error"] = failure.error
    if dead_letter.redriven_at:
        view["redrivenAt"] = timestamp(dead_letter.redriven_at)
    if dead_letter.body is not None:
        view["body"] = dead_letter.body
    return view
