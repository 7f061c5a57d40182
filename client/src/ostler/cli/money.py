"""`cost` and `budget`: what was spent, and how much may be."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import click

from ostler.cli.arguments import complete_instances, pass_session
from ostler.cli.session import USAGE, Session, fail, json_option, yes_option
from ostler.cli.tables import table
from ostler.cli.words import clock_time, usd

if TYPE_CHECKING:
    from ostler.models import Budget, InstanceCost


@click.command()
@click.argument("name", required=False, shell_complete=complete_instances)
@click.option("--since", help="First day, UTC: 2026-01-31. By default the first of this month.")
@click.option("--until", help="Last day, UTC. By default today.")
@click.option(
    "--by", default="day", show_default=True, help="day, instance, product, region, key or tag:NAME."
)
@json_option
@pass_session
def cost(session: Session, name: str | None, since: str | None, until: str | None, by: str) -> None:
    """What an instance has cost; without NAME, what everything has cost."""
    if name:
        _cost_of_one(session, name)
        return
    told = session.client.costs(since=since, to=until, group_by=by)
    groups, cursor = list(told["groups"]), told.get("nextCursor")
    while cursor:  # of the same days, should midnight come in between
        more = session.client.costs(since=told["from"], to=told["to"], group_by=by, cursor=cursor)
        groups, cursor = [*groups, *more["groups"]], more.get("nextCursor")
    rows = [[by.upper(), "USD"], *([one["key"] or "(none)", usd(one["amountUsd"])] for one in groups)]
    total = f"{told['from']} to {told['to']}: ${usd(told['totalUsd'])}{_estimated(told)}"
    lines = table(rows, plain=session.plain, numbers=["USD"]) if groups else []
    session.show({**told, "groups": groups}, [*lines, total])


def _cost_of_one(session: Session, name: str) -> None:
    told = session.client.cost(session.find(name)["instanceId"])
    rows = [["FROM", "TO", "WHAT", "$/H", "USD"]]
    for one in told["intervals"]:
        end = clock_time(one["to"]) if one.get("to") else "now"
        amount = ("~" if one.get("estimated") else "") + usd(one["amountUsd"])
        rows.append(
            [
                clock_time(one["from"]),
                end,
                one["kind"],
                usd(one["usdPerHour"]) if "usdPerHour" in one else "-",
                amount,
            ]
        )
    total = f"${usd(told['totalUsd'])} so far{_estimated(told)}, ${usd(told['perHourUsd'])} per hour now"
    lines = table(rows, plain=session.plain, numbers=["$/H", "USD"]) if told["intervals"] else []
    session.show(told, [*lines, total, *_billed(told)])


def _billed(told: InstanceCost) -> list[str]:
    """Novita's own bill beside ours."""
    if "billed" not in told:
        return []
    one = told["billed"]
    differs = "; they differ by more than 10 %" if one.get("differs") else ""
    return [
        f"Novita's bill for {one['from']} to {one['through']}: ${usd(one['totalUsd'])}, "
        f"counted here: ${usd(one['oursUsd'])}{differs}"
    ]


def _estimated(told: Any) -> str:
    return " (estimated)" if told.get("estimated") else ""


@click.group()
def budget() -> None:
    """Budgets: how much may be spent in a day or month."""


@budget.command("ls")
@json_option
@pass_session
def list_budgets(session: Session) -> None:
    """All budgets."""
    found = session.client.budgets()
    rows = [["NAME", "LIMIT", "SPENT", "%", "PERIOD", "SCOPE", "THEN"]]
    for one in found:
        amounts = [usd(one["limitUsd"]), usd(one["spentUsd"]), _percent(one)]
        rows.append([one["name"], *amounts, one["period"], _scope_words(one["scope"]), one["action"]])
    session.show_rows(
        found,
        rows,
        "No budgets. Make one: ostler budget set --help",
        spare=["PERIOD"],
        numbers=["LIMIT", "SPENT", "%"],
    )


def _percent(one: Budget) -> str:
    limit = Decimal(one["limitUsd"])
    return f"{Decimal(one['spentUsd']) / limit * 100:.0f}" if limit else "-"


def _scope_words(scope: Any) -> str:
    if not isinstance(scope, dict):
        return str(scope)
    if "key" in scope:
        return f"key {scope['key']}"
    tag = scope.get("tag", {})
    return f"{tag.get('name')}={tag.get('value')}"


@budget.command("set")
@click.argument("name")
@click.argument("usd_limit", metavar="USD")
@click.option("--period", type=click.Choice(["month", "day"]), default="month", show_default=True)
@click.option("--key-id", help="What this API key made; by default everything.")
@click.option("--tag", help="What has this tag: name=value.")
@click.option("--threshold", type=int, multiple=True, help="Tell at this many percent (50, 80, 100).")
@click.option(
    "--action", type=click.Choice(["notify", "refuse", "stop"]), default="notify", show_default=True
)
@json_option
@pass_session
def set_budget(
    session: Session,
    /,
    name: str,
    usd_limit: str,
    period: str,
    key_id: str | None,
    tag: str | None,
    **more: Any,
) -> None:
    """Make or change one."""
    scope: Any = {"key": key_id} if key_id else "all"
    if tag:
        label, found, value = tag.partition("=")
        if not found or key_id:
            fail("Give either --key-id or --tag name=value.", "", USAGE)
        scope = {"tag": {"name": label, "value": value}}
    fields = {"thresholds": list(more["threshold"])} if more["threshold"] else {}
    told = session.client.set_budget(name, usd_limit, period, scope, action=more["action"], **fields)
    session.show(
        told, [f"{told['name']}: ${usd(told['limitUsd'])} a {told['period']}, then {told['action']}"]
    )


@budget.command("rm")
@click.argument("name")
@yes_option
@json_option
@pass_session
def remove_budget(session: Session, name: str) -> None:
    """Remove one."""
    session.confirm(f"Remove the budget {name}?")
    told = session.client.delete_budget(name)
    session.show(told, [f"{name} is removed."])


COMMANDS = (cost, budget)
