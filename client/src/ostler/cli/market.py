"""Commands that show what can be had and how the service stands, and keep addresses and keys."""

from __future__ import annotations

import click

from ostler.cli.session import FAILED, Session, say
from ostler.cli.words import table

_pass = click.pass_obj


@click.command()
@click.argument("name", required=False)
@click.option("--on-demand", is_flag=True, help="Prices without spot.")
@_pass
def products(session: Session, name: str | None, on_demand: bool) -> None:
    """What Novita sells, cheapest first."""
    field = "pricePerGpuHour" if on_demand else "spotPricePerGpuHour"
    found = session.client.products(name, billing_mode="onDemand" if on_demand else "spot")
    found.sort(key=lambda one: float(str(one.get(field) or "inf")))
    rows = [["PRODUCT", "$/GPU/H", "REGIONS", "AVAILABLE"]]
    for one in found:
        price = str(one.get(field) or "-")
        rows.append([one["name"], price, ", ".join(one["regions"]), "yes" if one["available"] else "no"])
    session.show(found, table(rows, plain=session.plain))


@click.command()
@click.argument("product")
@click.option("--gpus", default=1, show_default=True)
@click.option("--region")
@click.option("--on-demand", is_flag=True)
@_pass
def quote(session: Session, product: str, gpus: int, region: str | None, on_demand: bool) -> None:
    """What a create would buy, and for how much. Buys nothing."""
    fields = {"gpuNum": gpus, "billingMode": "onDemand" if on_demand else "spot"}
    told = session.client.quote(product, **fields, **({"region": region} if region else {}))
    lines = [
        f"{told['productName']}, {told['billingMode']}, {told['region']}: ${told['pricePerHour']} per hour"
    ]
    lines += [f"  {where}: {reason}" for where, reason in told["regions"].items()]
    session.show(told, lines)


@click.command()
@_pass
def doctor(session: Session) -> None:
    """What is wrong with this deployment or local copy."""
    client = session.client
    health = client.health()
    status, circuits, jobs = client.status(), client.circuits(), client.job_stats()
    checks = [("address", health["status"] == "ok", client.transport.url)]
    checks.append(
        ("purchases", not status["purchasesPaused"], "on" if not status["purchasesPaused"] else "paused")
    )
    error = status.get("comparisonError")
    checks.append(("Novita", error is None, error["message"] if error else "compared"))
    checks.append(
        ("Novita key", status.get("keyProven", True), "proven" if status.get("keyProven") else "unproven")
    )
    for one in circuits:
        checks.append((f"circuit {one['name']}", one["state"] == "CLOSED", one["state"]))
    for name, queue in jobs["queues"].items():
        words = f"{queue['dead']} dead letters, oldest overdue {queue['oldestAgeSeconds']} s"
        checks.append((f"queue {name}", not queue["dead"] and queue["oldestAgeSeconds"] < 300, words))
    for field in ("missing", "orphans", "stuckCleanups", "orphanDeletionsHeld"):
        number = status.get(field, 0)
        checks.append((field, number == 0, str(number)))
    value = [{"check": check, "ok": bool(fine), "message": words} for check, fine, words in checks]
    session.show(
        value, [f"{'ok' if one['ok'] else 'WRONG':7}{one['check']}: {one['message']}" for one in value]
    )
    if not all(one["ok"] for one in value):
        raise SystemExit(FAILED)


@click.group(invoke_without_command=True)
@click.pass_context
def config(context: click.Context) -> None:
    """Addresses and keys; without a command: which ones are used now."""
    if context.invoked_subcommand is None:
        from ostler.config import find_target

        session: Session = context.obj
        found = find_target(session.url, session.key, session.profile)
        shown = {"url": found.url, "source": found.source}
        session.show(shown, [f"{found.url} ({found.source})"])


@config.command("set")
@click.argument("profile")
@click.option("--url", required=True)
@click.option("--key", required=True)
def set_profile(profile: str, url: str, key: str) -> None:
    """Store a profile, and use it from now on."""
    from ostler.config import read_profiles, write_profiles

    profiles = read_profiles()
    if not profiles.has_section(profile):
        profiles.add_section(profile)
    profiles[profile]["url"], profiles[profile]["key"] = url, key
    profiles.set(profiles.default_section, "profile", profile)
    say(f"Stored in {write_profiles(profiles)}; {profile} is used from now on.")


COMMANDS = (products, quote, doctor, config)
