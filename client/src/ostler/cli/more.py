"""Commands of limits, budgets, webhooks and logs."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import click

from ostler.cli.instances import Duration, one_instance
from ostler.cli.session import FAILED, Session, fail
from ostler.cli.words import ends, moment, now, seconds_of, table

_pass = click.pass_obj


@click.command()
@one_instance
@click.argument("duration", type=Duration())
@_pass
def extend(session: Session, name: str, duration: str) -> None:
    """Let it run so much longer: moves the limit that would stop it, or sets one."""
    one = session.client.get(session.find(name)["instanceId"])
    limits, more = one.get("limits", {}), seconds_of(duration)
    change: dict[str, Any] = {}
    if "stopAfter" in limits:
        change["stopAfter"] = seconds_of(str(limits["stopAfter"])) + more
    if "stopAt" in limits or not change:
        begin = moment(limits["stopAt"]) if "stopAt" in limits else now()
        change["stopAt"] = (begin + timedelta(seconds=more)).isoformat()
    told = session.client.update(one["instanceId"], {"limits": change})
    session.show(told, [f"{told['name']} {ends(told)}"])


@click.command()
@one_instance
@_pass
def logs(session: Session, name: str) -> None:
    """Where its logs can be read, as far as the service tells."""
    found = session.client.connection(session.find(name)["instanceId"]).get("logs")
    if not found:
        fail(
            f"The service tells no address for the logs of {name}.", f"Look inside: ostler ssh {name}", FAILED
        )
    session.show(found, [f"{kind}  {address}" for kind, address in found.items()])


@click.group()
def budget() -> None:
    """Budgets: how much may be spent in a day or month."""


@budget.command("ls")
@_pass
def list_budgets(session: Session) -> None:
    """All budgets."""
    found = session.client.budgets()
    rows = [["NAME", "LIMIT", "SPENT", "PERIOD", "ACTION"]]
    rows += [[one["name"], one["limitUsd"], one["spentUsd"], one["period"], one["action"]] for one in found]
    session.show(found, table(rows, plain=session.plain))


@budget.command("set")
@click.argument("name")
@click.argument("usd")
@click.option("--period", type=click.Choice(["month", "day"]), default="month", show_default=True)
@click.option(
    "--action", type=click.Choice(["notify", "refuse", "stop"]), default="notify", show_default=True
)
@_pass
def set_budget(session: Session, name: str, usd: str, period: str, action: str) -> None:
    """Make or change one for everything."""
    told = session.client.set_budget(name, usd, period, action=action)
    session.show(told, [f"{told['name']}: ${told['limitUsd']} a {told['period']}, then {told['action']}"])


@budget.command("rm")
@click.argument("name")
@_pass
def remove_budget(session: Session, name: str) -> None:
    """Remove one."""
    session.confirm(f"Remove the budget {name}?", default=False)
    told = session.client.delete_budget(name)
    session.show(told, [f"{name} is removed."])


@click.group()
def webhooks() -> None:
    """Webhooks: what was sent, sending it again, and what receivers verify with."""


@webhooks.command("ls")
@one_instance
@_pass
def list_webhooks(session: Session, name: str) -> None:
    """An instance's deliveries, newest first."""
    found = list(session.client.deliveries(session.find(name)["instanceId"]))
    rows = [["ID", "EVENT", "STATE", "ATTEMPTS", "URL"]]
    rows += [
        [one["id"], one["eventType"], one["state"], str(len(one["attempts"])), one["url"]] for one in found
    ]
    session.show(found, table(rows, plain=session.plain))


@webhooks.command()
@click.argument("delivery_id")
@_pass
def replay(session: Session, delivery_id: str) -> None:
    """Send a delivery again."""
    told = session.client.replay(delivery_id)
    session.show(told, [told["message"]])


@webhooks.command()
@click.argument("url")
@_pass
def secret(session: Session, url: str) -> None:
    """What a receiver at that address verifies signatures with (admin)."""
    told = session.client.webhook_secret(url)
    session.show(told, told["secrets"])


COMMANDS = (extend, logs, budget, webhooks)
