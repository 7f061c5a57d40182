"""`ssh`, `logs` and `events`: into a machine, and what it has to say."""

from __future__ import annotations

import os
import re
import sys
import time
from shutil import get_terminal_size
from typing import TYPE_CHECKING

import click

from ostler.cli.arguments import one_instance, pass_session
from ostler.cli.session import FAILED, NOT_ALLOWED, UNAVAILABLE, Session, fail, json_option, say
from ostler.cli.tables import beside
from ostler.cli.words import clock_time, happened

if TYPE_CHECKING:
    from ostler.models import Event

_FOLLOW_SECONDS = 2.0

# What Novita gives as a command is run only if it is no more than a place to go to.
_SSH = re.compile(
    r"ssh(?: -p (?P<port>\d{1,5}))? (?P<place>[\w.-]+@[A-Za-z0-9][\w.-]*)(?: -p (?P<late>\d{1,5}))?"
)


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@json_option
@one_instance
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@pass_session
def ssh(session: Session, name: str, command: tuple[str, ...]) -> None:
    """Open a shell in the machine, or run a command there; ssh's exit code is ours.

    Our options go before NAME; all that comes after it goes to ssh: a command, or options of its own, such
    as -L 8188:localhost:8188 for a port of the machine on this one.
    """
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
    arguments = ["ssh", *(["-p", port] if port else []), parts["place"], *command]
    if session.json:
        session.show({"command": arguments, "password": told.get("password", "")}, [])
        return
    if told.get("password") and sys.stderr.isatty():
        say(f"password: {told['password']}")
    try:
        os.execvp("ssh", arguments)  # noqa: S606, S607  # the user's own ssh, with a checked place
    except FileNotFoundError:
        fail("There is no ssh on this machine's path.", f"It would be: {' '.join(arguments)}", FAILED)


@click.command()
@one_instance
@click.option("--system", is_flag=True, help="The log of its boot instead of what runs in it.")
@click.option("--urls", is_flag=True, help="Where the logs are, and not what is in them.")
@json_option
@pass_session
def logs(session: Session, name: str, system: bool, urls: bool) -> None:
    """Its log as Novita streams it, until it ends or Ctrl-C."""
    one = session.find(name)
    found = session.client.connection(one["instanceId"]).get("logs")
    if not found:
        fail(f"Novita tells no address for the logs of {name}.", f"Look inside: ostler ssh {name}", FAILED)
    if urls or session.json:
        session.show(found, [f"{kind}  {address}" for kind, address in found.items()])
        return
    # Until it runs there is the boot's log alone.
    kind = "system" if system or one["status"] in ("creating", "starting") else "instance"
    address = found.get("system" if kind == "system" else "instance") or found.get("system")
    if address is None:
        fail(f"Novita tells no address for the {kind} log of {name}.", "", FAILED)
    _stream(str(address))


def _stream(address: str) -> None:
    """Novita's own address, so without our key."""
    import requests

    try:
        with requests.get(address, stream=True, timeout=(10, None)) as answer:
            if not answer.ok:
                fail(f"The log answers {answer.status_code} {answer.reason}.", "", UNAVAILABLE)
            for part in answer.iter_content(chunk_size=None):
                sys.stdout.buffer.write(part)
                sys.stdout.buffer.flush()
    except requests.RequestException:
        fail("The log does not answer, or was cut off.", "Its address: ostler logs --urls", UNAVAILABLE)
    except KeyboardInterrupt:
        return


@click.command()
@one_instance
@click.option("-f", "--follow", is_flag=True, help="And what comes, until it is gone or Ctrl-C.")
@json_option
@pass_session
def events(session: Session, name: str, follow: bool) -> None:
    """What happened to it, oldest first."""
    instance_id = session.find(name)["instanceId"]
    if follow:
        _follow(session, instance_id)
        return
    found = list(session.client.events(instance_id))
    session.show(found, [_line(session, one) for one in found])


def _follow(session: Session, instance_id: str) -> None:
    from ostler.errors import Unavailable, Unreachable

    last, alive = 0, True
    try:
        while alive:
            try:
                for one in session.client.events(instance_id):
                    if one["sequence"] > last:
                        last = one["sequence"]
                        session.show_next(one, _line(session, one))
                        alive = one["status"] != "terminated"
            except (Unreachable, Unavailable) as error:
                say(f"{error}; trying again")
            if alive:
                time.sleep(_FOLLOW_SECONDS)
    except KeyboardInterrupt:
        return


def _line(session: Session, one: Event) -> str:
    when, what = f"{clock_time(one['timestamp'])}  ", f"{one['type']:26}  {one['actor']:12}"
    words = happened(one)
    if session.plain or len(f"{when}{what}  {words}") <= get_terminal_size().columns:
        return f"{when}{what}  {words}".rstrip()
    below = beside(" " * len(when), words, plain=False)
    return f"{beside(when, what, plain=False)}\n{below}".rstrip()


COMMANDS = (ssh, logs, events)
