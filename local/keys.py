"""Makes, lists and revokes API keys, of a deployed stack or of the local copy.

python -m local.keys create --name ci --scopes read,write
python -m local.keys list
python -m local.keys revoke key_0123456789ab
"""

import argparse
import os
import sys
from typing import Any

import boto3

from local.emulator import Emulator
from local.paths import STATE
from local.ports import Ports
from ops.command import command
from ops.keys import SCOPES, listed, make, new_key, revoke
from ops.stack import Deployed


@command
def main() -> int:
    given = _arguments().parse_args()
    table = _table(local=given.local)
    if given.command == "create":
        return _create(table, given.name, given.scopes)
    return _list(table) if given.command == "list" else _revoke(table, given.key_id)


def _create(table: Any, name: str, scopes: tuple[str, ...]) -> int:
    key = new_key()
    made = make(table, name=name, scopes=scopes, key=key)
    print(f"{made.id} ({', '.join(made.scopes)}). This is the only time it is shown:", file=sys.stderr)
    print(key)
    return 0


def _list(table: Any) -> int:
    for key in listed(table):
        ended = f"  revoked {key.revoked_at}" if key.revoked_at else ""
        print(f"{key.id}  {key.created_at}  {','.join(key.scopes):16}  {key.name}{ended}")
    return 0


def _revoke(table: Any, key_id: str) -> int:
    if revoke(table, key_id):
        print(f"{key_id} is revoked; functions that have just seen it forget it within 30 s.")
        return 0
    print(f"There is no key {key_id} in force.", file=sys.stderr)
    return 1


def _table(*, local: bool) -> Any:
    if local:
        emulator = Emulator(STATE, Ports.read(os.environ).emulator)
        return emulator.table(Deployed.read(emulator.client("cloudformation")).table_name)
    return boto3.resource("dynamodb").Table(Deployed.read(boto3.client("cloudformation")).table_name)


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m local.keys", description="API keys of Ostler")
    parser.add_argument("--local", action="store_true", help="the copy that `make run` started")
    commands = parser.add_subparsers(dest="command", required=True)
    create = commands.add_parser("create", help="make a key and show it once")
    create.add_argument("--name", required=True, help="whose it is")
    create.add_argument("--scopes", required=True, type=_scopes, help="some of read,write,admin")
    commands.add_parser("list", help="who has keys")
    commands.add_parser("revoke", help="end a key").add_argument("key_id")
    return parser


def _scopes(text: str) -> tuple[str, ...]:
    scopes = tuple(part.strip() for part in text.split(",") if part.strip())
    if unknown := [scope for scope in scopes if scope not in SCOPES]:
        raise argparse.ArgumentTypeError(f"unknown: {', '.join(unknown)} (there are {', '.join(SCOPES)})")
    if not scopes:
        raise argparse.ArgumentTypeError("at least one is needed")
    return scopes


if __name__ == "__main__":
    sys.exit(main())
