"""What arguments and options have in common: durations, pairs, and names that a shell completes."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

import click

from ostler.cli.session import Session
from ostler.cli.words import COLOURS, seconds_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ostler.client import Ostler

    _TextParam = click.ParamType[str]
    _PairParam = click.ParamType[tuple[str, str]]
else:  # generic only in newer versions of click
    _TextParam = _PairParam = click.ParamType


class Duration(_TextParam):
    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            seconds_of(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)
        return str(value)


class Pair(_PairParam):
    def __init__(self, form: str, separator: str) -> None:
        self.name, self.separator = form, separator

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value[0], value[1]
        name, found, rest = str(value).partition(self.separator)
        if not name or not found:
            self.fail(f"{value!r} is not of the form {self.name}", param, ctx)
        return name, rest


class Variable(Pair):
    def __init__(self) -> None:
        super().__init__("NAME[=VALUE]", "=")

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        """A name alone has this shell's value, so that a secret is in no history and no list of processes."""
        if isinstance(value, str) and value and "=" not in value:
            if value not in os.environ:
                self.fail(f"{value} has no value here: write {value}=VALUE, or set it", param, ctx)
            value = (value, os.environ[value])
        return super().convert(value, param, ctx)


def _hasty_client(context: click.Context) -> Ostler:
    """For completion: who presses the tab key waits two seconds at most."""
    from ostler.client import Ostler
    from ostler.config import find_target

    flags = context.find_root().params
    target = find_target(flags.get("url"), flags.get("key"), flags.get("profile"))
    return Ostler(target.url, target.key, retry_for=0, timeout=2)


def complete_instances(context: click.Context, _param: click.Parameter, begun: str) -> list[str]:
    """Names of living instances; silent where the service cannot be asked."""
    from ostler.errors import OstlerError

    try:
        found = _hasty_client(context).page(limit=100)["instances"]
    except OstlerError:
        return []
    living = [one["name"] for one in found if one["status"] != "terminated"]
    return _typed(name for name in living if name.startswith(begun))


def _typed(words: Iterable[str]) -> list[str]:
    """As one would type them: bash alone puts them on the line as they are, and a name may hold a `;`."""
    if os.environ.get("_OSTLER_COMPLETE") != "bash_complete":
        return list(words)
    return [re.sub(r"([^\w@%+=:,./-])", r"\\\1", word) for word in words]


def complete_products(context: click.Context, _param: click.Parameter, begun: str) -> list[str]:
    from ostler.errors import OstlerError

    try:
        found = _hasty_client(context).products()
    except OstlerError:
        return []
    return _typed(sorted({one["name"] for one in found if one["name"].startswith(begun)}))


def complete_statuses(_context: click.Context, _param: click.Parameter, begun: str) -> list[str]:
    return [status for status in COLOURS if status.startswith(begun)]


def complete_profiles(_context: click.Context, _param: click.Parameter, begun: str) -> list[str]:
    from ostler.config import read_profiles

    return [name for name in read_profiles().sections() if name.startswith(begun)]


one_instance = click.argument("name", shell_complete=complete_instances)
some_instances = click.argument("names", nargs=-1, required=True, shell_complete=complete_instances)
timeout_option = click.option(
    "--timeout", type=Duration(), help="Stop waiting after so long (exit code 124)."
)
on_reclaim_option = click.option(
    "--on-reclaim",
    type=click.Choice(["none", "restart", "replace"]),
    help="What to do when a spot machine is taken away.",
)
pass_session = click.make_pass_decorator(Session)
