"""What all commands do with an ordinary mistake: one line for the person who made it, and an exit code."""

import sys
from collections.abc import Callable
from functools import wraps

from botocore.exceptions import BotoCoreError, ClientError

from local.problems import StartError


def command(main: Callable[[], int]) -> Callable[[], int]:
    @wraps(main)
    def told() -> int:
        try:
            return main()
        except StartError as problem:
            return _told(problem, problem.exit_code)
        except (BotoCoreError, ClientError) as error:
            return _told(error, StartError.exit_code)

    return told


def _told(problem: Exception, exit_code: int) -> int:
    print(f"ostler: {problem}", file=sys.stderr, flush=True)
    return exit_code
