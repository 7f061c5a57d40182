"""The route that shows what is here and what is at Novita as one list."""

import time
from typing import Annotated, NotRequired, cast

from aws_lambda_powertools.event_handler.openapi.params import Query
from aws_lambda_powertools.event_handler.router import APIGatewayHttpRouter
from typing_extensions import TypedDict

from functions.api.context import wired
from functions.api.cursors import Cursors
from functions.api.use_cases.merge_lists import MergeLists
from functions.api.views import EntryView

router = APIGatewayHttpRouter()

_SECONDS = 5.0  # that Novita's list may take: somebody waits


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


@router.get(
    "/api/instances/comprehensive",
    summary="What is here and what Novita shows, merged",
    description=(
        "Every instance that is not terminated and every machine that Novita lists, newest first, at most "
        "30 s old. A pair is matched by Novita's id, then by our mark; Novita wins on status, region and "
        "endpoints. Times are milliseconds. A page ends before its limit where more would not fit into an "
        "answer. `stale`: Novita could not be asked; only what is here is shown."
    ),
    tags=["instances"],
)
def comprehensive(
    includeNovitaOnly: Annotated[bool, Query()] = True,  # noqa: N803 - the API's own name
    syncLocalState: Annotated[  # noqa: N803
        bool, Query(description="Let records follow what Novita shows; none is made")
    ] = False,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    cursor: Annotated[str | None, Query(max_length=500)] = None,
) -> ComprehensiveView:
    wiring = wired()
    merged = MergeLists(
        wiring.instances,
        wiring.last_used,
        wiring.shared_list,
        wiring.compare.repair,
        wiring.cache,
        wiring.recent_outage,
        Cursors(wiring.deployment.id),
        wiring.deployment.id,
        wiring.policy,
        wiring.clock,
        time.perf_counter,
        wiring.settings.list_ttl,
        wiring.settings.merged_ttl,
        _SECONDS,
    )(
        include_novita_only=includeNovitaOnly,
        sync_local_state=syncLocalState,
        limit=limit,
        cursor=cursor,
    )
    return cast("ComprehensiveView", merged)
