"""Finds a Python of the version that the functions run on, to compile for it."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ASK_VERSION = "import sys; print('%d.%d' % sys.version_info[:2])"


def find_python(version: str) -> str | None:
    for candidate in _candidates(version):
        if _answer(candidate, "-S", "-c", ASK_VERSION) == version:
            return candidate
    sys.stderr.write(
        f"warning: no Python {version} found, so the asset is not compiled and starts more slowly when cold; "
        f"`uv python install {version}` gets one\n"
    )
    return None


def _candidates(version: str) -> Iterator[str]:
    yield sys.executable
    uv = Path(sys.executable).with_name("uv")
    yield _answer(str(uv if uv.exists() else "uv"), "python", "find", version)
    yield shutil.which(f"python{version}") or ""
    # pyenv's shims are on the path for every version but only work for the chosen one; uv stops at them.
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    yield from (str(found) for found in sorted(pyenv.glob(f"versions/{version}.*/bin/python{version}")))


def _answer(*command: str) -> str:
    if not command[0]:
        return ""
    try:
        result = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603  # all ours
    except OSError:
        return ""
    return result.stdout.strip() if result.returncode == 0 else ""
