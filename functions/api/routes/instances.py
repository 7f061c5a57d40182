"""Routes of instances."""

from typing import Annotated, cast

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Body, Header, Path, Query
from aws_lambda_powertools.event_handler.router import APIGatewayHttpRouter

from functions.api.bodies import CreateBody
from functions.api.create_instance import CreateInstance
from functions.api.gate import Caller
from functions.api.read_instances import ReadInstances
from functions.api.requests import reachable
from functions.api.views import (
    CreatedView,
    EventsView,
    InstancesView,
    InstanceView,
    event_view,
    instance_view,
)
from functions.shared.adapters.answers import Question, question
from functions.shared.domain.status import Status
from functions.shared.wiring import Wiring

router = APIGatewayHttpRouter()

_INSTANCES = ["instances"]
InstanceId = Annotated[str, Path(description="inst_ and a ULID", max_length=64)]
IdempotencyKey = Annotated[
    str | None,
    Header(alias="Idempotency-Key", min_length=1, max_length=255, description="The first answer again"),
]


def _wired() -> Wiring:
    return cast("Wiring", router.context["wiring"])


def _asked(route: str, key: str | None, body: object) -> Question | None:
    caller = cast("Caller", router.context["caller"])
    return question(caller.id, route, key, body) if key else None


def _reader() -> ReadInstances:
    wired = _wired()
    return ReadInstances(
        wired.instances,
        wired.novita,
        wired.advance,
        wired.policy,
        wired.clock,
        wired.deployments.id,
        wired.settings.details_ttl,
        wired.settings.lookup_seconds,
    )


@router.post("/api/instances", summary="Buy a machine", tags=_INSTANCES, status_code=201)
def create(
    body: Annotated[CreateBody, Body()], idempotency_key: IdempotencyKey = None
) -> Response[CreatedView]:
    wired = _wired()
    given = CreateInstance(
        wired.instances,
        wired.answers,
        wired.advance,
        wired.catalog,
        wired.policy,
        wired.clock,
        wired.settings.lookup_seconds,
    )(
        name=body.name,
        spec=body.spec(),
        webhook_url=reachable(body.webhookUrl, wired.settings.outbound_allow_cidrs),
        actor=cast("Caller", router.context["caller"]).id,
        asked=_asked("POST /api/instances", idempotency_key, router.current_event.json_body),
    )
    view = cast("CreatedView", given.body)
    return Response(given.status, "application/json", view, headers={"Location": given.location or ""})


@router.get("/api/instances", summary="Instances, newest first", tags=_INSTANCES)
def list_instances(
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
    cursor: Annotated[str | None, Query(max_length=500)] = None,
    status: Annotated[Status | None, Query()] = None,
    name: Annotated[str | None, Query(min_length=1, max_length=100)] = None,
) -> InstancesView:
    page = _reader().page(name=name, status=status, limit=limit, cursor=cursor)
    view: InstancesView = {"instances": [instance_view(record) for record in page.instances]}
    if page.total is not None:
        view["total"] = page.total
    if page.next_cursor:
        view["nextCursor"] = page.next_cursor
    return view


@router.get("/api/instances/<instance_id>", summary="One instance", tags=_INSTANCES)
def get(instance_id: InstanceId) -> InstanceView:
    record, stale = _reader().one(instance_id)
    return instance_view(record, stale=stale)


@router.get("/api/instances/<instance_id>/events", summary="What happened to it", tags=_INSTANCES)
def events(instance_id: InstanceId) -> EventsView:
    return {"instanceId": instance_id, "events": [event_view(one) for one in _reader().events(instance_id)]}
