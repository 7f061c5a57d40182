"""The real CDK app's template, synthesised again only when something that goes into it changed."""

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from local.paths import BUILD, CLOUD_ASSEMBLY, ROOT
from ops.command import CommandError
from ops.stack import STACK_NAME

# What cdk.json chooses is for the account; here it could shut out the local key, or change what tests expect.
NO_CONTEXT = "{}"
STAMP = BUILD / "synthesised.json"


def stack_template(say: Callable[[str], None]) -> dict[str, Any]:
    """The template of the stack that runs the service."""
    BUILD.mkdir(exist_ok=True)
    with (BUILD / "synthesis.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # copies that start side by side share the result
        if not _is_fresh():
            say("synthesising the CDK app (only when its sources changed; about 20 s)")
            _synthesise()
            STAMP.write_text(json.dumps({"sources": _sources(), "result": _result()}))
        template: dict[str, Any] = json.loads((CLOUD_ASSEMBLY / f"{STACK_NAME}.template.json").read_text())
        return template


def _is_fresh() -> bool:
    try:
        stamp = json.loads(STAMP.read_text())
    except (OSError, ValueError):
        return False
    # The result is part of it: somebody may have synthesised by hand, with other options.
    return bool(stamp == {"sources": _sources(), "result": _result()})


def _sources() -> str:
    named = [ROOT / name for name in ("app.py", "requirements.txt", "functions/requirements.txt")]
    return _digest([*named, *sorted((ROOT / "infra").rglob("*.py"))])


def _result() -> str:
    return _digest(sorted(CLOUD_ASSEMBLY.glob("*.json")))


def _digest(files: list[Path]) -> str:
    digest = hashlib.sha256()
    for file in files:
        digest.update(f"{file.relative_to(ROOT)}\0".encode() + file.read_bytes() + b"\0")
    return digest.hexdigest()


def _synthesise() -> None:
    if not shutil.which("node"):
        raise CommandError("Node.js 20 or newer is needed to synthesise the CDK app, and there is no `node`.")
    shutil.rmtree(CLOUD_ASSEMBLY, ignore_errors=True)  # the CDK adds to it and never takes anything out
    environment = {**os.environ, "CDK_OUTDIR": str(CLOUD_ASSEMBLY), "CDK_CONTEXT_JSON": NO_CONTEXT}
    command = [sys.executable, "app.py"]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    if done.returncode:
        raise CommandError(f"the CDK app does not synthesise:\n{done.stdout}{done.stderr}")
