"""Routes of instances."""

from typing import Annotated, NotRequired, cast

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Body, Query
from aws_lambda_powertools.event_handler.router import APIGatewayHttpRouter
from typing_extensions import TypedDict

from functions.api.bodies import (
    TAG,
    CreateBody,
    Cursor,
    IdempotencyKey,
    ImportBody,
    InstanceId,
    LastUsedBody,
    UpdateBody,
    like,
)
from functions.api.requests import caller, idempotent, use_case, wired
from functions.api.use_cases.create_instance import CreateInstance
from functions.api.use_cases.import_machine import ImportMachine
from functions.api.use_cases.merge_lists import MergeLists
from functions.api.use_cases.read_instances import ReadInstances
from functions.api.use_cases.update_instance import UpdateInstance
from functions.api.views import (
    ConnectionView,
    CreatedView,
    EntryView,
    EventsView,
    InstancesView,
    InstanceView,
    connection_view,
    instance_view,
)
from functions.shared.domain.instance.status import Status
from functions.shared.stores.listings import Listing

router = APIGatewayHttpRouter()

_INSTANCES = ["instances"]


class SourcesView(TypedDict):
    local: int
    novita: int
    merged: int


class PerformanceView(TypedDict):
    totalRequestTime: int
    novitaApiTime: int
    localDataTime: int
    mergeProcessingTime: int
    cacheHitRatio: float


class ComprehensiveView(TypedDict):
    instances: list[EntryView]
    total: int
    sources: SourcesView
    performance: PerformanceView
    nextCursor: NotRequired[str]
    stale: NotRequired[bool]


@router.post("/api/instances", summary="Buy a machine", tags=_INSTANCES, status_code=201)
def create(
    body: Annotated[CreateBody, Body()], idempotency_key: IdempotencyKey = None
) -> Response[CreatedView]:
    result = use_case(CreateInstance)(
        name=body.name,
        spec=body.spec(lambda: wired().health_check),
        variables=body.variables(),
        webhook_url=body.webhookUrl,
        limits=body.asked_limits(),
        protected=body.protected,
        actor=caller().id,
        key_caps=caller().caps,
        request=idempotent("POST /api/instances", idempotency_key, router.current_event.json_body),
    )
    view = cast("CreatedView", result.body)
    return Response(result.status, "application/json", view, headers={"Location": result.location or ""})


@router.get("/api/instances", summary="Instances, newest first", tags=_INSTANCES)
def list_instances(
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
    cursor: Cursor = None,
    status: Annotated[Status | None, Query()] = None,
    name: Annotated[str | None, Query(min_length=1, max_length=100, **like("my-gpu"))] = None,
    tag: Annotated[
        str | None,
        Query(pattern=TAG, min_length=2, max_length=385, description="`name:value`", **like("team:research")),
    ] = None,
    owner: Annotated[
        str | None,
        Query(
            min_length=1, max_length=300, description="`me`, or the id of the key that made it", **like("me")
        ),
    ] = None,
) -> InstancesView:
    owner = caller().id if owner == "me" else owner
    listing = Listing(name=name, status=status, tag=tag, owner=owner)
    page = use_case(ReadInstances).page(listing, limit=limit, cursor=cursor)
    view: InstancesView = {"instances": page.instances}
    if page.total is not None:
        view["total"] = page.total
    if page.next_cursor:
        view["nextCursor"] = page.next_cursor
    if page.stale:
        view["stale"] = True
    return view


@router.get(
    "/api/instances/comprehensive",
    summary="What is here and what Novita shows, merged",
    description=(
        "Every instance that is not terminated and every machine that Novita lists, newest first, at most "
        "30 s old. A pair is matched by Novita's id, then by our mark; Novita wins on status, region and "
        "endpoints. Times are milliseconds. A page ends before its limit where more would not fit into an "
        "answer. `stale`: Novita could not be asked; only what is here is shown."
    ),
    tags=_INSTANCES,
)
def comprehensive(
    includeNovitaOnly: Annotated[bool, Query()] = True,  # noqa: N803  # the API's own name
    syncLocalState: Annotated[  # noqa: N803  # the API's own name
        bool, Query(description="Let records follow what Novita shows; none is made")
    ] = False,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    cursor: Cursor = None,
) -> ComprehensiveView:
    merged = use_case(MergeLists)(
        include_novita_only=includeNovitaOnly,
        sync_local_state=syncLocalState,
        limit=limit,
        cursor=cursor,
    )
    return cast("ComprehensiveView", merged)


@router.get("/api/instances/<instance_id>", summary="One instance", tags=_INSTANCES)
def get(instance_id: InstanceId) -> InstanceView:
    record, stale = use_case(ReadInstances).one(instance_id)
    return instance_view(record, wired().clock(), stale=stale)


@router.patch(
    "/api/instances/<instance_id>",
    summary="Change its name, tags, limits, receiver or protection",
    description="A JSON merge patch: what is not named stays, null takes away; tags and limits by key.",
    tags=_INSTANCES,
)
def update(
    instance_id: InstanceId, body: Annotated[UpdateBody, Body()], idempotency_key: IdempotencyKey = None
) -> InstanceView:
    result = use_case(UpdateInstance)(
        instance_id,
        body.update(wired().limit_rules),
        actor=caller().id,
        request=idempotent(f"update {instance_id}", idempotency_key, router.current_event.json_body),
    )
    return cast("InstanceView", result.body)


@router.get(
    "/api/instances/<instance_id>/events",
    summary="What happened to it",
    description="Within the last 30 days, oldest first.",
    tags=_INSTANCES,
)
def events(
    instance_id: InstanceId,
    limit: Annotated[int, Query(ge=1, le=1000)] = 1000,
    cursor: Cursor = None,
) -> EventsView:
    found, following = use_case(ReadInstances).events(instance_id, limit=limit, cursor=cursor)
    view: EventsView = {"instanceId": instance_id, "events": found}
    if following:
        view["nextCursor"] = following
    return view


@router.get("/api/instances/<instance_id>/connection", summary="How to get in, fetched live", tags=_INSTANCES)
def connection(instance_id: InstanceId) -> ConnectionView:
    return connection_view(instance_id, use_case(ReadInstances).connection(instance_id))


@router.post(
    "/api/instances/import",
    summary="Take a Novita machine under management",
    tags=_INSTANCES,
    status_code=201,
)
def import_machine(
    body: Annotated[ImportBody, Body()], idempotency_key: IdempotencyKey = None
) -> Response[InstanceView]:
    result = use_case(ImportMachine)(
        body.novitaInstanceId,
        name=body.name,
        webhook_url=body.webhookUrl,
        limits=body.limits.asked() if body.limits else {},
        on_reclaim=body.onReclaim.asked() if body.onReclaim else None,
        actor=caller().id,
        key_caps=caller().caps,
        request=idempotent("POST /api/instances/import", idempotency_key, router.current_event.json_body),
    )
    view = cast("InstanceView", result.body)
    return Response(result.status, "application/json", view, headers={"Location": result.location or ""})


@router.put("/api/instances/<instance_id>/last-used", summary="Note that it was used", tags=_INSTANCES)
def last_used(instance_id: InstanceId, body: Annotated[LastUsedBody | None, Body()] = None) -> InstanceView:
    used_at = body.lastUsedAt if body else None
    return instance_view(use_case(ReadInstances).note_use(instance_id, used_at), wired().clock())
