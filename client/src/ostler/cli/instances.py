"""Commands on instances."""

from __future__ import annotations

import os
import re
import shlex
import time
from typing import TYPE_CHECKING, Any

import click

from ostler.cli.session import FAILED, INTERRUPTED, NOT_ALLOWED, Session, explain, fail, say
from ostler.cli.words import COLOURS, ago, ends, per_hour, seconds_of, span, table, why

if TYPE_CHECKING:
    from ostler.models import Instance
    from ostler.waiting import Progress

_pass = click.pass_obj

if TYPE_CHECKING:
    _TextParam = click.ParamType[str]
else:  # generic only in newer versions of click
    _TextParam = click.ParamType


class Duration(_TextParam):
    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            seconds_of(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)
        return str(value)


def _complete(context: click.Context, _param: click.Parameter, begun: str) -> list[str]:
    """Names of living instances; silent where the service cannot be asked."""
    from ostler.errors import OstlerError

    flags = context.find_root().params
    session = Session(flags.get("url"), flags.get("key"), flags.get("profile"), False, False)
    try:
        found = session.client.page(limit=100)["instances"]
    except OstlerError:
        return []
    return [one["name"] for one in found if one["name"].startswith(begun) and one["status"] != "terminated"]


one_instance = click.argument("name", shell_complete=_complete)
_timeout = click.option("--timeout", type=Duration(), help="Give up after so long (exit code 124).")


@click.command()
@click.argument("name")
@click.option("--product", required=True, help="Name of the product: see `ostler products`.")
@click.option("--template", required=True, help="Id of the Novita template.")
@click.option("--gpus", type=int)
@click.option("--disk", type=int, help="GB.")
@click.option("--region")
@click.option("--on-demand", is_flag=True, help="Not spot.")
@click.option("--max-price", type=float, help="USD for a GPU and hour.")
@click.option("--webhook", help="Address that is told of every event.")
@click.option("--stop-after", type=Duration())
@click.option("--delete-after", type=Duration())
@click.option("--health-check", is_flag=True, help="Ready once the application inside answers.")
@click.option("--wait", is_flag=True, help="Until it is up.")
@_timeout
@_pass
def create(session: Session, /, name: str, product: str, template: str, wait: bool, **options: Any) -> None:
    """Buy a machine: says the price, asks, buys once."""
    fields = _create_fields(options)
    _show_price(session, product, {key: value for key, value in fields.items() if key != "webhookUrl"})
    session.confirm("Buy it?", default=True)
    made = session.client.create(name, product, template, **fields)
    say(f"accepted  {made['instanceId']}: {made['message']}")
    if wait:
        _wait(session, made["instanceId"], name, "up", options["timeout"])
    else:
        session.show(made, [made["instanceId"]])


def _create_fields(options: dict[str, Any]) -> dict[str, Any]:
    limits = {"stopAfter": options["stop_after"], "deleteAfter": options["delete_after"]}
    fields = {
        "gpuNum": options["gpus"],
        "rootfsSize": options["disk"],
        "region": options["region"],
        "billingMode": "onDemand" if options["on_demand"] else None,
        "maxPricePerGpuHour": options["max_price"],
        "webhookUrl": options["webhook"],
        "healthCheck": {} if options["health_check"] else None,
        "limits": {key: value for key, value in limits.items() if value} or None,
    }
    return {key: value for key, value in fields.items() if value is not None}


def _show_price(session: Session, product: str, fields: dict[str, Any]) -> None:
    from ostler.errors import Unavailable

    try:
        told = session.client.quote(product, **fields)
    except Unavailable as error:
        say(f"Its price cannot be told now: {error.message}. A create is accepted all the same.")
        return
    say(f"{told['productName']}, {told['billingMode']}, {told['region']}: ${told['pricePerHour']} per hour.")


def _wait(session: Session, instance_id: str, name: str, wanted: str, timeout: str | None) -> None:
    last = ""

    def note(progress: Progress) -> None:
        nonlocal last
        status = progress.instance["status"] if progress.instance else "unknown"
        more = "no answer, trying again" if progress.problem else progress.waiting_for
        line = f"{status}  {more}".strip()
        if line != last:
            last = line
            say(f"{line}  ({span(progress.seconds)})")

    seconds = seconds_of(timeout) if timeout else None
    began = time.monotonic()
    try:
        found = session.client.wait_until(instance_id, wanted, timeout=seconds, on_progress=note)
    except KeyboardInterrupt:
        say(f"No longer waiting; {name} goes on.")
        say(f"  follow  ostler events -f {instance_id}")
        say(f"  delete  ostler rm {instance_id}")
        raise SystemExit(INTERRUPTED) from None
    say(f"{name} is {found['status']} after {span(time.monotonic() - began)}.")
    session.show(found, _endpoints(found))


