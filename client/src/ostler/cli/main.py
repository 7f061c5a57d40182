"""`ostler`: the command line. The client and whatever else is heavy is imported when a command needs it."""

from __future__ import annotations

import os
import sys
from itertools import chain
from typing import Any

import click

from ostler import __version__
from ostler.cli import access, config, create, doctor, instances, money, webhooks
from ostler.cli.arguments import complete_profiles
from ostler.cli.session import FAILED, INTERRUPTED, Session, exit_code, explain, say

SECTIONS = {
    "Machines": (create, instances),
    "In a machine": (access,),
    "Money": (money,),
    "Service": (doctor, webhooks),
    "This program": (config,),
}


class Commands(click.Group):
    """Shown by what they are about, in the order of a machine's life."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  # click's own signature
        return list(self.commands)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        for title, modules in SECTIONS.items():
            found = [command for module in modules for command in module.COMMANDS]
            with formatter.section(title):
                formatter.write_dl([(f"{one.name:10}", one.get_short_help_str(80)) for one in found])


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option("--url", envvar="OSTLER_URL", help="Address of the service.")
@click.option("--key", envvar="OSTLER_API_KEY", help="API key.")
@click.option(
    "--profile", envvar="OSTLER_PROFILE", shell_complete=complete_profiles, help="Profile of the config file."
)
@click.option("--json", "as_json", is_flag=True, help="JSON on stdout, for programs.")
@click.option("-y", "--yes", is_flag=True, help="Ask nothing.")
@click.version_option(__version__, prog_name="ostler")
@click.pass_context
def cli(
    context: click.Context, url: str | None, key: str | None, profile: str | None, as_json: bool, yes: bool
) -> None:
    """Rent GPU machines and look after them.

    Instances are named by name, id, or the beginning of an id. Address and key come from flags, the
    environment (OSTLER_URL, OSTLER_API_KEY), a profile (`ostler config`), or a local copy (`make run`) in
    this folder or above it. Results are on stdout, everything else on stderr.

    \b
    Exit codes: 0    done
                1    failed, or refused by the service
                2    wrong usage
                3    not found
                4    not allowed: key, scope, protection, cap or budget
                5    unavailable: no answer, or try again later
                124  waited longer than --timeout
                130  interrupted
    """
    if profile and _from_flag(context, "profile"):  # what is named on the line is meant
        url = url if _from_flag(context, "url") else None
        key = key if _from_flag(context, "key") else None
    if os.environ.get("NO_COLOR"):
        context.color = False
    context.obj = Session(url, key, profile, as_json, yes)


def _from_flag(context: click.Context, name: str) -> bool:
    return context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE


for module in chain(*SECTIONS.values()):
    for command in module.COMMANDS:
        cli.add_command(command)


def main(arguments: list[str] | None = None) -> Any:
    try:
        code = cli.main(args=arguments, prog_name="ostler", standalone_mode=False)
        sys.stdout.flush()
        sys.exit(code if isinstance(code, int) else 0)
    except click.exceptions.Abort:
        say("Interrupted.")
        sys.exit(INTERRUPTED)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except BrokenPipeError:  # whoever read this has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(FAILED)
    except Exception as error:
        from ostler.errors import OstlerError

        if not isinstance(error, OstlerError):
            raise
        for line in explain(error):
            say(line)
        sys.exit(exit_code(error))


if __name__ == "__main__":
    main()
