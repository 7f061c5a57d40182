"""`create`, `quote` and `products`: what can be had, for how much, and buying it."""

from __future__ import annotations

import shlex
from contextlib import contextmanager, suppress
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import click

from ostler.cli.arguments import (
    Duration,
    Pair,
    Variable,
    complete_products,
    on_reclaim_option,
    pass_session,
    timeout_option,
)
from ostler.cli.session import INTERRUPTED, UNAVAILABLE, Session, json_option, say, yes_option
from ostler.cli.words import UP, ago, clock_time, in_words, reason, usd

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ostler.models import Instance, Product, Quote

_QUOTE_SECONDS = 3.0  # who wants to buy waits no longer for a price

_product = click.option(
    "--product", required=True, shell_complete=complete_products, help="Name of the product: ostler products."
)
_WANTED = (
    click.option("--gpus", type=click.IntRange(1, 8), help="How many GPUs (1)."),
    click.option("--disk", type=click.IntRange(10, 1000), help="GB of the machine's own disk (60)."),
    click.option("--region", help="This region first, then the others."),
    click.option("--regions", help="These regions alone, in this order: A,B,C."),
    click.option("--on-demand", is_flag=True, help="Not spot: dearer, and not taken away."),
    click.option("--max-price", type=float, help="USD for a GPU and hour, at most."),
    click.option(
        "--placement",
        type=click.Choice(["priority", "cheapest"]),
        help="The first region that has one, or the cheapest.",
    ),
    click.option(
        "--volume",
        type=Pair("ID:PATH", ":"),
        multiple=True,
        help="A network volume, and where it is mounted.",
    ),
    click.option("--stop-after", type=Duration(), help="Stop it after so long of running."),
    click.option("--delete-after", type=Duration(), help="Delete it after so long."),
    click.option("--stop-at", help="Stop it at this time: 2026-01-31T18:00:00Z."),
    click.option("--delete-at", help="Delete it at this time."),
    click.option("--idle-stop-after", type=Duration(), help="Stop it when unused for so long."),
    click.option("--idle-gpu-below", type=float, help="Unused only if its GPUs are below this percentage."),
    click.option("--delete-after-stopped", type=Duration(), help="Delete it when stopped for so long."),
)


def _wanted_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(_WANTED):
        command = option(command)
    return command


@click.command()
@click.argument("name")
@_product
@click.option("--template", required=True, help="Id of the Novita template.")
@_wanted_options
@click.option(
    "--env",
    type=Variable(),
    multiple=True,
    help="A variable of the machine; a name alone: as it is set here.",
)
@click.option("--tag", type=Pair("NAME=VALUE", "="), multiple=True, help="To find it by, and its costs.")
@click.option("--webhook", help="Address that is told of every event.")
@click.option("--health-check", is_flag=True, help="Ready once the application inside answers.")
@on_reclaim_option
@click.option("--keep-on-failure", is_flag=True, help="Keep a machine that does not come up.")
@click.option("--protect", is_flag=True, help="Refuse its deletion until this is taken away.")
@click.option("--wait", "waits", is_flag=True, help="Until it is up; ends with its endpoints.")
@timeout_option
@click.option("--idempotency-key", help="To repeat a create that may have been accepted.")
@yes_option
@json_option
@pass_session
def create(session: Session, /, name: str, product: str, template: str, **options: Any) -> None:
    """Buy a machine: says the price, asks, buys once."""
    wanted = _wanted_fields(options)
    with _closest_named(session, product):
        _show_price(session, product, wanted)
    session.confirm(f"Buy it from {session.target.url}?")
    fields = {**wanted, **_other_fields(options)}
    made = _buy(session, name, product, template, fields, options["idempotency_key"] or str(uuid4()))
    say(f"{made['instanceId']}: {made['message']}.")
    if not options["waits"]:
        say(f"  follow  ostler wait {made['instanceId']}")
        session.show(made, [made["instanceId"]])
        return
    from ostler.cli.progress import wait

    one = {"instanceId": made["instanceId"], "name": name}
    found = wait(session, one, "up", options["timeout"], accepted=made)
    session.show(found, endpoints(found) or [found["instanceId"]])


