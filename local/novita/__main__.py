"""`python -m local.novita --port 8081`: the Novita simulator as a process of its own."""

import argparse
import asyncio
import signal
import sys
from pathlib import Path

from aiohttp import web

from local.novita.context import Context
from local.novita.server import application
from local.novita.state import SimulatorState, load_state, save_state

SHUTDOWN_SECONDS = 0.5
BACKLOG = 1024
HOST = "127.0.0.1"


def main() -> int:
    arguments = _arguments()
    state = load_state(arguments.state) if arguments.state else SimulatorState()
    return asyncio.run(_serve(Context(state), arguments.port, arguments.state))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m local.novita", description=__doc__)
    parser.add_argument("--port", type=int, default=8081, help="0 takes a free one and prints it")
    parser.add_argument("--state", type=Path, help="file that keeps the machines over a clean stop")
    return parser.parse_args()


async def _serve(context: Context, port: int, state_file: Path | None) -> int:
    stop = _stop_signal()
    runner = web.AppRunner(application(context), access_log=None, shutdown_timeout=SHUTDOWN_SECONDS)
    await runner.setup()
    try:
        await web.TCPSite(runner, HOST, port, backlog=BACKLOG).start()
    except OSError as error:
        print(f"novita simulator cannot listen on {HOST}:{port}: {error.strerror}", file=sys.stderr)
        await runner.cleanup()
        return 1
    context.own_url = f"http://{HOST}:{runner.addresses[0][1]}"
    print(f"novita simulator on {context.own_url}", flush=True)
    await stop.wait()
    await runner.cleanup()
    return _save(context.state, state_file) if state_file else 0


def _save(state: SimulatorState, path: Path) -> int:
    try:
        save_state(path, state)
    except OSError as error:
        print(f"state {path} is not written: {error}", file=sys.stderr)
        return 1
    return 0


def _stop_signal() -> asyncio.Event:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    return stop


if __name__ == "__main__":
    sys.exit(main())
