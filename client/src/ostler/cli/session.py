"""What every command needs: the client, names to ids, output, questions, and exit codes."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn

import click

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ostler.client import Ostler
    from ostler.models import Instance

FAILED, USAGE, NOT_FOUND, NOT_ALLOWED, UNAVAILABLE, TOO_LONG, INTERRUPTED = 1, 2, 3, 4, 5, 124, 130


@dataclass
class Session:
    url: str | None
    key: str | None
    profile: str | None
    json: bool
    yes: bool

    @cached_property
    def client(self) -> Ostler:
        from ostler.client import Ostler
        from ostler.config import find_target

        target = find_target(self.url, self.key, self.profile)
        return Ostler(target.url, target.key)

    def find(self, text: str) -> Instance:
        """By name, id or the beginning of an id; living ones come first."""
        if text.startswith("inst_") and len(text) == 31:
            return self.client.get(text)
        found = list(self.client.instances(name=text)) if len(text) <= 100 else []
        if not found:
            starts = (text, f"inst_{text}")
            found = [one for one in self.client.instances() if one["instanceId"].startswith(starts)]
        living = [one for one in found if one["status"] != "terminated"] or found[:1]
        if len(living) == 1:
            return living[0]
        if not living:
            fail(f"No instance is called {text}, and no id begins so.", "See: ostler ls", NOT_FOUND)
        ids = ", ".join(one["instanceId"] for one in living)
        return fail(f"{text} may be any of {len(living)}: {ids}.", "Give one of these ids.", USAGE)

    def show(self, value: Any, lines: Sequence[str]) -> None:
        """For programs as JSON, for people as lines; both on stdout."""
        text = json.dumps(value, indent=2, ensure_ascii=False) if self.json else "\n".join(lines)
        click.echo(text)

    @property
    def plain(self) -> bool:
        return not sys.stdout.isatty()

    def confirm(self, question: str, *, default: bool) -> None:
        if self.yes:
            return
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            fail("This asks first, and there is no terminal to ask on.", "Add --yes.", USAGE)
        if not click.confirm(question, default=default, err=True):
            say("Nothing was done.")
            raise SystemExit(FAILED)


def say(text: str) -> None:
    """Progress and remarks, on stderr."""
    click.echo(text, err=True)


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
        ((errors.BadRequest, errors.AmbiguousInstanceName, NotConfigured), USAGE),
    ):
        if isinstance(error, kinds):
            return code
    return FAILED


def explain(error: Exception) -> list[str]:
    """What happened, where, and what finds it in the log."""
    from ostler.errors import ApiError, RouteNotFound

    if isinstance(error, RouteNotFound):
        return [f"This service does not have that yet: it needs a newer version. ({error.code})"]
    if not isinstance(error, ApiError):
        return [str(error)]
    lines = [f"{error.message}  {error.code}".rstrip()]
    lines += [f"  {field.get('field')}: {field.get('message')}" for field in error.fields]
    regions = error.details.get("regions")
    if isinstance(regions, dict):
        lines += [f"  {region}: {reason}" for region, reason in regions.items()]
    if error.retry_after:
        lines.append(f"  It may be tried again in {error.retry_after:g} s.")
    if error.request_id:
        lines.append(f"  request {error.request_id}")
    return lines
