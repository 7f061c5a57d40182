"""What all commands share: errors told in one line instead of a traceback, and exit codes."""

import sys
from collections.abc import Callable
from functools import wraps

from botocore.exceptions import BotoCoreError, ClientError


class CommandError(Exception):
    """Its text says what is in the way and what to do about it."""

    exit_code = 1


class RefusalError(CommandError):
    """Nothing is broken: going on now would do harm, or something else is in the way."""

    exit_code = 2


def command(main: Callable[[], int]) -> Callable[[], int]:
    @wraps(main)
    def wrapped() -> int:
        try:
            return main()
        except CommandError as error:
            return _print_error(error, error.exit_code)
        except (BotoCoreError, ClientError) as error:
            return _print_error(error, CommandError.exit_code)

    return wrapped


def _print_error(error: Exception, exit_code: int) -> int:
    print(f"ostler: {error}", file=sys.stderr, flush=True)
    return exit_code