def _buy(session: Session, name: str, product: str, template: str, fields: dict[str, Any], key: str) -> Any:
    """Whatever happens after the first byte was sent, it may have been accepted: say how to be sure."""
    from ostler.errors import OstlerError, Unavailable, Unreachable

    try:
        return session.client.create(name, product, template, idempotency_key=key, **fields)
    except (KeyboardInterrupt, Unreachable, Unavailable) as error:
        from ostler.cli.session import explain

        for line in explain(error) if isinstance(error, OstlerError) else ["Interrupted."]:
            say(line)
        say("It may have been accepted all the same. See: ostler ls")
        say(f"To ask again and get no second machine, add: --idempotency-key {key}")
        raise SystemExit(INTERRUPTED if isinstance(error, KeyboardInterrupt) else UNAVAILABLE) from None


def _wanted_fields(options: dict[str, Any]) -> dict[str, Any]:
    """What decides which machine it is and what it costs."""
    limits = {
        "stopAfter": options["stop_after"],
        "deleteAfter": options["delete_after"],
        "stopAt": options["stop_at"],
        "deleteAt": options["delete_at"],
        "idleStopAfter": options["idle_stop_after"],
        "idleGpuBelow": options["idle_gpu_below"],
        "deleteAfterStopped": options["delete_after_stopped"],
    }
    return _given(
        {
            "gpuNum": options["gpus"],
            "rootfsSize": options["disk"],
            "region": options["region"],
            "regions": [one.strip() for one in options["regions"].split(",")] if options["regions"] else None,
            "billingMode": "onDemand" if options["on_demand"] else None,
            "maxPricePerGpuHour": options["max_price"],
            "placement": options["placement"],
            "networkVolumes": [{"id": id_, "mountPath": path} for id_, path in options["volume"]],
            "limits": _given(limits),
        }
    )


def _other_fields(options: dict[str, Any]) -> dict[str, Any]:
    return _given(
        {
            "envs": [{"key": key, "value": value} for key, value in options["env"]],
            "tags": dict(options["tag"]),
            "webhookUrl": options["webhook"],
            "onReclaim": options["on_reclaim"],
            "onFailure": "keep" if options["keep_on_failure"] else None,
            "protected": options["protect"] or None,
        }
    ) | ({"healthCheck": {}} if options["health_check"] else {})


@contextmanager
def _closest_named(session: Session, product: str) -> Iterator[None]:
    """Who mistypes a product is shown what it may have meant."""
    from ostler.errors import OstlerError, ProductNotFound

    try:
        yield
    except ProductNotFound as error:
        with suppress(OstlerError):
            error.details["closest"] = _closest(session.client.products(), product)
        raise


def _closest(products: Sequence[Product], wanted: str) -> str:
    from difflib import get_close_matches

    prices: dict[str, Decimal] = {}
    for one in products:
        price = Decimal(one.get("spotPricePerGpuHour") or one.get("pricePerGpuHour") or 0)
        if one["available"] and price:
            prices[one["name"]] = min(price, prices.get(one["name"], price))
    by_words = {name.lower(): name for name in prices}
    found = get_close_matches(wanted.lower(), by_words, n=3, cutoff=0.4)
    return ", ".join(f"{by_words[one]} (${usd(prices[by_words[one]])})" for one in found)


def _given(fields: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if value not in (None, [], {})}


def _show_price(session: Session, product: str, fields: dict[str, Any]) -> None:
    from ostler.errors import Unavailable

    try:
        told = session.client.quote(product, retry_for=_QUOTE_SECONDS, **fields)
    except Unavailable as error:
        say(f"Its price cannot be told now: {error.message}. A create is accepted all the same.")
        return
    for line in _price_lines(told):
        say(line)


