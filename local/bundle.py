"""The functions' code as the emulator gets it: ours alone, since their dependencies are in its environment.

The asset that is deployed for real holds wheels for arm64, which this machine may not be able to load.
"""

import hashlib
import io
import py_compile
import sys
import tempfile
import zipfile
from importlib.util import cache_from_source
from pathlib import Path

from local.paths import FUNCTIONS, ROOT

EPOCH = (1980, 1, 1, 0, 0, 0)


def source_files() -> list[Path]:
    return sorted(
        file
        for file in FUNCTIONS.rglob("*")
        if file.is_file() and "__pycache__" not in file.parts and file.name != "requirements.txt"
    )


def bundle_key() -> str:
    """Named after the sources, as compiled code is not the same bytes each time."""
    digest = hashlib.sha256(sys.version.encode())
    for file in source_files():
        digest.update(f"{file.relative_to(ROOT)}\0".encode() + file.read_bytes() + b"\0")
    return f"{digest.hexdigest()}.zip"


def bundle() -> bytes:
    """With compiled code inside, or each new process of each function would compile all of it again."""
    archive = io.BytesIO()
    with (
        zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as zipped,
        tempfile.TemporaryDirectory() as folder,
    ):
        for file in source_files():
            name = file.relative_to(ROOT)
            _add(zipped, name, file.read_bytes())
            if file.suffix == ".py":
                _add(zipped, Path(cache_from_source(str(name))), _compiled(file, name, Path(folder)))
    return archive.getvalue()


def _compiled(file: Path, name: Path, folder: Path) -> bytes:
    target = folder / "compiled.pyc"
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH  # unpacking gives the source a new time
    py_compile.compile(str(file), str(target), dfile=str(name), doraise=True, invalidation_mode=mode)
    return target.read_bytes()


def _add(zipped: zipfile.ZipFile, name: Path, content: bytes) -> None:
    entry = zipfile.ZipInfo(name.as_posix(), EPOCH)
    entry.external_attr = 0o644 << 16
    entry.compress_type = zipfile.ZIP_DEFLATED
    zipped.writestr(entry, content)
