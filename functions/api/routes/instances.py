"""Routes of instances."""

from typing import Annotated, cast

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Body, Query
from aws_lambda_powertools.event_handler.router import APIGatewayHttpRouter

from functions.api.bodies import CreateBody, IdempotencyKey, ImportBody, InstanceId, LastUsedBody
from functions.api.context import caller, idempotent, wired
from functions.api.cursors import Cursors
from functions.api.use_cases.create_instance import CreateInstance
from functions.api.use_cases.import_machine import ImportMachine
from functions.api.use_cases.read_instances import NoteLastUsed, ReadInstances
from functions.api.views import (
    ConnectionView,
    CreatedView,
    EventsView,
    InstancesView,
    InstanceView,
    connection_view,
    instance_view,
)
from functions.shared.domain.instance.status import Status

router = APIGatewayHttpRouter()

_INSTANCES = ["instances"]


def _reader() -> ReadInstances:
    wiring = wired()
    return ReadInstances(
        wiring.instances,
        wiring.last_used,
        wiring.novita,
        wiring.steps,
        wiring.policy,
        wiring.clock,
        Cursors(wiring.deployment.id),
        wiring.totals,
        wiring.cache,
        wiring.recent_outage,
        lambda: wiring.circuits.is_open("reads"),
        wiring.settings.details_ttl,
        wiring.settings.lookup_seconds,
    )


@router.post("/api/instances", summary="Buy a machine", tags=_INSTANCES, status_code=201)
def create(
    body: Annotated[CreateBody, Body()], idempotency_key: IdempotencyKey = None
) -> Response[CreatedView]:
    wiring = wired()
    result = CreateInstance(
        wiring.instances,
        wiring.idempotency,
        wiring.steps,
        wiring.catalog,
        wiring.boot_times,
        wiring.policy,
        wiring.clock,
        wiring.settings.lookup_seconds,
    )(
        name=body.name,
        spec=body.spec(),
        webhook_url=body.webhookUrl,
        actor=caller().id,
        request=idempotent("POST /api/instances", idempotency_key, router.current_event.json_body),
    )
    view = cast("CreatedView", result.body)
    return Response(result.status, "application/json", view, headers={"Location": result.location or ""})


@router.get("/api/instances", summary="Instances, newest first", tags=_INSTANCES)
def list_instances(
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
    cursor: Annotated[str | None, Query(max_length=500)] = None,
    status: Annotated[Status | None, Query()] = None,
    name: Annotated[str | None, Query(min_length=1, max_length=100)] = None,
) -> InstancesView:
    page = _reader().page(name=name, status=status, limit=limit, cursor=cursor)
    view: InstancesView = {"instances": page.instances}
    if page.total is not None:
        view["total"] = page.total
    if page.next_cursor:
        view["nextCursor"] = page.next_cursor
    if page.stale:
        view["stale"] = True
    return view


@router.get("/api/instances/<instance_id>", summary="One instance", tags=_INSTANCES)
def get(instance_id: InstanceId) -> InstanceView:
    record, stale = _reader().one(instance_id)
    return instance_view(record, stale=stale)


@router.get(
    "/api/instances/<instance_id>/events",
    summary="What happened to it",
    description="Within the last 30 days, oldest first.",
    tags=_INSTANCES,
)
def events(
    instance_id: InstanceId,
    limit: Annotated[int, Query(ge=1, le=1000)] = 1000,
    cursor: Annotated[str | None, Query(max_length=500)] = None,
) -> EventsView:
    found, following = _reader().events(instance_id, limit=limit, cursor=cursor)
    view: EventsView = {"instanceId": instance_id, "events": found}
    if following:
        view["nextCursor"] = following
    return view


@router.get("/api/instances/<instance_id>/connection", summary="How to get in, fetched live", tags=_INSTANCES)
def connection(instance_id: InstanceId) -> ConnectionView:
    return connection_view(instance_id, _reader().connection(instance_id))


@router.post(
    "/api/instances/import",
    summary="Take a Novita machine under management",
    tags=_INSTANCES,
    status_code=201,
)
def import_machine(
    body: Annotated[ImportBody, Body()], idempotency_key: IdempotencyKey = None
) -> Response[InstanceView]:
    wiring = wired()
    result = ImportMachine(
        wiring.instances,
        wiring.idempotency,
        wiring.novita,
        wiring.steps,
        wiring.deployment.id,
        wiring.policy,
        wiring.clock,
        wiring.settings.lookup_seconds,
    )(
        body.novitaInstanceId,
        name=body.name,
        webhook_url=body.webhookUrl,
        actor=caller().id,
        request=idempotent("POST /api/instances/import", idempotency_key, router.current_event.json_body),
    )
    view = cast("InstanceView", result.body)
    return Response(result.status, "application/json", view, headers={"Location": result.location or ""})


@router.put("/api/instances/<instance_id>/last-used", summary="Note that it was used", tags=_INSTANCES)
def last_used(instance_id: InstanceId, body: Annotated[LastUsedBody | None, Body()] = None) -> InstanceView:
    wiring = wired()
    note = NoteLastUsed(wiring.instances, wiring.last_used, wiring.clock)
    return instance_view(note(instance_id, body.lastUsedAt if body else None))
