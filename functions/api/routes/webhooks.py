"""Routes of webhooks: what was sent and how it went, sending it again, and what receivers verify with."""

from typing import Annotated, NotRequired, cast

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Path, Query
from aws_lambda_powertools.event_handler.router import APIGatewayHttpRouter
from typing_extensions import TypedDict

from functions.api.bodies import DELIVERY_ID, INSTANCE_ID, WEB_ADDRESS, Cursor, IdempotencyKey
from functions.api.requests import field_code, idempotent, invocation, use_case, wired
from functions.api.use_cases.read_instances import find_instance
from functions.api.use_cases.replay_delivery import ReplayDelivery
from functions.shared.domain.delivery.targets import BadTarget, networks, parse_target
from functions.shared.domain.delivery.webhooks import Attempt, Delivery, derive_secret, show_secret
from functions.shared.domain.errors import FieldError, ValidationFailed
from functions.shared.domain.ids import timestamp

router = APIGatewayHttpRouter()

_WEBHOOKS = ["webhooks"]


class AttemptView(TypedDict):
    attempt: int
    at: str
    tookMs: NotRequired[int]
    status: NotRequired[int]
    error: NotRequired[str]
    answer: NotRequired[str]


class DeliveryView(TypedDict):
    id: str
    instanceId: str
    eventId: str
    eventType: str
    url: str
    state: str
    createdAt: str
    nextAttemptAt: NotRequired[str]
    attempts: list[AttemptView]


class DeliveriesView(TypedDict):
    deliveries: list[DeliveryView]
    nextCursor: NotRequired[str]


class ReplayedView(TypedDict):
    deliveryId: str
    eventId: str
    state: str
    nextAttemptAt: str
    message: str


class SecretView(TypedDict):
    origin: str
    secrets: list[str]


@router.get("/api/webhooks/deliveries", summary="An instance's webhooks, newest first", tags=_WEBHOOKS)
def deliveries(
    instanceId: Annotated[str, Query(min_length=1, max_length=64, **INSTANCE_ID)],  # noqa: N803  # the API's own name
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
    cursor: Cursor = None,
) -> DeliveriesView:
    wiring = wired()
    find_instance(wiring.instances, instanceId)
    cursors, listing = invocation().cursors, f"deliveries {instanceId}"
    after = cursors.read(cursor, listing) if cursor else None
    found, end = wiring.deliveries.page(instanceId, limit, after)
    view: DeliveriesView = {"deliveries": [_delivery(one) for one in found]}
    if end:
        view["nextCursor"] = cursors.make(end, listing)
    return view


@router.post(
    "/api/webhooks/deliveries/<delivery_id>/replay",
    summary="Send it again, under the same id",
    tags=_WEBHOOKS,
    status_code=202,
)
def replay(
    delivery_id: Annotated[str, Path(max_length=64, **DELIVERY_ID)], idempotency_key: IdempotencyKey = None
) -> Response[ReplayedView]:
    request = idempotent(f"replay {delivery_id}", idempotency_key, router.current_event.json_body)
    result = use_case(ReplayDelivery)(delivery_id, request)
    return Response(result.status, "application/json", cast("ReplayedView", result.body))


@router.get("/api/webhooks/secret", summary="What a receiver verifies signatures with", tags=_WEBHOOKS)
def secret(
    url: Annotated[
        str,
        Query(
            max_length=2048,
            description="Any address of the receiver",
            json_schema_extra=WEB_ADDRESS,
        ),
    ],
) -> SecretView:
    """The current one first; while the master secret is being changed, the one before it too."""
    wiring = wired()
    try:
        origin = parse_target(url, networks(wiring.settings.outbound_allow_cidrs)).origin
    except BadTarget as error:
        sentence = str(error)
        problem = FieldError("url", field_code("url"), sentence[:1].upper() + sentence[1:])
        raise ValidationFailed([problem]) from None
    return {
        "origin": origin,
        "secrets": [show_secret(derive_secret(one, origin)) for one in wiring.webhook_masters()],
    }


def _delivery(delivery: Delivery) -> DeliveryView:
    now = wired().clock()
    view: DeliveryView = {
        "id": delivery.id,
        "instanceId": delivery.instance_id,
        "eventId": delivery.event_id,
        "eventType": delivery.event_type,
        "url": delivery.url,
        "state": delivery.state.value,
        "createdAt": timestamp(delivery.created_at),
        "attempts": [_attempt(one, delivery.lost(one, now)) for one in delivery.attempts],
    }
    if delivery.next_at and not delivery.under_way(now):
        view["nextAttemptAt"] = timestamp(delivery.next_at)
    return view


def _attempt(attempt: Attempt, lost: bool) -> AttemptView:
    """One that has neither status nor error is under way."""
    view: AttemptView = {"attempt": attempt.number, "at": timestamp(attempt.at)}
    if attempt.took_ms is not None:
        view["tookMs"] = attempt.took_ms
    if attempt.status is not None:
        view["status"] = attempt.status
    if attempt.answer:
        view["answer"] = attempt.answer
    if lost or attempt.error:
        view["error"] = attempt.error or "lost"
    return view
