"""Routes of budgets."""

from typing import Annotated, Any

from aws_lambda_powertools.event_handler.openapi.params import Body
from aws_lambda_powertools.event_handler.router import APIGatewayHttpRouter
from typing_extensions import TypedDict

from functions.api.bodies import BudgetBody, BudgetName
from functions.api.requests import caller, wired
from functions.api.views import usd
from functions.shared.domain.ids import timestamp
from functions.shared.domain.money.budgets import Budget

router = APIGatewayHttpRouter()

_BUDGETS = ["costs"]


class BudgetView(TypedDict):
    name: str
    limitUsd: str
    period: str
    scope: Any
    thresholds: list[int]
    action: str
    spentUsd: str
    periodStart: str
    periodEnd: str
    reached: list[int]


class BudgetsView(TypedDict):
    budgets: list[BudgetView]


class DeletedView(TypedDict):
    name: str
    deleted: bool


def _view(budget: Budget) -> BudgetView:
    period = budget.period_at(wired().clock())
    spent = wired().budgets.spent(budget, period)
    return {
        "name": budget.name,
        "limitUsd": f"{budget.limit:f}",
        "period": budget.period,
        "scope": budget.scope,
        "thresholds": list(budget.thresholds),
        "action": budget.action.value,
        "spentUsd": usd(spent),
        "periodStart": timestamp(period.begins_at),
        "periodEnd": timestamp(period.ends_at),
        "reached": budget.reached(spent),
    }


@router.get("/api/budgets", summary="All budgets, and what is spent of them", tags=_BUDGETS)
def list_budgets() -> BudgetsView:
    """By the sums of each day, which are at most 5 minutes old."""
    return {"budgets": [_view(budget) for budget in wired().budgets.all()]}


@router.get("/api/budgets/<budget_name>", summary="One budget", tags=_BUDGETS)
def get_budget(budget_name: BudgetName) -> BudgetView:
    return _view(wired().budgets.get(budget_name))


@router.put(
    "/api/budgets/<budget_name>",
    summary="Make or change a budget",
    description=(
        "`period`s and days are UTC. `budget.threshold` is announced at each threshold (percent of the "
        "limit) once a period, within 5 minutes. `refuse`: creates, starts and recoveries are refused (422 "
        "`BUDGET_EXCEEDED`) where what is spent and the newcomer's first hour exceed the limit; `stop`: "
        "what runs is stopped as well, after `EXPIRY_NOTICE`. Tags count from when they are set."
    ),
    tags=_BUDGETS,
)
def set_budget(budget_name: BudgetName, body: Annotated[BudgetBody, Body()]) -> BudgetView:
    budget = body.budget(budget_name)
    wired().budgets.put(budget, caller().id)
    return _view(budget)


@router.delete("/api/budgets/<budget_name>", summary="Remove a budget", tags=_BUDGETS)
def delete_budget(budget_name: BudgetName) -> DeletedView:
    wired().budgets.delete(budget_name)
    return {"name": budget_name, "deleted": True}
