"""`make run`: starts the whole service on this machine, says how to use it, and stops it again."""

import argparse
import os
import signal
import sys
import time
from pathlib import Path
from types import FrameType

from local.paths import STATE, display_path
from local.ports import Ports
from local.settings import settings_from
from local.stack import LocalStack
from ops.command import command
from ops.novita_account import NovitaAccount

WATCH_SECONDS = 0.5
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@command
def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m local.run", description=__doc__)
    parser.add_argument("--stop-with-parent", action="store_true", help="stop when the parent process ends")
    parent = os.getppid() if parser.parse_args().stop_with_parent else None
    _stop_on_signals()
    try:
        with _stack() as stack:
            _welcome(stack)
            while parent in (None, os.getppid()):
                stack.watch()
                time.sleep(WATCH_SECONDS)
            _ignore_signals()
    except KeyboardInterrupt:
        _say("stopped")
    return 0


def _stack() -> LocalStack:
    return LocalStack(
        Path(os.environ.get("OSTLER_STATE_DIR") or STATE),
        Ports.read(os.environ),
        settings_from(os.environ),
        real_novita=NovitaAccount.from_environment(os.environ),
        api_key=os.environ.get("OSTLER_API_KEY"),
        webhook_secret=os.environ.get("WEBHOOK_SECRET"),
        fresh=os.environ.get("FRESH", ""),
        say=_say,
    )


def _welcome(stack: LocalStack) -> None:
    key_file = display_path(stack.state.api_key)
    bearer = f'-H "Authorization: Bearer $(cat {key_file})"'
    novita = f"real, {stack.novita_url}" if stack.real_novita else f"simulated, {stack.novita_url}"
    simulator_log = "" if stack.real_novita else f", {display_path(stack.state.log('simulator'))}"
    _say(f"""
  the page          {stack.api_url}/#key={stack.api_key}
  API, docs         {stack.api_url}  {stack.api_url}/docs
  API key           {stack.api_key} (in {key_file})
  Novita            {novita}
  AWS emulator      {stack.emulator_url}
  functions' logs   {display_path(stack.state.log("functions"))}
  other logs        {display_path(stack.state.log("emulator"))}{simulator_log}

Try:
  curl {stack.api_url}/health
  curl {bearer} {stack.api_url}/api/instances
  {_example_request(stack, bearer)}

Ctrl-C stops it; what it knows is kept in {display_path(stack.state.path)}.
ostler is ready on {stack.api_url}""")


def _example_request(stack: LocalStack, bearer: str) -> str:
    """A create, unless that would cost somebody money."""
    if stack.real_novita:
        return f"curl {stack.api_url}/openapi.json"
    body = '{"name": "first", "productName": "RTX 4090 24GB", "templateId": "107672"}'
    return f"curl {bearer} -H 'Content-Type: application/json' -d '{body}' {stack.api_url}/api/instances"


def _say(line: str) -> None:
    print(line, flush=True)


def _stop_on_signals() -> None:
    for number in STOP_SIGNALS:
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:  # nohup means it
            signal.signal(number, _stop)


def _stop(_number: int, _frame: FrameType | None) -> None:
    _ignore_signals()
    raise KeyboardInterrupt


def _ignore_signals() -> None:
    """Stopping takes a moment, and what is being saved must not be interrupted."""
    for number in STOP_SIGNALS:
        signal.signal(number, signal.SIG_IGN)


if __name__ == "__main__":
    sys.exit(main())
