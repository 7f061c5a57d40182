"""`python -m local.keys create|list|revoke …`: `ops.keys` for the copy that `make run` started."""

import os
import sys
from argparse import ArgumentParser

from local.emulator import Emulator
from local.paths import STATE
from local.ports import Ports
from ops.command import command
from ops.keys import parse_arguments, run
from ops.stack import DeployedStack


@command
def main() -> int:
    arguments = parse_arguments(ArgumentParser("python -m local.keys", description="API keys of `make run`"))
    emulator = Emulator(STATE, Ports.read(os.environ).emulator)
    stack = DeployedStack.read(emulator.client("cloudformation"))
    return run(arguments, emulator.table(stack.table_name))


if __name__ == "__main__":
    sys.exit(main())
