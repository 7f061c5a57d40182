"""`ostler`: the command line. The client is imported when a command needs it."""

from __future__ import annotations

import sys
from typing import Any

import click

from ostler.cli import instances, market, more
from ostler.cli.session import FAILED, INTERRUPTED, Session, exit_code, explain, say


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option("--url", envvar="OSTLER_URL", help="Address of the service.")
@click.option("--key", envvar="OSTLER_API_KEY", help="API key.")
@click.option("--profile", envvar="OSTLER_PROFILE", help="Profile of the config file.")
@click.option("--json", "as_json", is_flag=True, help="JSON on stdout, for programs.")
@click.option("-y", "--yes", is_flag=True, help="Ask nothing.")
@click.pass_context
def cli(
    context: click.Context, url: str | None, key: str | None, profile: str | None, as_json: bool, yes: bool
) -> None:
    """Rent GPU machines and look after them.

    Instances are named by name, id, or the beginning of an id. Exit codes: 0 done, 1 failed, 2 usage, 3 not
    found, 4 not allowed, 5 unavailable, 124 waited too long.
    """
    context.obj = Session(url, key, profile, as_json, yes)


for command in (*instances.COMMANDS, *more.COMMANDS, *market.COMMANDS):
    cli.add_command(command)


def main(arguments: list[str] | None = None) -> Any:
    try:
        code = cli.main(args=arguments, prog_name="ostler", standalone_mode=False)
        sys.exit(code if isinstance(code, int) else 0)
    except click.exceptions.Abort:
        say("Interrupted.")
        sys.exit(INTERRUPTED)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except BrokenPipeError:
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