def _endpoints(one: Instance) -> list[str]:
    lines = [f"{end['type']} {end['port']}  {end['endpoint']}" for end in one.get("portMappings", [])]
    if any(end["port"] == 22 for end in one.get("portMappings", [])):
        lines.append(f"ssh  ostler ssh {shlex.quote(one['name'])}")
    return lines or [one["instanceId"]]


@click.command()
@click.option("--all", "everything", is_flag=True, help="Terminated ones too.")
@click.option("--status")
@click.option("-w", "--watch", is_flag=True, help="Again every two seconds, until Ctrl-C.")
@_pass
def ls(session: Session, everything: bool, status: str | None, watch: bool) -> None:
    """Instances, newest first."""
    while True:
        found = [
            one
            for one in session.client.instances(status=status)
            if everything or status or one["status"] != "terminated"
        ]
        if watch and not session.plain:
            click.clear()
        session.show(found, _table(session, found))
        if not watch:
            return
        try:
            time.sleep(2)
        except KeyboardInterrupt:
            return


def _table(session: Session, found: list[Instance]) -> list[str]:
    rows = [["NAME", "STATUS", "MACHINE", "AGE", "$/H", "COST", "ENDS"]]
    for one in found:
        machine = " ".join(filter(None, (one.get("productName"), one.get("region"))))
        cost = one.get("cost")
        spent = cost["soFarUsd"] if cost else "-"
        age = span(ago(one["createdAt"]))
        rows.append([one["name"], one["status"], machine or "-", age, per_hour(one), str(spent), ends(one)])
    return table(rows, [why(one) for one in found], plain=session.plain)


@click.command()
@one_instance
@_pass
def show(session: Session, name: str) -> None:
    """Everything that is known of an instance."""
    one = session.client.get(session.find(name)["instanceId"])
    status = click.style(one["status"], fg=COLOURS.get(one["status"]))
    if session.plain or os.environ.get("NO_COLOR"):
        status = one["status"]
    lines = [
        f"{one['name']}  {status}",
        f"  id  {one['instanceId']}",
        f"  age  {span(ago(one['createdAt']))}",
    ]
    lines += [f"  {key}  {value}" for key, value in one.items() if key in _SHOWN]
    lines += [f"  {line}" for line in _endpoints(one)] if one.get("portMappings") else []
    session.show(one, lines + ([f"  {why(one)}"] if why(one) else []))


_SHOWN = (
    "productName",
    "region",
    "billingMode",
    "pricePerGpuHour",
    "novitaInstanceId",
    "webhookUrl",
    "stale",
)


def _operating(what: str, about: str, wanted: str) -> click.Command:
    @click.command(what, help=about)
    @click.argument("names", nargs=-1, required=True, shell_complete=_complete)
    @click.option("--wait", is_flag=True, help="Until it is done.")
    @_timeout
    @_pass
    def operate(session: Session, names: tuple[str, ...], wait: bool, timeout: str | None) -> None:
        chosen = [session.find(name) for name in names]
        done = _each(chosen, lambda one: getattr(session.client, what)(one["instanceId"]))
        for one in chosen if wait else ():
            _wait(session, one["instanceId"], one["name"], wanted, timeout)
        if not wait:
            session.show(done, [f"{told['instanceId']}  {told['status']}" for told in done])
        if len(done) < len(chosen):
            raise SystemExit(FAILED)

    return operate


def _each(chosen: list[Instance], act: Any) -> list[Any]:
    """All of them are tried; with one alone its error decides the exit code."""
    from ostler.errors import OstlerError

    done = []
    for one in chosen:
        try:
            done.append(act(one))
        except OstlerError as error:
            if len(chosen) == 1:
                raise
            say(f"{one['name']}: " + "\n".join(explain(error)))
    if len(chosen) > 1:
        say(f"{len(done)} of {len(chosen)} accepted.")
    return done


