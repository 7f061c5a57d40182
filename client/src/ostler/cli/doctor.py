"""`doctor`: what is wrong with a deployment or local copy, in words and for programs; `pause`, `resume`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from ostler.cli.arguments import pass_session
from ostler.cli.session import FAILED, UNAVAILABLE, Session, json_option, message_of
from ostler.cli.tables import beside
from ostler.cli.words import ago, in_words, now, span, usd

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ostler.client import Ostler
    from ostler.errors import OstlerError
    from ostler.models import Status

_RETRY_SECONDS = 5.0
_OFF_CLOCK_SECONDS, _LATE_SWEEP_SECONDS, _LATE_COMPARISON_SECONDS, _OLD_MESSAGE_SECONDS = 30, 180, 900, 300


@dataclass(frozen=True)
class Check:
    """`alarm`: the alarm, and chapter of docs/runbook.md, that goes with it."""

    name: str
    ok: bool
    message: str
    alarm: str = ""

    def view(self) -> dict[str, Any]:
        alarm = {"alarm": self.alarm} if self.alarm and not self.ok else {}
        return {"check": self.name, "ok": self.ok, "message": self.message, **alarm}

    def line(self, *, plain: bool) -> str:
        mark = click.style("ok   ", fg="green") if self.ok else click.style("WRONG", fg="red")
        chapter = f" (docs/runbook.md, {self.alarm})" if self.alarm and not self.ok else ""
        return beside(f"{mark}  {self.name:15}  ", f"{self.message}{chapter}", plain=plain)


@click.command()
@json_option
@pass_session
def doctor(session: Session) -> None:
    """What is wrong with this deployment or local copy.

    Exit codes: 0 nothing; 1 something; 5 it does not answer, or no address is known.
    """
    checks = list(_examine(session))
    session.show([one.view() for one in checks], [one.line(plain=session.plain) for one in checks])
    if not checks[0].ok:
        raise SystemExit(UNAVAILABLE)
    if not all(one.ok for one in checks):
        raise SystemExit(FAILED)


def _examine(session: Session) -> Iterator[Check]:
    """Without an answer or a valid key there is no more to see; anything else that fails fails alone."""
    from ostler.errors import NotAllowed, OstlerError

    try:
        client = session.client
        client.transport.retry_for = _RETRY_SECONDS
        answer = client.transport.send("GET", "/health")
    except OstlerError as error:
        yield Check("address", False, _no_answer(session, error))
        return
    yield Check("address", True, f"{session.target.url} ({session.target.source}) answers")
    yield from _clock(answer.headers.get("Date"))
    try:
        status: Status | None = client.status()
    except NotAllowed as error:
        yield Check("key", False, message_of(error))
        return
    except OstlerError as error:
        yield Check("status", False, str(error))
        status = None
    parts: list[tuple[str, Callable[[], Iterator[Check]]]] = [("key", lambda: _key(client))]
    if status:
        parts.append(("status", partial(_novita, status)))
    parts += [("circuits", partial(_circuits, client)), ("queues", partial(_queues, client))]
    if status:
        parts += [("status", partial(part, status)) for part in (_sweep, _machines, _purchases)]
    for name, part in parts:
        try:
            yield from part()
        except OstlerError as error:
            yield Check(name, False, str(error))


def _no_answer(session: Session, error: OstlerError) -> str:
    from ostler.config import NotConfigured

    try:
        target = session.target
    except NotConfigured:
        return str(error)
    named = str(error) if target.url in str(error) else f"{target.url}: {error}"
    return f"{named} (address: {target.source})"


def _key(client: Ostler) -> Iterator[Check]:
    yield Check("key", True, f"valid, with the scopes {', '.join(_scopes(client))}")


def _clock(date: str | None) -> Iterator[Check]:
    from email.utils import parsedate_to_datetime

    if date:
        off = (now() - parsedate_to_datetime(date)).total_seconds()
        words = "as the service's" if abs(off) <= _OFF_CLOCK_SECONDS else f"{span(off)} off the service's"
        yield Check("clock", abs(off) <= _OFF_CLOCK_SECONDS, f"this machine's is {words}")


def _scopes(client: Ostler) -> list[str]:
    """An older service does not tell; but what a scope opens is refused before anything is looked at."""
    from ostler.errors import ApiError, Forbidden, RouteNotFound

    try:
        return client.me()["scopes"]
    except RouteNotFound:
        found = ["read"]
    for scope, path in (
        ("write", "/api/instances/inst_none/connection"),
        ("admin", "/api/webhooks/secret?url=none"),
    ):
        try:
            client.transport.send("GET", path)
        except Forbidden:
            continue
        except ApiError:
            pass  # let through, and then not found
        found.append(scope)
    return found


def _novita(status: Status) -> Iterator[Check]:
    error = status.get("comparisonError")
    if error and error["code"] == "NOVITA_AUTHENTICATION_FAILED":
        yield Check("Novita key", False, error["message"], "AccountRefused")
    elif status.get("keyProven") is False:
        words = "not proven yet: it has shown no machine of ours, so nothing is bought with it"
        yield Check("Novita key", False, words, "AccountRefused")
    elif status.get("keyProven"):
        yield Check("Novita key", True, "accepted")
    if error:
        yield Check("Novita", False, error["message"], "NotCompared")
    elif "lastComparedAt" in status:
        yield Check("Novita", True, f"answered {in_words(status['lastComparedAt'])}")
    limit = status["rateLimit"]
    room = limit["used"] < limit["limit"] and "pausedUntil" not in limit
    words = f"{limit['used']} of {limit['limit']} calls used in {limit['windowSeconds']} s"
    yield Check("rate limit", room, words if room else f"{words}: Novita is asked no more for a moment")
    balance = status.get("balance")
    if balance and "availableUsd" in balance:
        left = balance["availableUsd"]
        yield Check("balance", float(left) > 0, f"${usd(left)} at Novita")


def _circuits(client: Ostler) -> Iterator[Check]:
    for one in client.circuits():
        closed = one["state"] == "CLOSED"
        again = f"; tried again {in_words(one['openUntil'])}" if one.get("openUntil") else ""
        state = one["state"].lower().replace("_", " ")
        words = "closed" if closed else f"{state}: such calls to Novita are refused{again}"
        yield Check(f"circuit {one['name']}", closed, words, "CircuitOpen")


def _queues(client: Ostler) -> Iterator[Check]:
    told = client.job_stats()
    for name, queue in told["queues"].items():
        late = queue["oldestAgeSeconds"] > _OLD_MESSAGE_SECONDS
        words = f"{queue['depth'] + queue['inFlight'] + queue['delayed']} messages"
        if queue["oldestAgeSeconds"]:
            words += f", the oldest {span(queue['oldestAgeSeconds'])} old"
        yield Check(f"queue {name}", not late, words, "WebhooksLate" if name == "webhook" else "StepsLate")
    dead = sum(queue["dead"] for queue in told["queues"].values())
    yield Check(
        "dead letters", not dead, f"{dead} that nobody has redriven" if dead else "none", "DeadLetters"
    )
    lost = told["deadLettersNotStored"]
    if lost:
        yield Check("dead letters", False, f"{lost} could not be stored", "DeadLettersNotStored")


def _sweep(status: Status) -> Iterator[Check]:
    for field, words, late, alarm in (
        ("lastSweepAt", "swept", _LATE_SWEEP_SECONDS, "ReconcilerSilent"),
        ("lastComparedAt", "compared with Novita", _LATE_COMPARISON_SECONDS, "NotCompared"),
    ):
        at = status.get(field)
        name = "sweep" if field == "lastSweepAt" else "comparison"
        if not isinstance(at, str):
            yield Check(name, False, f"never {words} yet; a sweep comes every minute", alarm)
        else:
            whole = "" if status.get("comparisonComplete", True) or name == "sweep" else ", not to its end"
            yield Check(name, ago(at) < late, f"{words} {in_words(at)}{whole}", alarm)


def _machines(status: Status) -> Iterator[Check]:
    for field, name, words, alarm in (
        ("missing", "missing", "machines that Novita does not find, though nobody ended them", "Missing"),
        ("orphans", "orphans", "machines with our mark that no instance knows", "Orphans"),
        (
            "orphanDeletionsHeld",
            "held",
            "deletions of orphans held until an admin allows them",
            "DeletionsHeld",
        ),
        ("stuckCleanups", "clean-ups", "machines that Novita does not let us give back", "CleanupStuck"),
    ):
        number = status.get(field) or 0
        if isinstance(number, int):
            yield Check(name, number == 0, f"{number} {words}" if number else "none", alarm)


def _purchases(status: Status) -> Iterator[Check]:
    paused = status["purchasesPaused"]
    by = f" by {status['pausedBy']}" if status.get("pausedBy") else ""
    words = f"paused{by}; an admin lets them go on: ostler resume" if paused else "allowed"
    yield Check("purchases", not paused, words)


@click.command()
@json_option
@pass_session
def pause(session: Session) -> None:
    """Buy and start nothing from now on; stops and deletes go on (admin)."""
    told = session.client.pause()
    session.show(told, ["Nothing is bought or started until: ostler resume"])


@click.command()
@json_option
@pass_session
def resume(session: Session) -> None:
    """Let purchases and starts go on (admin)."""
    told = session.client.resume()
    session.show(told, ["Purchases and starts go on."])


COMMANDS = (doctor, pause, resume)
