"""Commands on instances: list, show, start, stop, restart, delete, wait, change."""

from __future__ import annotations

import os
import shlex
import time
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NoReturn

import click

from ostler.cli.arguments import (
    Duration,
    Pair,
    complete_instances,
    complete_statuses,
    on_reclaim_option,
    one_instance,
    pass_session,
    some_instances,
    timeout_option,
)
from ostler.cli.create import endpoints
from ostler.cli.session import FAILED, NOT_ALLOWED, Session, explain, fail, json_option, say, yes_option
from ostler.cli.tables import beside, table
from ostler.cli.words import (
    COLOURS,
    UP,
    ago,
    clock_time,
    duration_of,
    ends,
    in_words,
    moment,
    per_hour,
    seconds_of,
    so_far,
    span,
    usd,
    why,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from ostler.models import Instance

_WATCH_SECONDS = 2.0


@click.command()
@click.option("--all", "everything", is_flag=True, help="Terminated ones too.")
@click.option("--status", shell_complete=complete_statuses, help="Those in this status.")
@click.option("--tag", metavar="NAME=VALUE", help="Those with this tag.")
@click.option("--mine", is_flag=True, help="Those that this key made.")
@click.option("-w", "--watch", is_flag=True, help="A live table, until Ctrl-C.")
@json_option
@pass_session
def ls(session: Session, /, watch: bool, **filters: Any) -> None:
    """Instances, newest first."""
    if not watch:
        found = _listed(session, **filters)
        session.show(found, _table(session, found))
        if not session.json:
            say(_summary(found))
        return
    try:
        _watch(session, filters)
    except KeyboardInterrupt:
        return


def _listed(
    session: Session, *, everything: bool, status: str | None, tag: str | None, mine: bool
) -> list[Instance]:
    label, found, value = (tag or "").partition("=")
    if found and ":" not in label:  # as it was set; the API itself writes a colon
        tag = f"{label}:{value}"
    asked = session.client.instances(status=status, tag=tag, owner="me" if mine else None)
    return [one for one in asked if everything or status or one["status"] != "terminated"]


def _table(session: Session, found: list[Instance]) -> list[str]:
    rows = [["NAME", "STATUS", "PRODUCT", "REGION", "AGE", "$/H", "COST", "ENDS", "ID"]]
    for one in found:
        machine = [one.get("productName", "-"), one.get("region", "-")]
        times = [span(ago(one["createdAt"])), per_hour(one), so_far(one), ends(one)]
        rows.append([one["name"], one["status"], *machine, *times, one["instanceId"]])
    if len(rows) == 1 and not session.plain:
        return []
    return table(
        rows,
        [why(one) for one in found],
        plain=session.plain,
        spare=["ID", "REGION", "COST", "ENDS", "PRODUCT"],
        numbers=["AGE", "$/H", "COST"],
        colours=[(1, COLOURS.get(one["status"])) for one in found],
    )


def _summary(found: list[Instance]) -> str:
    if not found:
        return "No instances. Make one: ostler create --help"
    prices = [Decimal(price) for one in found if (price := per_hour(one)) != "-"]
    return f"{len(found)} instance{'s' * (len(found) > 1)}, ${usd(sum(prices))} per hour"


def _watch(session: Session, filters: dict[str, Any]) -> None:
    """In a terminal one table that changes; to a pipe one table after the other."""
    from ostler.errors import Unavailable, Unreachable

    found: list[Instance] = []
    with _screen(session) as show:
        while True:
            problem = ""
            try:
                found = _listed(session, **filters)
            except (Unreachable, Unavailable) as error:
                problem = f"{error}; as it was last seen, trying again"
            show(found, [*_table(session, found), problem or _summary(found)])
            time.sleep(_WATCH_SECONDS)


def _screen(session: Session) -> Any:
    from contextlib import contextmanager
    from shutil import get_terminal_size

    @contextmanager
    def plainly() -> Any:
        yield lambda found, lines: session.show_next(found, "\n".join(lines))

    @contextmanager
    def live() -> Any:
        from rich.live import Live
        from rich.text import Text

        size = get_terminal_size()
        with Live(auto_refresh=False) as screen:

            def draw(_found: Any, lines: list[str]) -> None:
                nonlocal size
                if size != get_terminal_size():  # what is there is broken into other lines now
                    size = get_terminal_size()
                    screen.console.clear()
                screen.update(_cut(lines, Text), refresh=True)

            yield draw

    return plainly() if session.plain or session.json else live()


def _cut(lines: list[str], text: Any) -> Any:
    """As many lines as the terminal has; the last one, which sums up, always."""
    from shutil import get_terminal_size

    room = max(3, get_terminal_size().lines - 1)
    if len(lines) > room:
        lines = [*lines[: room - 2], f"… {len(lines) - room + 1} more lines", lines[-1]]
    coloured = lines if not os.environ.get("NO_COLOR") else [click.unstyle(line) for line in lines]
    return text.from_ansi("\n".join(coloured))


@click.command()
@one_instance
@json_option
@pass_session
def show(session: Session, name: str) -> None:
    """Everything that is known of an instance."""
    one = session.client.get(session.find(name)["instanceId"])
    rows = [(what, told) for what, told in _facts(one) if told]
    width = max(len(what) for what, _ in rows)
    status = click.style(one["status"], fg=COLOURS.get(one["status"]))
    lines = [f"{one['name']}  {status}"] + [
        beside(f"  {what:{width}}  ", told, plain=session.plain) for what, told in rows
    ]
    session.show(one, lines)


def _facts(one: Instance) -> list[tuple[str, str]]:
    machine = ", ".join(
        filter(
            None,
            (
                one.get("productName"),
                f"{one['gpuNum']} GPU{'s' * (one['gpuNum'] > 1)}",
                "on demand" if one["billingMode"] == "onDemand" else one["billingMode"],
                one.get("region"),
            ),
        )
    )
    ended, spot = one.get("endedBy"), one.get("spot", {})
    limits = ", ".join(f"{name} {value}" for name, value in one.get("limits", {}).items())
    reclaim = f"Novita takes it away {in_words(spot['reclaimTime'])}" if spot.get("reclaimTime") else ""
    facts = [
        ("id", one["instanceId"]),
        ("now", why(one)),
        ("notice", reclaim),
        ("ended by", str(ended or "")),
        ("machine", machine),
        ("disk", f"{one['rootfsSize']} GB" if one.get("rootfsSize") else ""),
        ("template", one.get("templateId", "")),
        ("Novita id", one.get("novitaInstanceId", "")),
        ("created", f"{clock_time(one['createdAt'])}, {in_words(one['createdAt'])}"),
        ("ready", f"{clock_time(one['readyAt'])}" if one.get("readyAt") else ""),
        ("per hour", f"${per_hour(one)}" if per_hour(one) != "-" else ""),
        ("cost", so_far(one, "$") if one.get("cost") else ""),
        ("limits", limits),
        ("ends", ends(one).strip("-")),
        ("protected", "yes" if one.get("protected") else ""),
        ("webhook", one.get("webhookUrl", "")),
        ("owner", str(one.get("owner", ""))),
        ("tags", ", ".join(f"{key}={value}" for key, value in one.get("tags", {}).items())),
        ("seen", _seen(one)),
    ]
    return facts + [("endpoint", line) for line in endpoints(one)]


def _seen(one: Instance) -> str:
    if not one.get("stale"):
        return ""
    last = one.get("lastSyncedAt")
    return f"Novita could not be asked; last seen {in_words(last)}" if last else "Novita could not be asked"


def _operating(what: str, about: str, wanted: str) -> click.Command:
    @click.command(what, help=about)
    @some_instances
    @click.option("--wait", "waits", is_flag=True, help="Until it is done.")
    @timeout_option
    @json_option
    @pass_session
    def operate(session: Session, names: tuple[str, ...], waits: bool, timeout: str | None) -> None:
        chosen = session.find_all(names)
        _carry_out(session, chosen, getattr(session.client, what), wanted if waits else None, timeout)

    return operate


def _carry_out(
    session: Session,
    chosen: list[Instance],
    act: Callable[[str], Any],
    wanted: str | None,
    timeout: str | None,
) -> None:
    """All of them are tried, then all are waited for; with one alone its error decides the exit code."""
    from ostler.errors import OstlerError

    done: list[tuple[Instance, Any]] = []
    for one in chosen:
        try:
            done.append((one, act(one["instanceId"])))
        except OstlerError as error:
            if len(chosen) == 1:
                raise
            say(f"{one['name']}: " + "\n".join(explain(error)))
    if len(chosen) > 1:
        say(f"{len(done)} of {len(chosen)} accepted.")
    if not wanted:
        rows = [
            [one["name"], told["status"], *([told["message"]] if session.plain else []), one["instanceId"]]
            for one, told in done
        ]
        lines = table(rows, plain=session.plain, head=False) if rows else []
        session.show([told for _, told in done], lines)
    elif done:
        _wait_for_all(session, done, wanted, timeout)
    if len(done) < len(chosen):
        raise SystemExit(FAILED)


def _wait_for_all(
    session: Session, done: list[tuple[Instance, Any]], wanted: str, timeout: str | None
) -> None:
    """One after the other, and to the last, whatever becomes of one; the first that fails decides."""
    from ostler.cli.progress import NotReached, wait

    until = time.monotonic() + seconds_of(timeout) if timeout else None
    found, code = [], 0
    for number, (one, told) in enumerate(done):
        among = [other for other, _ in done[number:]] if len(done) > 1 else None
        try:
            found.append(wait(session, one, wanted, _left(until), accepted=told, among=among))
        except NotReached as ended:
            if len(done) == 1:
                raise
            found.append(ended.instance or one)
            code = code or ended.code
    places = endpoints(found[0]) if len(found) == 1 else []
    session.show(
        found if len(found) > 1 else found[0],
        places or table([[one["name"], one["status"]] for one in found], plain=session.plain, head=False),
    )
    if code:
        raise SystemExit(code)


@click.command()
@some_instances
@click.option("--release", is_flag=True, help="Let go of it, and leave the machine alone at Novita.")
@click.option("--wait", "waits", is_flag=True, help="Until Novita has confirmed it.")
@timeout_option
@yes_option
@json_option
@pass_session
def rm(session: Session, names: tuple[str, ...], release: bool, waits: bool, timeout: str | None) -> None:
    """Delete machines: says what is lost and what it has cost, and asks."""
    chosen = session.find_all(names)
    _refuse_protected(chosen)
    for one in chosen:
        say(_what_is_lost(one, release))
    if len(chosen) > 1:
        say(_sum_of(chosen))
    what = "Let go of" if release else "Delete"
    session.confirm(f"{what} {chosen[0]['name']}?" if len(chosen) == 1 else f"{what} these {len(chosen)}?")

    def delete(instance_id: str) -> Any:
        return session.client.delete(instance_id, release=release)

    _carry_out(session, chosen, delete, "gone" if waits else None, timeout)


def _refuse_protected(chosen: list[Instance]) -> None:
    """Before anything is asked, and before anything else is deleted."""
    held = [one for one in chosen if one.get("protected") and one["status"] not in ("deleting", "terminated")]
    for one in held:
        say(f"{one['name']} is protected. To allow it: ostler update {shlex.quote(one['name'])} --no-protect")
    if held:
        fail("Nothing was done.", "", NOT_ALLOWED)


def _what_is_lost(one: Instance, release: bool) -> str:
    where = f" on {one['productName']}" if one.get("productName") else ""
    cost = f" and has cost {so_far(one, '$')}" if one.get("cost") else ""
    begin = f"{one['name']} is {one['status']}{where}, {span(ago(one['createdAt']))} old{cost}."
    if release:
        return f"{begin} Its machine stays at Novita, and goes on costing."
    if not one.get("hasMachine", bool(one.get("novitaInstanceId"))):
        return f"{begin} It has no machine, so nothing is lost."
    size = f" ({one['rootfsSize']} GB)" if one.get("rootfsSize") else ""
    kept = " Its network volumes stay." if one.get("networkVolumes") else ""
    return f"{begin} What is on its disk{size} is lost.{kept}"


def _sum_of(chosen: list[Instance]) -> str:
    running = sum(one["status"] in UP for one in chosen)
    costs = [Decimal(one["cost"]["soFarUsd"]) for one in chosen if one.get("cost")]
    cost = f"; together they have cost ${usd(sum(costs))}" if costs else ""
    return f"{len(chosen)} in all, {running} of them running{cost}."


@click.command("wait")
@one_instance
@click.option(
    "--for",
    "wanted",
    type=click.Choice(["up", "running", "ready", "stopped", "gone"]),
    default="up",
    show_default=True,
    help="What to wait for; `up` is ready where health is checked, else running.",
)
@timeout_option
@json_option
@pass_session
def wait_command(session: Session, name: str, wanted: str, timeout: str | None) -> None:
    """Wait until it is up, stopped or gone.

    Exit codes: 0 it is so; 1 it cannot come any more; 3 no such instance; 5 the service does not answer, so
    that nobody knows whether there is one; 124 it takes longer than --timeout.
    """
    from ostler.cli.progress import wait

    until = time.monotonic() + seconds_of(timeout) if timeout else None
    if timeout:
        session.within(seconds_of(timeout))
    one = session.find(name)
    found = wait(session, one, wanted, _left(until))
    session.show(found, endpoints(found))


def _left(until: float | None) -> str | None:
    return f"{max(1, round(until - time.monotonic()))}s" if until else None


@click.command()
@one_instance
@click.argument("duration", type=Duration())
@json_option
@pass_session
def extend(session: Session, name: str, duration: str) -> None:
    """Let it live so much longer: moves every time limit that it has."""
    from datetime import timedelta

    one = session.client.get(session.find(name)["instanceId"])
    more, change = seconds_of(duration), {}
    for field, value in one.get("limits", {}).items():
        if field in ("stopAfter", "deleteAfter"):
            change[field] = duration_of(seconds_of(str(value)) + more)
        if field in ("stopAt", "deleteAt"):
            change[field] = (moment(str(value)) + timedelta(seconds=more)).isoformat()
    if not change:
        _fail_without_limit(one, duration)
    told = session.client.update(one["instanceId"], {"limits": change})
    session.show(told, [f"{told['name']}: {ends(told) if told.get('expiry') else _limits(told)}"])


def _fail_without_limit(one: Instance, duration: str) -> NoReturn:
    """What ends it all the same is none of its time limits: a bound of the deployment, idleness, a budget."""
    others = _other_ends(one)
    what = f"{one['name']} has no time limit" + (f" of its own: it is {others}." if others else " to move.")
    todo = f"To set a limit: ostler update {shlex.quote(one['name'])} --stop-after {duration}"
    fail(what, "" if others else todo, FAILED)


def _other_ends(one: Instance) -> str:
    expiry: dict[str, Any] = {**one.get("expiry", {})}
    found = []
    for end, word in (("stop", "stopped"), ("delete", "deleted")):
        if f"{end}At" in expiry:
            why_so = _WHY_IT_ENDS.get(str(expiry.get(f"{end}Reason")), "")
            found.append(f"{word} {in_words(expiry[f'{end}At'])}{why_so}")
    return " and ".join(found)


_WHY_IT_ENDS = {
    "lifetime": ", the longest that this deployment allows",
    "idle": ", unless somebody uses it",
    "stopped_too_long": ", unless it is started",
    "budget": ", since a budget is spent",
}


def _limits(one: Instance) -> str:
    return ", ".join(f"{name} {value}" for name, value in one.get("limits", {}).items()) or "no limits"


@click.command()
@click.argument("name", shell_complete=complete_instances)
@click.option("--name", "new_name", help="Another name.")
@click.option("--tag", type=Pair("NAME=VALUE", "="), multiple=True, help="Set a tag.")
@click.option("--untag", multiple=True, help="Remove a tag.")
@click.option("--webhook", help="Address that is told of every event; '' for none.")
@on_reclaim_option
@click.option("--protect/--no-protect", default=None, help="Refuse its deletion, or no longer.")
@click.option("--stop-after", type=Duration(), help="Stop it after so long of running.")
@click.option("--delete-after", type=Duration(), help="Delete it after so long.")
@click.option("--stop-at", help="Stop it at this time.")
@click.option("--delete-at", help="Delete it at this time.")
@click.option("--idle-stop-after", type=Duration(), help="Stop it when unused for so long.")
@click.option("--idle-gpu-below", type=float, help="Unused only if its GPUs are below this percentage.")
@click.option("--delete-after-stopped", type=Duration(), help="Delete it when stopped for so long.")
@click.option("--no-limits", is_flag=True, help="Remove its time limits.")
@json_option
@pass_session
def update(session: Session, /, name: str, **options: Any) -> None:
    """Change its name, tags, webhook, protection, limits, or what is done about a reclaim."""
    patch: dict[str, Any] = {}
    if options["new_name"]:
        patch["name"] = options["new_name"]
    if options["webhook"] is not None:
        patch["webhookUrl"] = options["webhook"] or None
    if options["on_reclaim"]:
        patch["onReclaim"] = options["on_reclaim"]
    if options["protect"] is not None:
        patch["protected"] = options["protect"]
    tags: dict[str, Any] = dict(options["tag"]) | dict.fromkeys(options["untag"])
    limits = {
        field: options[option] for field, option in _LIMIT_OPTIONS.items() if options[option] is not None
    }
    patch |= {"tags": tags} if tags else {}
    patch |= {"limits": limits} if limits else {"limits": None} if options["no_limits"] else {}
    if not patch:
        fail("There is nothing to change.", "See: ostler update --help", 2)
    told = session.client.update(session.find(name)["instanceId"], patch)  # type: ignore[arg-type]  # as asked
    session.show(told, [f"{told['name']}: {', '.join(patch)} changed", f"  ends  {ends(told)}"])


@click.command("import")
@click.argument("novita_id")
@click.option("--name", help="By default its name at Novita.")
@json_option
@pass_session
def import_command(session: Session, novita_id: str, name: str | None) -> None:
    """Take a machine under management that exists at Novita."""
    told = session.client.import_machine(novita_id, **({"name": name} if name else {}))
    say(f"{told['name']} is {told['status']}. More: ostler show {told['instanceId']}")
    session.show(told, [told["instanceId"]])


_LIMIT_OPTIONS = {
    "stopAfter": "stop_after",
    "deleteAfter": "delete_after",
    "stopAt": "stop_at",
    "deleteAt": "delete_at",
    "idleStopAfter": "idle_stop_after",
    "idleGpuBelow": "idle_gpu_below",
    "deleteAfterStopped": "delete_after_stopped",
}

COMMANDS = (
    ls,
    show,
    _operating("start", "Start machines that are stopped.", "up"),
    _operating("stop", "Stop machines; their disks are kept, and cost.", "stopped"),
    _operating("restart", "Restart machines.", "up"),
    rm,
    wait_command,
    extend,
    update,
    import_command,
)