def _price_lines(told: Quote) -> list[str]:
    hour = Decimal(told.get("perHourUsd", told["pricePerHour"]))
    gpus = f"{told['gpuNum']} x " if told["gpuNum"] > 1 else ""
    kind = "on demand" if told["billingMode"] == "onDemand" else told["billingMode"]
    lines = [
        f"{gpus}{told['productName']}, {kind}, {told['region']}: "
        f"${usd(hour)} per hour (${usd(told.get('perDayUsd', hour * 24))} per day)"
    ]
    expiry: dict[str, Any] = {**told.get("expiry", {})}
    for name, word in (("stopAt", "stops"), ("deleteAt", "deleted")):
        if name in expiry:
            left = max(0.0, -ago(expiry[name]))
            cost = f"${hour * Decimal(left) / 3600:.2f} until then"
            lines.append(f"  {word} {in_words(expiry[name])}, at {clock_time(expiry[name])}; {cost}")
    return lines


def endpoints(one: Instance) -> list[str]:
    """Where it answers and how to get in, while it is up."""
    found = [end for end in one.get("portMappings", []) if end["endpoint"] and one["status"] in UP]
    rows = [[f"{end['type']} {end['port']}", end["endpoint"]] for end in found]
    if any(end["port"] == 22 for end in found):
        rows.append(["ssh", f"ostler ssh {shlex.quote(one['name'])}"])
    width = max((len(row[0]) for row in rows), default=0)
    return [f"{what:{width}}  {where}" for what, where in rows]


@click.command()
@click.argument("product", shell_complete=complete_products)
@_wanted_options
@json_option
@pass_session
def quote(session: Session, /, product: str, **options: Any) -> None:
    """What a create would buy, and for how much. Buys nothing."""
    with _closest_named(session, product):
        told = session.client.quote(product, **_wanted_fields(options))
    session.show(told, _price_lines(told) + _region_lines(told))


def _region_lines(told: Quote) -> list[str]:
    """Each region's answer, with the price of its cheapest machine where there is one."""
    prices: dict[str, Decimal] = {told["region"]: Decimal(told["pricePerGpuHour"])}
    for one in told["alternatives"]:
        price = Decimal(one["pricePerGpuHour"])
        prices[one["region"]] = min(price, prices.get(one["region"], price))
    answers = told["regions"] or dict.fromkeys(prices, "OFFERED")
    width = max(len(where) for where in answers)
    return [
        f"  {where:{width}}  {f'${usd(prices[where])} per GPU' if where in prices else reason(code)}"
        for where, code in answers.items()
    ]


@click.command()
@click.argument("name", required=False, shell_complete=complete_products)
@click.option("--on-demand", is_flag=True, help="Prices without spot.")
@json_option
@pass_session
def products(session: Session, name: str | None, on_demand: bool) -> None:
    """What Novita sells, cheapest first."""
    mode = "onDemand" if on_demand else "spot"
    found = session.client.products(name, billing_mode=mode)

    def price(one: Any) -> Any:
        return one.get("pricePerGpuHour" if on_demand else "spotPricePerGpuHour")

    found.sort(key=lambda one: Decimal(price(one) or "Infinity"))
    rows = [["PRODUCT", "$/GPU/H", "CPU", "GB", "REGIONS", "TO BE HAD"]]
    for one in found:
        cost = usd(price(one)) if price(one) else "-"
        machine = [str(one["cpuPerGpu"]), str(one["memoryPerGpu"]), ", ".join(one["regions"])]
        rows.append([one["name"], cost, *machine, "yes" if one["available"] else "no"])
    none = f"Novita sells no product named {name!r}." if name else "Novita sells nothing now."
    session.show_rows(found, rows, none, spare=["CPU", "GB"], numbers=["$/GPU/H", "CPU", "GB"])


COMMANDS = (create, quote, products)
