"""The world in a file: loaded at the start, saved at the end, never half written."""

import os
import sys
import time
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from local.novita.world import World

WORLD = TypeAdapter(World)


def load(path: Path) -> World:
    """A file that makes no sense is moved aside and the simulator starts empty."""
    if not path.exists():
        return World()
    try:
        return WORLD.validate_json(path.read_bytes())
    except OSError as error:
        print(f"state {path} is not readable, starting empty: {error}", file=sys.stderr)
        return World()
    except ValidationError as error:
        aside = path.with_name(f"{path.name}.corrupt-{int(time.time())}")
        path.replace(aside)
        print(f"state {path} makes no sense, moved to {aside}: {_short(error)}", file=sys.stderr)
        return World()


def save(path: Path, world: World) -> None:
    """Written aside, then moved: registry passwords are in it, so only the owner may read it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(WORLD.dump_json(world, by_alias=True))
        file.flush()
        os.fsync(file.fileno())
    aside.replace(path)


def _short(error: Exception) -> str:
    return str(error).replace("\n", " ")[:200]
