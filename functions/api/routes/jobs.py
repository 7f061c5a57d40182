"""Routes that show the work behind the API, and set going again what failed for good."""

from typing import Annotated, NotRequired, cast

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Path, Query
from aws_lambda_powertools.event_handler.router import APIGatewayHttpRouter
from typing_extensions import TypedDict

from functions.api.bodies import IdempotencyKey
from functions.api.requests import caller, idempotent, invocation, use_case, wired
from functions.api.use_cases.read_jobs import QueueState, ReadJobs
from functions.api.use_cases.redrive_dead_letter import RedriveDeadLetter
from functions.api.views import FaultView
from functions.shared.domain.ids import timestamp
from functions.shared.domain.messages import DeadLetter

router = APIGatewayHttpRouter()

_JOBS = ["jobs"]
_LISTING = "dead letters"


class QueueView(TypedDict):
    depth: int
    inFlight: int
    delayed: int
    dead: int
    oldestAgeSeconds: int


class JobView(TypedDict):
    completed: int
    retried: int
    failed: int


class SweepsView(TypedDict):
    incomplete: int


class JobStatsView(TypedDict):
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
        "A job is a message: `completed` were handled, `retried` are attempts that failed, `failed` became "
        "dead letters. `sweeps` counts comparisons with Novita that were not completed."
    ),
    tags=_JOBS,
)
def stats() -> JobStatsView:
    read = use_case(ReadJobs)
    return {
        "queues": {name: _queue(state) for name, state in read.queues().items()},
        "deadLettersNotStored": read.dead_letters_not_stored(),
        "jobs": cast("dict[str, JobView]", read.jobs()),
        "sweeps": cast("SweepsView", read.sweeps()),
    }


@router.get("/api/jobs/dead", summary="Messages that failed for the last time, newest first", tags=_JOBS)
def dead(
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
    cursor: Annotated[str | None, Query(max_length=500)] = None,
) -> DeadLettersView:
    cursors = invocation().cursors
    after = cursors.read(cursor, _LISTING) if cursor else None
    found, end = wired().dead_letters.page(limit, after)
    view: DeadLettersView = {"deadLetters": [_dead_letter(one) for one in found]}
    if end:
        view["nextCursor"] = cursors.make(end, _LISTING)
    return view


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
