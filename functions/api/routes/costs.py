"""Routes of what things cost."""

from typing import Annotated, NotRequired, cast

from aws_lambda_powertools.event_handler.openapi.params import Query
from aws_lambda_powertools.event_handler.router import APIGatewayHttpRouter
from typing_extensions import TypedDict

from functions.api.bodies import Day, GroupCursor, InstanceId, like
from functions.api.requests import use_case
from functions.api.use_cases.read_costs import ReadCosts

router = APIGatewayHttpRouter()

_COSTS = ["costs"]

CostIntervalView = TypedDict(
    "CostIntervalView",
    {
        "novitaInstanceId": str,
        "kind": str,
        "from": str,
        "to": NotRequired[str],
        "usdPerHour": NotRequired[str],
        "amountUsd": str,
        "estimated": NotRequired[bool],
        "productId": NotRequired[str],
        "region": NotRequired[str],
    },
)


BilledView = TypedDict(
    "BilledView",
    {
        "totalUsd": str,
        "oursUsd": str,
        "from": str,
        "through": str,
        "asOf": str,
        "differs": NotRequired[bool],
    },
)


class InstanceCostView(TypedDict):
    instanceId: str
    asOf: str
    totalUsd: str
    perHourUsd: str
    intervals: list[CostIntervalView]
    estimated: NotRequired[bool]
    billed: NotRequired[BilledView]


class CostDayView(TypedDict):
    date: str
    amountUsd: str


class CostGroupView(TypedDict):
    key: str
    amountUsd: str
    days: list[CostDayView]
    estimated: NotRequired[bool]


CostsView = TypedDict(
    "CostsView",
    {
        "from": str,
        "to": str,
        "groupBy": str,
        "asOf": str,
        "totalUsd": str,
        "groups": list[CostGroupView],
        "estimated": NotRequired[bool],
        "nextCursor": NotRequired[str],
    },
)


@router.get("/api/instances/<instance_id>/cost", summary="What an instance has cost", tags=_COSTS)
def instance_cost(instance_id: InstanceId) -> InstanceCostView:
    return cast("InstanceCostView", use_case(ReadCosts).one(instance_id))


@router.get("/api/costs", summary="What all have cost, by days and groups", tags=_COSTS)
def costs(
    since: Annotated[
        Day | None,
        Query(alias="from", description="The first day (UTC); the first of the month of `to`"),
    ] = None,
    to: Annotated[Day | None, Query(description="The last day, which is included; today")] = None,
    groupBy: Annotated[  # noqa: N803  # the API's own name
        str,
        Query(
            max_length=140,
            description="day, instance, product, region, key or tag:<name>",
            **like("product", pattern="^(day|instance|product|region|key|tag:.+)$"),
        ),
    ] = "day",
    limit: Annotated[int, Query(ge=1, le=100, description="Groups in one answer")] = 50,
    cursor: GroupCursor = None,
) -> CostsView:
    """From the sums of each day, which are kept for 400 days; today's are at most 5 minutes old. What has no
    such tag (or product, region, key) is the group whose `key` is empty."""
    return cast("CostsView", use_case(ReadCosts).all(since, to, groupBy, limit=limit, cursor=cursor))
