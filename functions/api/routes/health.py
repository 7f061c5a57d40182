"""Whether the service is up: cheap and open to everybody, or with a key all that it stands on."""

from typing import Annotated, NotRequired

from aws_lambda_powertools.event_handler.openapi.params import Query
from aws_lambda_powertools.event_handler.router import APIGatewayHttpRouter
from typing_extensions import TypedDict

from functions.api.auth import ANONYMOUS
from functions.api.context import caller, wired
from functions.api.use_cases.check_health import CheckHealth
from functions.shared.domain.errors import CallerError

router = APIGatewayHttpRouter()


class ChecksView(TypedDict):
    table: str
    queues: str
    circuits: dict[str, str]


class HealthView(TypedDict):
    status: str
    service: str
    checks: NotRequired[ChecksView]


@router.get("/health", summary="Whether the service answers", tags=["service"])
def health(
    deep: Annotated[bool, Query(description="With a key: table, queues, circuits")] = False,
) -> HealthView:
    """`degraded` with `deep`: Novita is not to be had. 503: the table or a queue is not."""
    if not deep:
        return {"status": "ok", "service": "ostler"}
    if caller() == ANONYMOUS:
        raise CallerError("UNAUTHORIZED", "What the service stands on is shown to holders of a key")
    found = CheckHealth(wired().table, wired().queue_depths, wired().circuits)()
    checks: ChecksView = {"table": "ok", "queues": "ok", "circuits": found}
    calm = all(state == "CLOSED" for state in found.values())
    return {"status": "ok" if calm else "degraded", "service": "ostler", "checks": checks}