@click.command()
@click.argument("names", nargs=-1, required=True, shell_complete=_complete)
@click.option("--wait", is_flag=True, help="Until Novita has confirmed it.")
@_timeout
@_pass
def rm(session: Session, names: tuple[str, ...], wait: bool, timeout: str | None) -> None:
    """Delete machines: says what is lost, and asks."""
    chosen = [session.find(name) for name in names]
    for one in chosen:
        cost = one.get("cost")
        spent = f" and has cost ${cost['soFarUsd']}" if cost else ""
        disk = (
            f" Its disk ({one['rootfsSize']} GB) is lost." if one.get("rootfsSize") else " Its disk is lost."
        )
        where = f" on {one['productName']}" if one.get("productName") else ""
        say(f"{one['name']} is {one['status']}{where}{spent}.{disk}")
    session.confirm("Delete it?" if len(chosen) == 1 else f"Delete these {len(chosen)}?", default=False)
    done = _each(chosen, lambda one: session.client.delete(one["instanceId"]))
    for one in chosen if wait else ():
        _wait(session, one["instanceId"], one["name"], "gone", timeout)
    if not wait:
        session.show(
            done, [f"{told['instanceId']}  {told['status']}; gone once Novita confirms it" for told in done]
        )
    if len(done) < len(chosen):
        raise SystemExit(FAILED)


@click.command()
@one_instance
@click.option(
    "--for", "wanted", type=click.Choice(["up", "running", "ready", "stopped", "gone"]), default="up"
)
@_timeout
@_pass
def wait(session: Session, name: str, wanted: str, timeout: str | None) -> None:
    """Wait until it is so: 0; 1 if it cannot come any more; 124 if it takes too long."""
    one = session.find(name)
    _wait(session, one["instanceId"], one["name"], wanted, timeout)


# What Novita gives as a command is run only if it is no more than a place to go to.
_SSH = re.compile(
    r"ssh(?: -p (?P<port>\d{1,5}))? (?P<place>[\w.-]+@[A-Za-z0-9][\w.-]*)(?: -p (?P<late>\d{1,5}))?"
)


@click.command(context_settings={"ignore_unknown_options": True})
@one_instance
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@_pass
def ssh(session: Session, name: str, command: tuple[str, ...]) -> None:
    """Open a shell in the machine, or run a command there; ssh's exit code is ours."""
    told = session.client.connection(session.find(name)["instanceId"]).get("ssh") or {}
    given = " ".join(str(told.get("command", "")).split())
    parts = _SSH.fullmatch(given)
    if not given:
        fail(f"Novita gives no ssh command for {name}.", "Does its template open port 22?", FAILED)
    if not parts:
        fail(
            f"Not run, as it is not of the usual form: {given}",
            "Run it yourself if you trust it.",
            NOT_ALLOWED,
        )
    port = parts["port"] or parts["late"]
    if told.get("password"):
        say(f"password: {told['password']}")
    arguments = ["ssh", *(["-p", port] if port else []), parts["place"], *command]
    os.execvp("ssh", arguments)  # noqa: S606, S607  # the user's own ssh, with a checked place


@click.command()
@one_instance
@click.option("-f", "--follow", is_flag=True, help="And what comes, until it is gone or Ctrl-C.")
@_pass
def events(session: Session, name: str, follow: bool) -> None:
    """What happened to it, oldest first."""
    from ostler.errors import Unavailable, Unreachable

    instance_id, last = session.find(name)["instanceId"], 0
    while True:
        try:
            for one in session.client.events(instance_id):
                if one["sequence"] > last:
                    last = one["sequence"]
                    fault = one.get("error")
                    words = fault["message"] if fault else one.get("reason", "")
                    line = f"{one['timestamp']}  {one['type']}  {one['actor']}  {words}".rstrip()
                    session.show(one, [line])
                    follow = follow and one["status"] != "terminated"
        except (Unreachable, Unavailable) as error:
            if not follow:
                raise
            say(f"{error}; trying again")
        if not follow:
            return
        try:
            time.sleep(2)
        except KeyboardInterrupt:
            return


@click.command()
@one_instance
@_pass
def cost(session: Session, name: str) -> None:
    """What an instance has cost."""
    told = session.client.cost_page(session.find(name)["instanceId"])
    session.show(told, [f"${told['totalUsd']} so far, ${told['perHourUsd']} per hour"])


COMMANDS = (
    create,
    ls,
    show,
    _operating("start", "Start machines that are stopped.", "up"),
    _operating("stop", "Stop machines; their disks are kept.", "stopped"),
    _operating("restart", "Restart machines.", "up"),
    rm,
    wait,
    ssh,
    events,
    cost,
)
