"""Whether the service is up: cheap, and open to everybody."""

from aws_lambda_powertools.event_handler.router import APIGatewayHttpRouter
from typing_extensions import TypedDict

router = APIGatewayHttpRouter()


class HealthView(TypedDict):
    status: str
    service: str


@router.get("/health", summary="Whether the service answers", tags=["service"])
def health() -> HealthView:
    return {"status": "ok", "service": "ostler"}
