"""What every command needs: the client, names to ids, output, questions, and exit codes."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from functools import cached_property
from shutil import get_terminal_size
from textwrap import fill
from typing import TYPE_CHECKING, Any, NoReturn

import click

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ostler.client import Ostler
    from ostler.config import Target
    from ostler.errors import ApiError, OstlerError
    from ostler.models import Instance

FAILED, USAGE, NOT_FOUND, NOT_ALLOWED, UNAVAILABLE, TOO_LONG, INTERRUPTED = 1, 2, 3, 4, 5, 124, 130
_RETRY_SECONDS = 20.0
_ID_LENGTH, _SHORTEST_BEGINNING = 31, 4


@dataclass
class Session:
    url: str | None
    key: str | None
    profile: str | None
    json: bool = False
    yes: bool = False
    _said: bool = False

    @cached_property
    def target(self) -> Target:
        from ostler.config import find_target

        return find_target(self.url, self.key, self.profile)

    @cached_property
    def client(self) -> Ostler:
        from ostler.client import Ostler

        return Ostler(self.target.url, self.target.key, retry_for=_RETRY_SECONDS, on_retry=self._trying_again)

    def _trying_again(self, error: OstlerError) -> None:
        """Said once: a command that is silent for long looks as if it hung."""
        if not self._said:
            self._said = True
            say(f"{error}; trying again")

    def within(self, seconds: float) -> None:
        """From now on no request takes longer, and none is tried again for longer."""
        transport = self.client.transport
        transport.retry_for, transport.timeout = seconds, min(transport.timeout, seconds)

    def find(self, text: str) -> Instance:
        """By name, id or the beginning of an id; living ones come first."""
        if text.startswith("inst_") and len(text) == _ID_LENGTH:
            return self.client.get(text)
        found = list(self.client.instances(name=text)) if len(text) <= 100 else []
        begun = text.removeprefix("inst_").upper()
        if not found and len(begun) >= _SHORTEST_BEGINNING:
            beginning = f"inst_{begun}"
            found = [one for one in self.client.instances() if one["instanceId"].startswith(beginning)]
        living = [one for one in found if one["status"] != "terminated"] or found[:1]
        if len(living) == 1:
            return living[0]
        if not living:
            fail(f"No instance is called {text}, and no id begins so.", "See: ostler ls", NOT_FOUND)
        say(f"{text} may be any of {len(living)}:")
        for one in living[:10]:
            say(f"  {one['instanceId']}  {one['name']}  {one['status']}")
        return fail("Give one of these ids.", "", USAGE)

    def find_all(self, texts: Sequence[str]) -> list[Instance]:
        """Each once, however often and by whatever it is named."""
        return list({one["instanceId"]: one for one in map(self.find, texts)}.values())

    def show(self, value: Any, lines: Sequence[str]) -> None:
        """For programs as JSON, for people as lines; both on stdout."""
        if self.json:
            click.echo(json.dumps(value, indent=2, ensure_ascii=False))
        elif lines:
            click.echo("\n".join(lines))

    def show_rows(
        self,
        value: Any,
        rows: Sequence[Sequence[str]],
        none: str,
        *,
        spare: Sequence[str] = (),
        numbers: Sequence[str] = (),
    ) -> None:
        """A table, of which the first row is the head; `none` is said where there is nothing below it."""
        from ostler.cli.tables import table

        empty = len(rows) == 1
        lines = table(rows, plain=self.plain, spare=spare, numbers=numbers)
        self.show(value, [] if empty and not self.plain else lines)
        if empty and not self.json:
            say(none)

    def show_next(self, value: Any, line: str) -> None:
        """One of many that come one by one: a line each, for programs too."""
        click.echo(json.dumps(value, ensure_ascii=False) if self.json else line)
        sys.stdout.flush()

    @property
    def plain(self) -> bool:
        return not sys.stdout.isatty()

    def confirm(self, question: str) -> None:
        """Yes or no, and neither by accident."""
        if self.yes:
            return
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            fail("This asks first, and there is no terminal to ask on.", "Add --yes.", USAGE)
        if not click.confirm(question, default=None, err=True):
            say("Nothing was done.")
            raise SystemExit(FAILED)


def _set(field: str) -> Any:
    def note(context: click.Context, _parameter: click.Parameter, value: bool) -> None:
        session = context.find_object(Session)
        if value and session:
            setattr(session, field, True)

    return note


json_option = click.option(
    "--json", is_flag=True, expose_value=False, callback=_set("json"), help="JSON on stdout, for programs."
)
yes_option = click.option(
    "-y", "--yes", is_flag=True, expose_value=False, callback=_set("yes"), help="Ask nothing."
)


def say(text: str, colour: str | None = None) -> None:
    """Progress and remarks, on stderr; in a terminal no word is broken at its edge."""
    if sys.stderr.isatty():
        width = get_terminal_size().columns
        text = "\n".join(_wrapped(line, width) for line in text.splitlines())
    click.echo(click.style(text, fg=colour) if colour else text, err=True)


def _wrapped(line: str, width: int) -> str:
    if len(line) <= width:
        return line
    indent = " " * (len(line) - len(line.lstrip()) + 2)
    return fill(line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def fail(what: str, todo: str, code: int) -> NoReturn:
    say(f"{what} {todo}".strip())
    raise SystemExit(code)


def exit_code(error: Exception) -> int:
    from ostler import errors
    from ostler.config import NotConfigured

    for kinds, code in (
        ((errors.WaitTimeout,), TOO_LONG),
        ((errors.NotFound,), NOT_FOUND),
        ((errors.NotAllowed,), NOT_ALLOWED),
        ((errors.Unavailable, errors.Unreachable), UNAVAILABLE),
        ((errors.BadRequest, errors.AmbiguousInstanceName, errors.BadAddress, NotConfigured), USAGE),
    ):
        if isinstance(error, kinds):
            return code
    return FAILED


# What can be done about an error, where its message does not say it.
_TODO = {
    "UNAUTHORIZED": "Which one is used: ostler config. Another one: ostler config set.",
    "FORBIDDEN": "This key lacks the scope for that: see ostler doctor.",
    "PRODUCT_NOT_FOUND": "What there is: ostler products",
    "NO_OPTIMAL_PRODUCT_ANY_REGION": "Other products: ostler products. Not spot: --on-demand.",
    "TEMPLATE_NOT_FOUND": "--template takes the id of a template of yours on Novita's page.",
    "PRICE_CAP_EXCEEDED": "Prices: ostler quote",
    "INSTANCE_PROTECTED": "To allow it: ostler update NAME --no-protect",
    "PURCHASES_PAUSED": "Who paused them: ostler doctor. An admin lets them go on: ostler resume",
    "CIRCUIT_BREAKER_OPEN": "What is wrong: ostler doctor",
    "NOVITA_UNAVAILABLE": "What is wrong: ostler doctor",
    "NOVITA_AUTHENTICATION_FAILED": "What is wrong: ostler doctor",
    "INTERNAL_ERROR": "Whoever runs the service finds it by the request id.",
}


# Where the service speaks to programs.
_MESSAGE = {"UNAUTHORIZED": "The service does not take this key: it is wrong, or was revoked."}


def message_of(error: ApiError) -> str:
    return _MESSAGE.get(error.code, error.message)


def explain(error: Exception) -> list[str]:
    """What happened, to which field, what to do, and what finds it in the log."""
    from ostler.cli.words import reason
    from ostler.errors import ApiError, RouteNotFound, Unreachable

    if isinstance(error, RouteNotFound):
        return [f"This service does not have that yet: it needs a newer version. ({error.code})"]
    if isinstance(error, Unreachable):
        return [str(error), "  Is it running? Which address is used: ostler config"]
    if not isinstance(error, ApiError):
        return [str(error)]
    lines = [f"{message_of(error)}  {error.code}".rstrip()]
    lines += [f"  {field.get('field')}: {field.get('message')}" for field in error.fields]
    regions = error.details.get("regions")
    if isinstance(regions, dict):
        lines += [f"  {region}: {reason(str(code))}" for region, code in regions.items()]
    if closest := error.details.get("closest"):
        lines.append(f"  Closest: {closest}")
    if error.code in _TODO:
        lines.append(f"  {_TODO[error.code]}")
    if error.retry_after:
        lines.append(f"  It may be tried again in {error.retry_after:g} s.")
    if error.request_id:
        lines.append(f"  request {error.request_id}")
    return lines
